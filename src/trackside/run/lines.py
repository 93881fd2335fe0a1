"""How a long line stands on a terminal: broken between words, what follows aligned under its text."""

import re
import textwrap

NARROWEST = 50
"""Columns; where there are fewer, the terminal breaks lines as it likes."""
_HEAD = re.compile(r" {9,}| {2}(?:info|warn|critical|verdict|now|before|phases|shares) +")
"""Before sentences; other entries hold addresses, paths and commands, which are there to be copied."""
_CODE = re.compile(r"`[^`]*`")
_HELD = "\0"


def hang(line: str, columns: int) -> list[str]:
    """The lines that an entry such as `  warn     straggler: …` is on a terminal.

    A word, what stands between backticks and a command on a line of its own are not broken.

    Args:
        line: without controls.
        columns: of the terminal; 0: none, or unknown.
    """
    head = _HEAD.match(line)
    if head is None or len(line) <= columns or columns < NARROWEST or line.startswith("trackside ", head.end()):
        return [line]
    text = _CODE.sub(lambda code: code[0].replace(" ", _HELD), line[head.end() :])
    lines = textwrap.wrap(
        text,
        columns,
        initial_indent=head[0],
        subsequent_indent=" " * head.end(),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [one.replace(_HELD, " ") for one in lines]
