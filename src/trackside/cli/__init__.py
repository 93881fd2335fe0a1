"""The command line: parse, call, print, exit code; one file a command.

A command's module has `SUMMARY` and `main(arguments) -> exit code`, and is imported only when it is asked for, so that
`trackside run` does not wait for what `trackside view` needs.
"""

import importlib
import io
import os
import shutil
import sys
import textwrap
from collections.abc import Sequence

from trackside._version import __version__
from trackside.cli.parser import Stop
from trackside.errors import TracksideError, UsageError

WRONG_USE = 2
FAILED = 1
INTERRUPTED = 130

COMMANDS = {
    "run": "start a script on every rank, as torchrun does, with a live page and a report",
    "demo": "train a real small model on two local ranks, with the page on",
    "view": "show the page over a finished or running run folder",
    "diagnose": "say who was slow in a run, and why",
    "ls": "list the runs of a folder",
    "export": "write a run's points as csv, jsonl or parquet",
    "recover": "bring a run that lost its controller to a clean end, with all that its ranks left",
    "controller": "run a controller alone, for launchers that are not ours",
    "doctor": "find out why a script is silent: environment, link, port, GPU libraries",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: without the program's name; None: the process's own.

    Returns:
        The exit code: 0, the training's own under `run`, 2 for wrong use, 1 for what failed.
    """
    if argv is None:
        _begin_in_utf8()
    arguments = list(sys.argv[1:] if argv is None else argv)
    _speak_utf8()
    try:
        return _dispatch(arguments)
    except Stop as stop:
        return stop.code
    except UsageError as error:
        return _complain(arguments, error, WRONG_USE)
    except TracksideError as error:
        return _complain(arguments, error, FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _begin_in_utf8() -> None:
    """Where the locale is not UTF-8, begin again in Python's UTF-8 mode: names of runs, metrics and folders are any text.

    The mode is an option of this interpreter and not its environment, so that a launched script does not inherit it.
    """
    encoding = sys.getfilesystemencoding().lower().replace("-", "")
    if not sys.flags.utf8_mode and encoding != "utf8" and len(sys.orig_argv) > 1:
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])


def _speak_utf8() -> None:
    """What we print is UTF-8 whatever the locale: a name must not end a command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower().replace("-", "") != "utf8":
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def _dispatch(arguments: list[str]) -> int:
    first = arguments[0] if arguments else "--help"
    if first in ("-h", "--help", "help"):
        print(_help())
        return 0 if arguments else WRONG_USE
    if first in ("-V", "--version"):
        print(f"trackside {__version__}")
        return 0
    if first not in COMMANDS:
        what = "option" if first.startswith("-") else "command"
        raise UsageError(f"there is no {what} {first!r}; commands are {', '.join(COMMANDS)}")
    if first == "controller":
        # numpy's library of linear algebra would start a thread a core, which spin for nothing: nobody multiplies here.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        code = importlib.import_module(f"trackside.cli.{first}").main(arguments[1:])
    except SystemExit as stop:  # from a parser that is not ours
        return stop.code if isinstance(stop.code, int) else FAILED
    return int(code)


def _complain(arguments: list[str], error: TracksideError, code: int) -> int:
    from trackside.sinks.terminal import escape_controls

    command = f" {arguments[0]}" if arguments and arguments[0] in COMMANDS else ""
    for line in f"trackside{command}: {error}".split("\n"):
        print(escape_controls(line), file=sys.stderr)
    return code


def _entry(name: str, summary: str) -> str:
    columns = shutil.get_terminal_size().columns
    return textwrap.fill(summary, max(40, columns), initial_indent=name, subsequent_indent=" " * len(name))


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = [_entry(f"  {name:<{width}}  ", summary) for name, summary in COMMANDS.items()]
    return "\n".join(
        [
            "usage: trackside COMMAND ...",
            "",
            "The live dashboard that runs beside a PyTorch training job.",
            "",
            *lines,
            "",
            "trackside COMMAND --help says more; trackside --version prints the version.",
        ]
    )
