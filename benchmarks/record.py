"""How a benchmark hands over what it measured: figures with unit and budget, as JSON in `benchmarks/results/`.

A benchmark is a file in this folder that imports this module, runs as a program (`python benchmarks/import_time.py`) and
ends with `save(...)`. `run.py` runs them all, `table.py` writes `RESULTS.md` from what they saved.
"""

import json
import os
import platform
import subprocess
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number.

    Args:
        what: what was measured, as a reader of the table wants it.
        value: the number; None: it could not be measured here, and `note` says why.
        unit: `ms`, `µs`, `MB`, `points`, `%`, …; empty for a plain count.
        budget: what it has to keep to; None: there is none, it is told for comparison.
        bound: whether the budget is the most or the least that is allowed.
        peer: the best peer's figure with its name, from the same harness.
        note: how it was measured, where a reader would ask.
    """

    what: str
    value: float | None
    unit: str = ""
    budget: float | None = None
    bound: Literal["most", "least"] = "most"
    peer: str = ""
    note: str = ""

    def is_within(self) -> bool | None:
        """Whether the budget holds; None when there is no budget or no value."""
        if self.budget is None or self.value is None:
            return None
        return self.value <= self.budget if self.bound == "most" else self.value >= self.budget


def save(name: str, title: str, figures: list[Figure], raw: Any = None) -> Path:
    """Write `results/<name>.json` and say each figure in a line.

    Args:
        name: the file's name, the benchmark's own.
        title: heading in the table.
        figures: in the order a reader wants them.
        raw: everything behind them: each repeat, what was compared.
    """
    document = {
        "benchmark": name,
        "title": title,
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "machine": machine(),
        "figures": [asdict(figure) for figure in figures],
        "raw": raw,
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for figure in figures:
        print(f"  {'' if figure.is_within() is not False else '✗ '}{figure.what}: {number(figure.value)} {figure.unit}")
    return path


def kept(name: str) -> dict[str, Any]:
    """What `save` was last given as `raw`, of a benchmark that measures part by part; {} when there is none."""
    try:
        found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))["raw"]
    except (OSError, ValueError, KeyError):
        return {}
    return found


def stamp() -> dict[str, Any]:
    """When, of what and on what a part was measured."""
    return {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "load": machine()["load"],
    }


def number(value: float | None) -> str:
    """Three digits that mean something, thousands grouped; an en dash for what is unknown."""
    if value is None:
        return "–"
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def machine() -> dict[str, Any]:
    """What it was measured on."""
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 2),
    }


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def commit() -> str | None:
    """The commit that was measured, `+` when files differed from it; None outside a checkout."""
    command = ["git", "describe", "--always", "--abbrev=10", "--dirty=+", "--exclude=*"]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False)
    return done.stdout.strip() or None
