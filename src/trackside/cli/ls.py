"""`trackside ls`: the runs of a folder."""

import contextlib
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from trackside.cli.parser import Parser
from trackside.sinks.terminal import escape_controls
from trackside.store import RunSummary, list_runs, runs_folder

SUMMARY = "list the runs of a folder"
_COLUMNS = ("STARTED", "NAME", "STATE", "RANKS", "STEP", "TOOK", "FOLDER")


def main(arguments: Sequence[str]) -> int:
    """Print the runs, newest first.

    Raises:
        RunFolderError: the folder does not exist.
    """
    parser = Parser("ls", SUMMARY)
    parser.add_argument("dir", nargs="?", help="folder that holds run folders (TRACKSIDE_DIR; default: runs)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(list(arguments))
    directory = Path(options.dir or os.environ.get("TRACKSIDE_DIR") or "runs")
    root = runs_folder(directory) if directory.is_dir() else directory
    runs = list_runs(root)
    if not runs:
        words = f"no run in {root.absolute()}; runs lie where --dir or TRACKSIDE_DIR said, by default in ./runs"
        print(escape_controls(f"trackside ls: {words}"), file=sys.stderr)
    if options.json:
        print(msgspec.json.encode(runs).decode())
        return 0
    if not runs:
        return 0
    rows = [_COLUMNS, *map(_row, runs)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS) - 1)]
    for row in rows:
        print("  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]))
    return 0


def _row(run: RunSummary) -> tuple[str, ...]:
    started = "unknown"
    if run.started_at:
        with contextlib.suppress(ValueError, OverflowError, OSError):  # no year that there is
            started = datetime.fromtimestamp(run.started_at, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    state = run.state_word
    if run.open:
        state += " (controller gone)" if run.controller_gone else " (open)"
    cells = (
        started,
        run.name,
        state,
        _text(run.world_size),
        _text(run.step),
        _took(run.elapsed_seconds),
        run.directory,
    )
    return tuple(escape_controls(cell) for cell in cells)


def _text(number: int | None) -> str:
    return "" if number is None else str(number)


def _took(seconds: float | None) -> str:
    if seconds is None or not 0 <= seconds < 1e12:
        return ""
    hours, minutes = int(seconds // 3600), int(seconds // 60 % 60)
    return f"{hours}h {minutes}m" if hours else f"{minutes}m {int(seconds % 60)}s" if minutes else f"{seconds:.1f}s"
