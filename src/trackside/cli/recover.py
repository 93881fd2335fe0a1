"""`trackside recover`: a clean end for a run that lost its controller."""

import argparse
import json
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from trackside.cli.parser import Parser
from trackside.sinks.terminal import escape_controls

SUMMARY = "bring a run that lost its controller to a clean end, with all that its ranks left"


def main(arguments: Sequence[str]) -> int:
    """Replay, take in, write the report, say what came of it; without a run, say what there is to take in.

    Raises:
        RunFolderError: no run folder, or the run has ended or is under way.
        PortTakenError: its controller is still there.
        StoreError: the folder cannot be written.
    """
    parser = Parser("recover", SUMMARY)
    parser.add_argument(
        "run",
        metavar="RUN_DIR",
        nargs="?",
        help="a run: its folder, its name in `trackside ls`, or an id that `trackside recover` lists; without it, lists what "
        "killed processes left on this machine",
    )
    parser.add_argument(
        "--spool",
        metavar="DIR",
        action="append",
        default=[],
        help="another folder with *.spool, *.part and *.ring files of its ranks; may be given several times",
    )
    parser.add_argument(
        "--dir",
        help="folder that holds the run folders; one is made there for what never had any (TRACKSIDE_DIR; default: runs)",
    )
    parser.add_argument("--force", action="store_true", help="also when processes of the run seem to be there")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(list(arguments))
    logging.basicConfig(level=logging.WARNING, format="  trackside recover: %(message)s", stream=sys.stderr)
    return _list(options) if options.run is None else _recover(options)


def _list(options: argparse.Namespace) -> int:
    from trackside.controller.strays import find_strays

    strays = find_strays()
    if options.json:
        print(json.dumps([{"run": one.run, "places": one.places, "command": one.command} for one in strays]))
        return 0
    for one in strays:
        print(escape_controls(f"  left       {one.words}"))
        print(escape_controls(f"             {one.command}"))
    if not strays:
        print("  nothing    no killed process has left anything on this machine; a run is brought to its end with")
        print("             trackside recover RUN_DIR")
    return 0


def _recover(options: argparse.Namespace) -> int:
    from trackside.controller.recovery import recover

    found = recover(_run_of(options), tuple(map(Path, options.spool)), force=options.force)
    if options.json:
        print(msgspec.json.encode(found).decode())
        return 0
    detail = f": {found.state_detail}" if found.state_detail else ""
    print(escape_controls(f"  recovered  {found.points:,} points; the run {_verb(found.state)}{detail}"))
    for spool in found.spools:
        print(escape_controls(f"  taken in   {spool}"))
    print(escape_controls(f"  report     {found.report}"))
    return 0


def _run_of(options: argparse.Namespace) -> Path:
    """The folder of the run that is meant; one is made for what never had any."""
    from trackside.controller.strays import adopt, find_strays
    from trackside.store import choose_run

    directory = Path(options.dir or os.environ.get("TRACKSIDE_DIR") or "runs")
    stray = next((one for one in find_strays() if options.run in (one.name, one.run)), None)
    if stray is None or Path(options.run).exists():
        return choose_run(options.run, directory)
    return stray.folder or adopt(stray, directory)


def _verb(state: str) -> str:
    return state if state == "finished" else f"has {state}" if state == "failed" else f"was {state}"
