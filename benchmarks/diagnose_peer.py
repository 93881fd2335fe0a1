"""The same job with a fault, watched by us and by `traceml-ai`: verdict, time to it, and what watching costs a step.

    python benchmarks/diagnose_peer.py PYTHON

PYTHON is an interpreter that has torch and traceml-ai; ours runs in this one. Our job is not told of the watcher at all; the
peer's has its two lines for a loop of one's own.
"""

import itertools
import json
import os
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
LIMIT_S = 240


def run(command: list[str], folder: Path) -> tuple[str, float]:
    """What it said and how long it took."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "TRACKSIDE_DIR": str(folder / "runs")}
    began = time.monotonic()
    done = subprocess.run(
        command,
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    return done.stdout, time.monotonic() - began


def job(watcher: str, fault: str, python: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        out = folder / "steps.json"
        script = [str(HERE / "blamed_job.py")]
        arguments = ["--watcher", watcher, "--fault", fault, "--since", str(SINCE), "--out", str(out)]
        ours = [sys.executable, "-m", "trackside", "run", "--no-page", "--nproc-per-node", "3", *script, *arguments]
        plain = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "3", *script, *arguments]
        traced = [
            str(Path(python).parent / "traceml"),
            "run",
            "--nproc-per-node",
            "3",
            "--run-name",
            "peer",
        ]
        traced += ["--logs-dir", str(folder / "logs"), *script, "--args", *arguments]
        said, seconds = run({"trackside": ours, "traceml": traced}.get(watcher, plain), folder)
        ended = json.loads(out.read_text()) if out.exists() else []
        steps = [after - before for before, after in itertools.pairwise(ended[:SINCE])]
        found: dict[str, Any] = {"watcher": watcher, "fault": fault, "seconds": seconds}
        found["step_ms"] = 1000 * median(steps[5:]) if steps else None
        if watcher == "trackside":
            found |= our_verdict(folder, ended)
        elif watcher == "traceml":
            lines = [line.strip("| \n") for line in said.splitlines()]
            found["verdict"] = " ".join(line for line in lines if line.startswith(("Verdict:", "Why:")))[:400]
            found["verdict"] = found["verdict"] or said[-400:]
        return found


def our_verdict(folder: Path, ended: list[float]) -> dict[str, Any]:
    (run_folder,) = (folder / "runs").iterdir()
    diagnosis = json.loads((run_folder / "run.json").read_text())["diagnosis"] or {"verdicts": [], "bound": None}
    text = "; ".join(one["text"] for one in diagnosis["verdicts"]) or "none"
    events = run_folder / "events.jsonl"
    times = [json.loads(line) for line in events.read_text().splitlines()] if events.exists() else []
    kinds = {one["kind"] for one in diagnosis["verdicts"]}
    first = next((event["time"] for event in times if event["kind"] in kinds), None)
    delay = None if first is None or not ended else sum(at <= first for at in ended) - SINCE
    return {"verdict": f"bound by {diagnosis['bound']}: {text}", "steps_to_verdict": delay}


def main() -> None:
    if len(sys.argv) < 2:
        print("  not measured: name an interpreter that has torch and traceml-ai")
        return
    python = sys.argv[1]
    runs = [job(watcher, fault, python) for fault in FAULTS for watcher in ("none", "trackside", "traceml")]
    step = {
        watcher: median([run["step_ms"] for run in runs if run["watcher"] == watcher and run["step_ms"]])
        for watcher in ("none", "trackside", "traceml")
    }
    figures = []
    for fault in FAULTS:
        ours, theirs = (
            next(r for r in runs if r["fault"] == fault and r["watcher"] == w) for w in ("trackside", "traceml")
        )
        figures.append(
            Figure(
                f"fault `{fault}`: steps from its onset to our verdict",
                ours["steps_to_verdict"],
                peer="at the end (traceml-ai)",
                note=f"ours: {ours['verdict']} · traceml-ai: {theirs['verdict']}",
            )
        )
    alone = f"a step of {step['none']:.1f} ms"
    figures += [Figure(f"{alone}, watched by {watcher}", step[watcher], "ms") for watcher in ("trackside", "traceml")]
    save("diagnose_peer", "Diagnosis beside traceml-ai", figures, runs)


if __name__ == "__main__":
    main()
