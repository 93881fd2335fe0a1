"""Writes `docs/explanation/faults.md`: what each fault that the tests make costs training, points, page and report.

The rows are what the tests left when they last passed: `FAULT_OUTCOMES=tests/faults/outcomes.json pytest tests/faults`. Run
`python scripts/faults.py` after that; a test fails when the page is stale (`--check` does the same).
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from generated import keep_current

ROOT = Path(__file__).resolve().parent.parent
OUTCOMES = ROOT / "tests/faults/outcomes.json"
PAGE = ROOT / "docs/explanation/faults.md"
HEAD = """\
# What a fault costs

Every row is a test that makes the fault happen to real processes, sockets and disks, and asks four questions. Has the training
become what it becomes without Trackside: the same weights to the last bit, the same output, the same exit code or signal? Is
every value that was logged there, once, or said to be lost? Does the page say what is the matter? Does the report?

<!-- This page is written by scripts/faults.py from tests/faults/outcomes.json, which the tests write. -->
"""
GROUPS = {
    "test_program.py": "What a program does",
    "test_processes.py": "Processes that die or stand still",
    "test_machine.py": "A machine that is short of something",
    "test_disk.py": "The run folder's disk",
    "test_mount.py": "A shared mount",
    "test_link.py": "The network",
    "test_strangers.py": "Others at our ports",
}


def page(outcomes: dict[str, dict[str, str]]) -> str:
    """The whole page."""
    return "".join(_parts(outcomes))


def _parts(outcomes: dict[str, dict[str, str]]) -> Iterator[str]:
    yield HEAD
    for file, title in GROUPS.items():
        rows = [row for test, row in outcomes.items() if test.startswith(f"tests/faults/{file}::")]
        yield f"\n## {title}\n\n| fault | training | points | page | report |\n|---|---|---|---|---|\n"
        yield from (_row(row) for row in rows)
        yield f"\nTests: [{file}](../../tests/faults/{file})\n"


def _row(row: dict[str, str]) -> str:
    cells = (
        row[key].replace("|", "\\|").replace("\n", " ") for key in ("fault", "training", "points", "page", "report")
    )
    return f"| {' | '.join(cells)} |\n"


def main() -> int:
    """0 when the page is current, or has been written."""
    return keep_current(PAGE, page(json.loads(OUTCOMES.read_text())))


if __name__ == "__main__":
    sys.exit(main())
