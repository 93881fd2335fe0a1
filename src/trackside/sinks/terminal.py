"""The job's terminal: one line at a time, on stderr, with nothing in it that could steer a terminal."""

import sys
import unicodedata
from typing import TextIO

from trackside.sinks.quiet import QuietSink

_INVISIBLE = ("Cc", "Cf", "Co", "Cs", "Zl", "Zp")
_LONGEST_LINE = 2000


def escape_controls(text: str) -> str:
    """Return the text on one line, control and direction characters written out as escapes."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_written(c) if unicodedata.category(c) in _INVISIBLE else c for c in text)


def _written(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


class TerminalSink(QuietSink):
    """Prints what the run says.

    Args:
        stream: where to; None: stderr, as it is at the time.
    """

    name = "terminal"

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream

    def print_line(self, line: str) -> None:
        """Print one line. Blocks: for the terminal."""
        stream = self._stream or sys.stderr
        stream.write(escape_controls(line[:_LONGEST_LINE]) + "\n")
        stream.flush()
