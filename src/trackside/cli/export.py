"""`trackside export`: a run's points for other tools."""

import io
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, TextIO

from trackside.cli.parser import Parser
from trackside.errors import UsageError
from trackside.sinks.terminal import escape_controls
from trackside.store import FORMATS, Exported, choose_run, export_run

SUMMARY = "write a run's points as csv, jsonl or parquet"


def main(arguments: Sequence[str]) -> int:
    """Write the points to a file or to stdout; 1 when some could not be read, which are named.

    Raises:
        UsageError: parquet without a file.
        RunFolderError: no run folder.
        StoreError: it could not be read or written.
    """
    parser = Parser("export", SUMMARY)
    parser.add_argument("run", metavar="RUN_DIR", help="a run: its folder, or its name in `trackside ls`")
    parser.add_argument("--format", choices=FORMATS, default="csv", help="default: csv")
    parser.add_argument("--output", metavar="FILE", help="where to (default: stdout)")
    parser.add_argument("--json", action="store_true", help="print what was written as JSON; needs --output")
    options = parser.parse_args(list(arguments))
    if options.output is None and (options.format == "parquet" or options.json):
        wanted = "--format parquet" if options.format == "parquet" else "--json"
        raise UsageError(f"{wanted} needs a file; add --output points.{options.format}")
    run = str(choose_run(options.run, os.environ.get("TRACKSIDE_DIR") or "runs"))
    if options.output is None:
        out: IO[str] = _Escaping(sys.stdout) if sys.stdout.isatty() else sys.stdout  # type: ignore[assignment]
        return _say_missing(export_run(run, options.format, out, None))
    target = Path(options.output).absolute()
    done = _write(run, options.format, target)
    if options.json:
        print(json.dumps({"file": str(target), "points": done.points, "missing": done.missing}))
    else:
        print(escape_controls(f"{done.points:,} points in {target}"), file=sys.stderr)
    return _say_missing(done)


def _say_missing(done: Exported) -> int:
    for words in done.missing:
        print(escape_controls(f"trackside export: {words}"), file=sys.stderr)
    return 1 if done.missing else 0


class _Escaping(io.TextIOBase):
    """A terminal, which must not take what a rank wrote for more than text; a file or a pipe gets it to the letter."""

    def __init__(self, terminal: TextIO) -> None:
        self._terminal = terminal

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        return self._terminal.write("\n".join(map(escape_controls, text.split("\n"))))

    def flush(self) -> None:
        self._terminal.flush()


def _write(run: str, format: str, target: Path) -> Exported:
    if format == "parquet":
        return export_run(run, format, None, target)
    try:
        with target.open("w", encoding="utf-8", newline="") as out:
            return export_run(run, format, out, None)
    except OSError as error:
        raise UsageError(f"{target} cannot be written: {error.strerror}; name another file with --output") from error
