"""What came of each fault, kept as data: `docs/explanation/faults.md` is written from it.

With `FAULT_OUTCOMES=FILE` in the environment every test of `tests/faults` that passes leaves its row there, in place of the
one it left before.
"""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path
from typing import Protocol

KEPT = Path(__file__).parent / "outcomes.json"
VARIABLE = "FAULT_OUTCOMES"


class Tell(Protocol):
    """Takes what came of a test's fault, once everything is asserted."""

    def __call__(self, fault: str, *, training: str, points: str, page: str, report: str) -> None: ...


class Outcome:
    """Of one test."""

    def __init__(self) -> None:
        self.row: dict[str, str] | None = None

    def tell(self, fault: str, *, training: str, points: str, page: str, report: str) -> None:
        self.row = {"fault": fault, "training": training, "points": points, "page": page, "report": report}


def keep(path: Path, test: str, row: dict[str, str]) -> None:
    """Put a test's row into the file, by the test's id without the numbers of promises and complaints in it."""
    rows = json.loads(path.read_text()) if path.exists() else {}
    here = re.compile(rf"\b{re.escape(socket.gethostname())}\b")
    rows[re.sub(r"::test_(?:[bd]\d\d_)+", "::test_", test)] = {
        key: here.sub("host-a", text) for key, text in row.items()
    }
    path.write_text(json.dumps(dict(sorted(rows.items())), indent=1, ensure_ascii=False) + "\n")
