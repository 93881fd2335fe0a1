"""The same job with a fault, watched by us and by `traceml-ai`: verdict, time to it, and what watching costs a step.

    python benchmarks/diagnose_peer.py PYTHON

PYTHON is an interpreter that has torch and traceml-ai; ours runs in this one. Our job is not told of the watcher at all; the
peer's has its two lines for a loop of one's own. The cost is CPU time of rank 0's process, threads and all, in jobs without a
fault that take turns; a job that takes too long is ended and said to have failed.
"""

import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from record import HERE, Figure, save

SINCE = 60
FAULTS = ("none", "data", "compute", "input")
WATCHERS = ("none", "trackside", "traceml")
ROUNDS = 3
"""Jobs without a fault, for what each watcher costs."""
WARM_UP = 10
"""First steps that are not counted."""
LIMIT_S = 240
RANKS = "3"


def run(command: list[str], folder: Path) -> tuple[str, float]:
    """What it said and how long it took. A job that takes too long is ended, ranks and all."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "TRACKSIDE_DIR": str(folder / "runs")}
    began = time.monotonic()
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        said = f"ended after {LIMIT_S} s: " + process.communicate()[0][-400:]
    return said, time.monotonic() - began


def command_of(watcher: str, python: str, folder: Path, script: list[str], arguments: list[str]) -> list[str]:
    """How each watcher's user starts the job."""
    if watcher == "trackside":
        return [sys.executable, "-m", "trackside", "run", "--no-page", "--nproc-per-node", RANKS, *script, *arguments]
    if watcher == "traceml":
        start = [str(Path(python).parent / "traceml"), "run", "--nproc-per-node", RANKS, "--run-name", "peer"]
        return [*start, "--logs-dir", str(folder / "logs"), *script, "--args", *arguments]
    return [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", RANKS, *script, *arguments]


def job(watcher: str, fault: str, python: str) -> dict[str, Any]:
    """One job: its steps, and what the watcher says of it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        out = folder / "steps.json"
        script = [str(HERE / "blamed_job.py")]
        arguments = ["--watcher", watcher, "--fault", fault, "--since", str(SINCE), "--out", str(out)]
        said, seconds = run(command_of(watcher, python, folder, script, arguments), folder)
        steps = json.loads(out.read_text()) if out.exists() else {"ended": [], "cpu_s": []}
        found: dict[str, Any] = {"watcher": watcher, "fault": fault, "seconds": seconds}
        found |= costs(steps["ended"][WARM_UP:SINCE], steps["cpu_s"][WARM_UP : None if fault == "none" else SINCE])
        if watcher == "trackside":
            found |= our_verdict(folder, steps["ended"])
        elif watcher == "traceml":
            lines = [line.strip("| \n") for line in said.splitlines()]
            told = " ".join(line for line in lines if line.startswith(("Verdict:", "Why:")))[:400]
            found["verdict"] = " ".join(told.split()) or f"none: {said[-400:]}"
        print(f"  {watcher}, fault {fault}: {found.get('verdict', '')}", flush=True)
        return found


def costs(ended: list[float], cpu_s: list[float]) -> dict[str, Any]:
    """A step by the clock, and the CPU time of rank 0's process in it; None where the job did not come so far."""
    steps = [after - before for before, after in itertools.pairwise(ended)]
    return {
        "step_ms": 1000 * median(steps) if steps else None,
        "cpu_ms": 1000 * (cpu_s[-1] - cpu_s[0]) / (len(cpu_s) - 1) if len(cpu_s) > 1 else None,
    }


def our_verdict(folder: Path, ended: list[float]) -> dict[str, Any]:
    """What we said, and after how many steps of the fault."""
    documents = list((folder / "runs").glob("*/run.json"))
    if len(documents) != 1:
        return {"verdict": "none: there is no run", "steps_to_verdict": None}
    diagnosis = json.loads(documents[0].read_text())["diagnosis"] or {"verdicts": [], "bound": None}
    told = [one for one in diagnosis["verdicts"] if one["kind"] != "crowded host"]
    events = documents[0].parent / "events.jsonl"
    times = [json.loads(line) for line in events.read_text().splitlines()] if events.exists() else []
    kinds = {one["kind"] for one in told}
    first = next((event["time"] for event in times if event["kind"] in kinds), None)
    delay = None if first is None or not ended else sum(at <= first for at in ended) - SINCE
    text = "; ".join(one["text"] for one in told) or "nothing unusual"
    return {"verdict": f"bound by {diagnosis['bound']}: {text}", "steps_to_verdict": delay}


def figures_of(runs: list[dict[str, Any]]) -> list[Figure]:
    """What the table shows."""
    figures = []
    for fault in FAULTS:
        ours, theirs = (next(r for r in runs if r["fault"] == fault and r["watcher"] == w) for w in WATCHERS[1:])
        figures.append(
            Figure(
                "no fault: verdicts" if fault == "none" else f"fault `{fault}`: steps from its onset to our verdict",
                0 if fault == "none" and ours["steps_to_verdict"] is None else ours["steps_to_verdict"],
                peer="after the job (traceml-ai)",
                note=f"ours: {ours['verdict']} · traceml-ai, after the job: {theirs['verdict']}",
            )
        )
    cpu, wall = (
        {w: [r[key] for r in runs if (r["watcher"], r["fault"]) == (w, "none") and r[key]] for w in WATCHERS}
        for key in ("cpu_ms", "step_ms")
    )
    for watcher in WATCHERS[1:]:
        if cpu["none"] and cpu[watcher]:
            alone, watched = median(cpu["none"]), median(cpu[watcher])
            name = "us" if watcher == "trackside" else "traceml-ai"
            note = (
                f"CPU time of rank 0's process, threads and all: {alone:.2f} ms alone, {watched:.2f} ms watched, medians of "
                f"{len(cpu[watcher])} jobs; by the clock {median(wall['none']):.1f} and {median(wall[watcher]):.1f} ms"
            )
            figures.append(Figure(f"a step watched by {name} costs more by", watched - alone, "ms of CPU", note=note))
    return figures


def main() -> None:
    if len(sys.argv) < 2:
        print("  not measured: name an interpreter that has torch and traceml-ai")
        return
    python = sys.argv[1]
    runs = [job(watcher, "none", python) for _ in range(ROUNDS) for watcher in WATCHERS]
    runs += [job(watcher, fault, python) for fault in FAULTS[1:] for watcher in WATCHERS[1:]]
    save("diagnose_peer", "Diagnosis beside traceml-ai", figures_of(runs), runs)


if __name__ == "__main__":
    main()
