"""How much longer a real training takes for logging ten scalars a step, at about 1 kHz, with all samplers on.

One process, blocks of steps in pairs: one that logs, one whose `log` is an empty function, in changing order, with a pause
between them in which the send thread comes to rest. The ratio of a pair is what logging cost; samplers run through both. The
batch is as large as makes a step of about a millisecond on this machine.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from statistics import median

from log_call import start_controller
from record import Figure, save

STEPS = 300
STEP_S = 1e-3
PAIRS = 60
PAUSE_S = 0.12


def work(pairs: int) -> dict:
    """Runs in a process of its own."""
    import torch

    import trackside

    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    monitor = trackside.Monitor()
    monitor._runtime._link.connected.wait(30)
    names = [f"m{j}" for j in range(9)]
    chance, counted = random.Random(1), 0

    def steps(x, y, log, count: int) -> float:
        nonlocal counted
        began = time.perf_counter()
        for _ in range(count):
            loss = torch.nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            value = loss.item()
            counted += 1
            log({"loss": value, **{name: value + j for j, name in enumerate(names)}}, step=counted)
        return time.perf_counter() - began

    def nothing(metrics, step=None) -> None:
        pass

    size = 64
    while size < 16_384:
        x, y = torch.randn(size, 64), torch.randn(size, 8)
        steps(x, y, nothing, 20)
        if min(steps(x, y, nothing, 20) for _ in range(5)) / 20 >= STEP_S:
            break
        size += 64

    def block(*, logs: bool) -> float:
        took = steps(x, y, monitor.log if logs else nothing, STEPS)
        time.sleep(PAUSE_S)
        return took

    for _ in range(4):
        block(logs=True)
    rows = []
    for _ in range(pairs):
        first = chance.random() < 0.5
        took = {logs: block(logs=logs) for logs in (first, not first)}
        rows.append((took[False], took[True]))
    monitor.finish()
    return {"pairs": rows, "dropped": monitor._runtime.dropped_points}


def main(pairs: int) -> None:
    with tempfile.TemporaryDirectory(prefix="trackside-bench-") as folder:
        env = {**os.environ, "TRACKSIDE_CONTROLLER": start_controller(folder)}
        command = [sys.executable, __file__, "--work", "--pairs", str(pairs)]
        done = subprocess.run(command, env=env, check=True, capture_output=True, text=True, timeout=300)
        found = json.loads(done.stdout.splitlines()[-1])
    rows = sorted(with_log / without for without, with_log in found["pairs"])
    slower = (median(rows) - 1) * 100
    step_ms = median(without for without, _ in found["pairs"]) / STEPS * 1e3
    spread = (
        f"{(rows[len(rows) // 4] - 1) * 100:.1f} to {(rows[3 * len(rows) // 4] - 1) * 100:.1f} % for the middle half"
    )
    note = f"{len(rows)} pairs of {STEPS} steps of {step_ms:.2f} ms in torch on one core; {spread}"
    figures = [
        Figure("training slowed by ten scalars a step", slower, "%", budget=1, note=note),
        Figure(
            "the same as time a step",
            slower / 100 * step_ms * 1e3,
            "µs",
            note="against the same loop around an empty function",
        ),
    ]
    save("slowed", "Training with and without", figures, found)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--work", action="store_true")
    options = parser.parse_args()
    if options.work:
        print(json.dumps(work(options.pairs)))
    else:
        main(options.pairs)
