"""`trackside recover`: a clean end for a run that lost its controller."""

import dataclasses
import json
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from trackside.cli.parser import Parser
from trackside.sinks.terminal import escape_controls

SUMMARY = "bring a run that lost its controller to a clean end, with all that its ranks left"


def main(arguments: Sequence[str]) -> int:
    """Replay, take in, write the report, say what came of it.

    Raises:
        RunFolderError: no run folder, or the run has ended or is under way.
        PortTakenError: its controller is still there.
        StoreError: the folder cannot be written.
    """
    parser = Parser("recover", SUMMARY)
    parser.add_argument("run", metavar="RUN_DIR", help="a run folder, with its journal or ended")
    parser.add_argument(
        "--spool",
        metavar="DIR",
        action="append",
        default=[],
        help="another folder with *.spool, *.part and *.ring files of its ranks; may be given several times",
    )
    parser.add_argument("--force", action="store_true", help="also when processes of the run seem to be there")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(list(arguments))
    logging.basicConfig(level=logging.WARNING, format="  trackside recover: %(message)s", stream=sys.stderr)

    from trackside.controller.recovery import recover

    found = recover(Path(options.run), tuple(map(Path, options.spool)), force=options.force)
    if options.json:
        print(json.dumps(dataclasses.asdict(found)))
        return 0
    detail = f": {found.state_detail}" if found.state_detail else ""
    print(escape_controls(f"  recovered  {found.points:,} points; the run {_verb(found.state)}{detail}"))
    for spool in found.spools:
        print(escape_controls(f"  taken in   {spool}"))
    print(escape_controls(f"  report     {found.report}"))
    return 0


def _verb(state: str) -> str:
    return state if state == "finished" else f"has {state}" if state == "failed" else f"was {state}"
