"""What one `log()` costs the training loop: paced and tight, with a healthy controller and with one that is stopped.

Each case is a fresh process with its own controller, `null` (the same loop around an empty function) among them.
"""

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from array import array
from pathlib import Path
from statistics import median

from record import Figure, save

WIDTHS = (1, 10, 100)
PACED_CALLS = 5_000
TIGHT_CALLS = 300_000
PAUSE_S = 0.001
STOPPED_S = 6.0
"""How long a controller is stopped; then it goes on, so that the run can end."""
MEDIAN_BUDGET_US = {1: 5.0, 10: 6.0, 100: 12.0}
PEER = {1: "58 (TensorBoard)", 10: "103 (TensorBoard)", 100: "517 (trackio)"}


def loop(log, width: int, calls: int, pause_s: float) -> array:
    """Nanoseconds of each call, as the peers' harness measures them."""
    keys = [f"m{j:03d}" for j in range(width)]
    took, clock, ns = array("q"), time.perf_counter, time.perf_counter_ns
    due = clock()
    for step in range(calls):
        metrics = {key: step * 1e-4 + j for j, key in enumerate(keys)}
        began = ns()
        log(metrics, step=step)
        took.append(ns() - began)
        if pause_s:
            due += pause_s
            left = due - clock()
            if left > 0:
                time.sleep(left)
            else:
                due = clock()
    return took


def work(case: dict) -> dict:
    """Runs in a process of its own; returns what it measured."""
    if case["target"] == "null":
        return summary(loop(lambda metrics, step: None, case["width"], case["calls"], case["pause_s"]))
    import trackside
    from trackside.wire.address import parse_address

    address = start_controller(case["folder"])
    os.environ["TRACKSIDE_CONTROLLER"] = address
    pid = parse_address(address).pid
    monitor = trackside.Monitor()
    monitor._runtime._link.connected.wait(30)
    loop(monitor.log, case["width"], 500, PAUSE_S)
    memory = resident_bytes()
    if case["target"] == "stopped":
        os.kill(pid, signal.SIGSTOP)
    cpu = time.process_time()
    try:
        took = loop(monitor.log, case["width"], case["calls"], case["pause_s"])
    finally:
        if case["target"] == "stopped":
            os.kill(pid, signal.SIGCONT)
    found = summary(took)
    found |= {"cpu_s": time.process_time() - cpu, "grown_mb": (resident_bytes() - memory) / 2**20}
    found["dropped"] = monitor._runtime.dropped_points
    monitor.finish()
    found["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return found


def start_controller(folder: str) -> str:
    """A controller alone, as a launcher of another kind would have it; the address it says."""
    command = [sys.executable, "-m", "trackside", "controller", "--dir", folder, "--parent-pid", str(os.getpid())]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    return json.loads(process.stdout.readline())["address"]


def summary(took: array) -> dict:
    ordered = sorted(took)
    at = {"p50": 0.5, "p99": 0.99, "p999": 0.999}
    quantiles = {name: ordered[int(len(ordered) * part)] / 1e3 for name, part in at.items()}
    return {"calls": len(ordered), **quantiles, "max": ordered[-1] / 1e3}


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def measure(target: str, width: int, calls: int, pause_s: float) -> dict:
    """One case in a fresh process."""
    with tempfile.TemporaryDirectory(prefix="trackside-bench-") as folder:
        case = {"target": target, "width": width, "calls": calls, "pause_s": pause_s, "folder": folder}
        command = [sys.executable, __file__, "--case", json.dumps(case)]
        env = {name: value for name, value in os.environ.items() if not name.startswith("TRACKSIDE_")}
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=180, env=env)
    return json.loads(done.stdout.splitlines()[-1])


def middle(rows: list[dict]) -> dict:
    return {key: median(row[key] for row in rows) for key in rows[0]}


def main(repeats: int) -> None:
    cases = {}
    for target in ("null", "healthy", "stopped"):
        for width in WIDTHS:
            cases[f"paced {width} {target}"] = (target, width, PACED_CALLS, PAUSE_S)
        cases[f"tight 1 {target}"] = (target, 1, TIGHT_CALLS, 0.0)
    raw = {name: [] for name in cases}
    for _ in range(repeats):  # in turn, so that a busy moment of the machine meets all alike
        for name, case in cases.items():
            raw[name].append(measure(*case))
    found = {name: middle(rows) for name, rows in raw.items()}
    figures = []
    for target, words in (("healthy", ""), ("stopped", ", controller stopped")):
        for width in WIDTHS:
            row, what = found[f"paced {width} {target}"], f"`log()` of {width}, 1 kHz{words}"
            note = f"empty harness {found[f'paced {width} null']['p50']:.1f}"
            peer = PEER[width] if target == "healthy" else ""
            figures += [
                Figure(f"{what}, median", row["p50"], "µs", budget=MEDIAN_BUDGET_US[width], peer=peer, note=note),
                Figure(f"{what}, p99", row["p99"], "µs", budget=25),
            ]
        row, what = found[f"tight 1 {target}"], f"`log()` of 1, tight loop{words}"
        figures += [
            Figure(f"{what}, median", row["p50"], "µs", budget=1, peer="16 (trackio)" if target == "healthy" else ""),
            Figure(f"{what}, p99.9", row["p999"], "µs", budget=30),
            Figure(f"{what}, memory grown", row["grown_mb"], "MB", note=f"{TIGHT_CALLS:,} calls"),
            Figure(f"{what}, points dropped", row["dropped"], "points", note=f"of {TIGHT_CALLS:,}"),
        ]
    save("log_call", "`log()`", figures, raw)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--case")
    options = parser.parse_args()
    if options.case:
        print(json.dumps(work(json.loads(options.case))))
    else:
        main(options.repeats)
