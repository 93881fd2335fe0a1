"""`trackside diagnose`: who was slow in a run, and why; finished or still running."""

import os
import sys
from collections.abc import Sequence

import msgspec

from trackside.cli.parser import Parser
from trackside.errors import RunFolderError
from trackside.run.diagnose.words import summary_lines, verdict_line
from trackside.run.lines import hang
from trackside.sinks.terminal import escape_controls
from trackside.store import RunFolder, choose_run
from trackside.wire.documents import Diagnosis

SUMMARY = "say who was slow in a run, and why"


def main(arguments: Sequence[str]) -> int:
    """Print the verdicts of a run, the worst first.

    Raises:
        RunFolderError: no run folder, or nothing in it that a verdict could be based on.
    """
    parser = Parser("diagnose", SUMMARY)
    parser.add_argument("run", metavar="RUN_DIR", help="a run: its folder, or its name in `trackside ls`")
    parser.add_argument("--json", action="store_true", help="print the diagnosis as JSON")
    options = parser.parse_args(list(arguments))
    diagnosis = read_diagnosis(RunFolder.open(choose_run(options.run, os.environ.get("TRACKSIDE_DIR") or "runs")))
    if options.json:
        print(msgspec.json.encode(diagnosis).decode())
        return 0
    columns = os.get_terminal_size(sys.stdout.fileno()).columns if sys.stdout.isatty() else 0
    for line in [*summary_lines(diagnosis, most=1), *details(diagnosis)]:
        print(*hang(escape_controls(line), columns), sep="\n")
    return 0


def read_diagnosis(folder: RunFolder) -> Diagnosis:
    """The diagnosis that a run folder holds.

    Raises:
        RunFolderError: there is none.
    """
    document = folder.read_document().get("diagnosis")
    if document is None:
        raise RunFolderError(
            f"{folder.path} holds no step times, so there is nothing to judge by; step times come from `trackside run`, or "
            "from a script that goes through `mon.batches(loader)`, once some twenty steps are done"
        )
    try:
        diagnosis: Diagnosis = msgspec.convert(document, Diagnosis)
    except msgspec.ValidationError as error:
        raise RunFolderError(f"{folder.document} is not of this version: {error}") from error
    return diagnosis


def details(diagnosis: Diagnosis) -> list[str]:
    """Every verdict, where the time goes, and the shares that are suggested."""
    lines = [f"  {'now' if one.active else 'before':<9}  {verdict_line(one)}" for one in diagnosis.verdicts]
    known = sorted(diagnosis.phases.items(), key=lambda phase: -phase[1])
    total = sum(diagnosis.phases.values())
    if total > 0:
        parts = [f"{name} {seconds * 1000:.1f} ms ({seconds / total:.0%})" for name, seconds in known]
        lines.append(f"  phases     {', '.join(parts)}")
    if diagnosis.balance:
        shares = [f"rank {one.rank} {one.share:.1%} → {one.suggested:.1%}" for one in diagnosis.balance]
        lines.append(f"  shares     {', '.join(shares)}")
    return lines
