"""Writes `RESULTS.md` from what the benchmarks saved in `results/`: `python benchmarks/table.py`.

The first table holds every figure that has a budget; then comes a section for each benchmark, and the comparison with
other trackers when `peers.py` was run.
"""

import json
import sys
from pathlib import Path
from typing import Any

from record import HERE, RESULTS, Figure, number

TARGET = HERE / "RESULTS.md"
PEERS = "peers.json"
INTRODUCTION = """\
# Measured

Written by `benchmarks/table.py` from `benchmarks/results/*.json`; `make bench` measures anew. Every file says on which
machine and commit it was measured, and holds each repeat. Ratios compare runs that were made side by side.
"""
Row = list[str]


def documents() -> list[dict[str, Any]]:
    """What the benchmarks saved, by name."""
    return [
        json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("*.json")) if path.name != PEERS
    ]


def render(results: list[dict[str, Any]], peers: dict[str, Any] | None) -> str:
    """The whole text."""
    parts = [INTRODUCTION, budgets(results)]
    parts += [section(result) for result in results]
    if peers:
        parts.append(comparison(peers))
    return "\n".join(parts)


def budgets(results: list[dict[str, Any]]) -> str:
    """Every figure with a budget, and whether it keeps it."""
    rows = [row_of(figure) for result in results for figure in figures(result) if figure.budget is not None]
    kept = sum(row[-1] == "✓" for row in rows)
    head = ["what", "measured", "budget", "best peer", ""]
    return f"## Budgets\n\n{kept} of {len(rows)} kept.\n\n{markdown(head, rows)}"


def figures(result: dict[str, Any]) -> list[Figure]:
    return [Figure(**figure) for figure in result["figures"]]


def row_of(figure: Figure) -> Row:
    sign = "≤" if figure.bound == "most" else "≥"
    budget = "" if figure.budget is None else f"{sign} {with_unit(figure.budget, figure.unit)}"
    verdict = {True: "✓", False: "✗", None: ""}[figure.is_within()]
    return [figure.what, with_unit(figure.value, figure.unit), budget, figure.peer, verdict]


def section(result: dict[str, Any]) -> str:
    """One benchmark: its figures with their notes, and where they were measured."""
    rows = [[*row_of(figure)[:3], figure.note] for figure in figures(result)]
    machine = result["machine"]
    where = (
        f"{result['measured_at'][:10]}, commit {result['commit'] or 'unknown'}, Python {machine['python']}, "
        f"{machine['cores']} cores ({machine['processor']}), {machine['memory_gb']} GB, load {machine['load']:g}."
    )
    return f"## {result['title']}\n\n{where}\n\n{markdown(['what', 'measured', 'budget', 'how'], rows)}"


def comparison(peers: dict[str, Any]) -> str:
    """Side by side with other trackers, those parts that were run."""
    known = {"b": log_calls, "c": many_calls, "d": survival, "g": eight_ranks}
    parts = ["## Beside other trackers\n\nOne harness, one machine, in turn: `benchmarks/peers.py`.\n"]
    parts += [known[part](peers[part]) for part in known if peers.get(part)]
    return "\n".join(parts)


def log_calls(rows: dict[str, Any]) -> str:
    def cell(row: dict[str, Any], case: str) -> str:
        found = row.get(case, {})
        return f"{number(found['p50'])} / {number(found['p99'])}" if "p50" in found else failure(found)

    cases = ("paced_1", "paced_10", "paced_100", "tight_1")
    head = ["", "1 scalar", "10 scalars", "100 scalars", "1 scalar, tight loop"]
    lines = [[peer, *(cell(row, case) for case in cases)] for peer, row in rows.items()]
    return f"### One `log()`, one call a millisecond: median / 99th percentile, µs\n\n{markdown(head, lines)}"


def many_calls(rows: dict[str, Any]) -> str:
    head = ["", "calls", "loop, s", "finish, s", "memory grown, MB", "disk, MB"]
    lines = [
        [
            peer,
            number(row["calls"]),
            number(row["loop_s"]),
            number(row["finish_s"]),
            number(row["rss_loop_growth"] / 1e6),
            number(row.get("disk_mb")),
        ]
        if "calls" in row
        else [peer, failure(row), "", "", "", ""]
        for peer, row in rows.items()
    ]
    return f"### 100,000 calls of 5 scalars in a tight loop\n\n{markdown(head, lines)}"


def survival(rows: dict[str, Any]) -> str:
    def cell(runs: list[dict[str, Any]]) -> str:
        return "; ".join(
            f"{run['keys']['m000']['distinct_steps']:,} of {run['logged']:,}" if run.get("keys") else failure(run)
            for run in runs
        )

    head = ["", "training process killed", "everything killed"]
    lines = [
        [peer, cell(row["process"]), cell(row["tree"])] if "process" in row else [peer, failure(row), ""]
        for peer, row in rows.items()
    ]
    return f"### Points left after `kill -9`, 10,000 logged at 1 kHz\n\n{markdown(head, lines)}"


def eight_ranks(rows: dict[str, Any]) -> str:
    head = ["", "CPU of everything, s", "CPU in the training, s", "`log()` median / p99, µs", "points read back"]
    lines = [
        [
            peer,
            number(row["tree_cpu_s"]),
            number(row["cpu_in_training_processes_s"]),
            f"{number(row['p50_us'])} / {number(row['p99_us'])}",
            f"{row['read_back']['points']:,} of {row['read_back']['expected']:,}"
            if isinstance(row["read_back"], dict)
            else str(row["read_back"]),
        ]
        if "p50_us" in row
        else [peer, failure(row), "", "", ""]
        for peer, row in rows.items()
    ]
    return f"### 8 ranks × 100 Hz × 10 scalars × 20 s\n\n{markdown(head, lines)}"


def failure(row: dict[str, Any]) -> str:
    return ("failed: " + str(row["error"]).strip().splitlines()[-1][:80]) if row.get("error") else "–"


def with_unit(value: float | None, unit: str) -> str:
    return f"{number(value)} {unit}".strip()


def markdown(head: Row, rows: list[Row]) -> str:
    """A table; a bar inside a cell does not end it."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def write() -> Path:
    """Write the file; where."""
    peers = json.loads((RESULTS / PEERS).read_text(encoding="utf-8")) if (RESULTS / PEERS).is_file() else None
    TARGET.write_text(render(documents(), peers), encoding="utf-8")
    return TARGET


if __name__ == "__main__":
    print(f"wrote {write()}")
    sys.exit(0)
