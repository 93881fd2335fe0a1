"""What came of each fault, kept as data: `docs/explanation/faults.md` is written from it.

A test tells it in words that a measurement has borne out: `show` takes the words, what was measured and what it has to be, and
nothing but `show` makes what `tell` takes. With `FAULT_OUTCOMES=FILE` in the environment every test of `tests/faults` that
passes leaves its row there, in place of the one it left before.
"""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path
from typing import Protocol

KEPT = Path(__file__).parent / "outcomes.json"
VARIABLE = "FAULT_OUTCOMES"
_KEY = object()


class Shown:
    """Words that a measurement bears out. Only `show` makes them."""

    __slots__ = ("words",)

    def __init__(self, words: str, key: object = None) -> None:
        if key is not _KEY:
            raise TypeError("words about a fault come from show(words, measured, expected)")
        self.words = words


def show(words: str, measured: object, expected: object) -> Shown:
    """These words, if what was measured is what it has to be; the test fails otherwise."""
    assert measured == expected, f"{words}: {measured!r} is not {expected!r}"
    return Shown(words, _KEY)


Cell = Shown | tuple[Shown, ...]


class Tell(Protocol):
    """Takes what came of a test's fault: of training, points, page and report."""

    def __call__(self, fault: str, *, training: Cell, points: Cell, page: Cell, report: Cell) -> None: ...


class Outcome:
    """Of one test."""

    def __init__(self) -> None:
        self.row: dict[str, str] | None = None

    def tell(self, fault: str, *, training: Cell, points: Cell, page: Cell, report: Cell) -> None:
        cells = {"training": training, "points": points, "page": page, "report": report}
        self.row = {"fault": fault} | {name: "; ".join(_words(cell)) for name, cell in cells.items()}


def _words(cell: Cell) -> list[str]:
    shown = cell if isinstance(cell, tuple) else (cell,)
    if not shown or not all(type(one) is Shown for one in shown):
        raise TypeError(f"{cell!r} was not shown: what is told of a fault comes from show(words, measured, expected)")
    return [one.words for one in shown]


def keep(path: Path, test: str, row: dict[str, str]) -> None:
    """Put a test's row into the file, by the test's id without the numbers of promises and complaints in it."""
    rows = json.loads(path.read_text()) if path.exists() else {}
    here = re.compile(rf"\b{re.escape(socket.gethostname())}\b")
    rows[re.sub(r"::test_(?:[bd]\d\d_)+", "::test_", test)] = {
        key: here.sub("host-a", text) for key, text in row.items()
    }
    path.write_text(json.dumps(dict(sorted(rows.items())), indent=1, ensure_ascii=False) + "\n")
