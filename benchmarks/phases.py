"""What telling phases apart costs a training: blocks of steps with and without it, in turn, in one process."""

import statistics
import threading
import time
from collections.abc import Callable
from typing import Any

import torch
from record import Figure, save
from torch import nn

from trackside.monitor.link import TURN_S
from trackside.monitor.loop import BatchLoop, StepCounter
from trackside.monitor.phases.recorder import Recorder

MODULES = 100
BLOCKS, STEPS = 40, 30
TINY_BLOCKS, TINY_STEPS = 30, 100
FIRST_STEPS = 10
WIDTH, BATCH = 64, 32
STEP_MS = 10.0
"""What a step costs does not depend on how long it is: a short one is measured, whose own time varies less than that cost, and
told as a part of a step of this length."""


class Training:
    """A model of so many modules, and one step of it."""

    def __init__(self, modules: int, width: int, batch: int) -> None:
        torch.manual_seed(0)
        layers = [layer for _ in range(modules // 2) for layer in (nn.Linear(width, width), nn.ReLU())]
        self.model = nn.Sequential(*layers)
        self.criterion = nn.MSELoss()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4)
        self.batch = (torch.randn(batch, width), torch.randn(batch, width))

    def step(self, batch: tuple[torch.Tensor, torch.Tensor]) -> None:
        inputs, targets = batch
        loss = self.criterion(self.model(inputs), targets)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


def timed(run: Callable[[], None], steps: int) -> float:
    """CPU seconds of this thread a step: other processes of a busy machine do not count."""
    began = time.thread_time()
    run()
    return (time.thread_time() - began) / steps


class Sender:
    """The send thread's part, as often as it turns; knows its own CPU seconds."""

    def __init__(self, recorder: Recorder) -> None:
        self.cpu_s = 0.0
        self._recorder, self._stop = recorder, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(TURN_S):
            self._recorder.collect(flush=False)
        self.cpu_s = time.thread_time()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()


def compare(training: Training, blocks: int, steps: int) -> dict[str, Any]:
    """Seconds a step of each block, without and with, and of the send thread.

    Each block begins with steps that are not timed: a training hangs the hooks in once and goes on for hours, and the
    interpreter meets its own specialized code anew where a class has changed.
    """
    batches, first = [training.batch] * steps, [training.batch] * FIRST_STEPS

    def bare() -> None:
        for batch in batches:
            training.step(batch)

    without, watched, sending = [], [], 0.0
    timed(bare, steps)
    for _ in range(blocks):
        for batch in first:
            training.step(batch)
        without.append(timed(bare, steps))
        recorder = Recorder()
        recorder.start()
        sender = Sender(recorder)
        loop, step = BatchLoop(batches, recorder, StepCounter()), training.step
        for batch in BatchLoop(first, recorder, StepCounter()):
            step(batch)

        def through(loop: Any = loop, step: Any = step) -> None:
            for batch in loop:
                step(batch)

        watched.append(timed(through, steps))
        sender.close()
        sending += sender.cpu_s
        recorder.stop()
    return {"without_s": without, "with_s": watched, "send_thread_s_a_step": sending / (blocks * (steps + FIRST_STEPS))}


def difference(found: dict[str, Any]) -> float:
    """Median of the pairs' differences, seconds a step."""
    return statistics.median(b - a for a, b in zip(found["without_s"], found["with_s"], strict=True))


def forward_of_1000() -> dict[str, float]:
    """Microseconds of a forward through 1,000 modules that do nothing: plain, ours, a hook that stays for all of them."""
    model, nothing = nn.Sequential(*[nn.Identity() for _ in range(1_000)]), torch.zeros(1)

    def best() -> float:
        times = []
        for _ in range(200):
            began = time.perf_counter()
            model(nothing)
            times.append(time.perf_counter() - began)
        return min(times) * 1e6

    found = {"plain": best()}
    recorder = Recorder()
    recorder.start()
    found["ours"] = best()
    recorder.stop()
    handle = nn.modules.module.register_module_forward_pre_hook(lambda module, args: None)
    found["a hook that stays"] = best()
    handle.remove()
    return found


def main() -> None:
    torch.set_num_threads(1)
    large = compare(Training(MODULES, WIDTH, BATCH), BLOCKS, STEPS)
    tiny = compare(Training(2, 4, 1), TINY_BLOCKS, TINY_STEPS)
    through = forward_of_1000()
    step_ms = statistics.median(large["without_s"]) * 1e3
    cost_us = difference(tiny) * 1e6
    save(
        "phases",
        "Phases of a step",
        [
            Figure(
                f"training slowed by telling its phases apart, {MODULES} modules in a step of {STEP_MS:.0f} ms",
                difference(large) * 1e5 / STEP_MS,
                "%",
                budget=1,
                note=f"CPU time of the training thread: {difference(large) * 1e6:.0f} µs a step, from {BLOCKS} pairs of blocks "
                f"of {STEPS} steps of {step_ms:.1f} ms",
            ),
            Figure(
                "the same as time a step",
                cost_us,
                "µs",
                note=f"a step of 2 modules, {TINY_BLOCKS} pairs of blocks of {TINY_STEPS}: "
                f"{cost_us / 100:.2g} % of 10 ms",
            ),
            Figure("send thread a step", large["send_thread_s_a_step"] * 1e6, "µs", note="adding up and encoding"),
            Figure(
                "a forward through 1,000 modules takes longer by",
                through["ours"] - through["plain"],
                "µs",
                note=f"a hook that stays for all modules: {through['a hook that stays'] - through['plain']:,.0f} µs",
            ),
        ],
        {"large": large, "tiny": tiny, "forward_of_1000_us": through},
    )


if __name__ == "__main__":
    main()
