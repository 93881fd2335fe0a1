"""A job of any size that speaks the real wire to a real controller, in a process of its own: `python -m tests.browser.crowd`.

Every rank logs its metrics, beats, times its steps and samples its device; nothing is trained. One line of JSON says where
the page is; the job runs until its standard input ends. `Crowd` starts it for tests and benchmarks.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import zmq

from tests.process.wire_client import ControllerUnderTest, WireRank, pump_until, said
from trackside.wire import messages

ROOT = Path(__file__).resolve().parents[2]
SLICES = 16
PHASES = ["data", "forward", "backward", "optimizer", "collective", "rest"]
HTML_NAME = '<img src=x onerror="window.hit=1">/<b>bold</b>'
LONG_NAME = ("损失函数的平均值" * 9 + "потери-на-шаге" * 5 + "Durchschnitt") * 3
ODD_NAMES = {
    "nan": "odd/nan now and then",
    "inf": "odd/infinite",
    "gap": "odd/gap",
    "late": "odd/late",
    "html": HTML_NAME,
    "long": LONG_NAME[:200],
}
"""Metrics that are not as others; all are logged by every rank."""
LATE_STEP = 60


@dataclass(frozen=True)
class Job:
    """What the crowd is and does."""

    ranks: int = 8
    per_host: int = 8
    metrics: int = 20
    hz: float = 1.0
    """Steps a second."""
    history: int = 0
    """Steps that each rank sends at once when it begins."""
    long: int = 0
    """Points of one more series, `long/spiky`, of rank 0 alone; `spikes` of them stand out by one point."""
    spikes: tuple[int, ...] = ()
    slow: tuple[int, ...] = ()
    """Ranks that take three times as long for their own work."""
    dead: tuple[int, ...] = ()
    """Ranks that are killed once the history is in."""
    odd: bool = False
    """Whether `ODD_NAMES` are logged too."""
    samples: bool = True
    sample_s: float = 2.0
    """Between two samples of a device."""
    names: list[str] = field(default_factory=list)

    def named(self) -> list[str]:
        """Every metric in the order of its id."""
        usual = ["loss", "lr", *(f"train/metric_{n:03d}" for n in range(self.metrics))][: self.metrics]
        return [*(self.names or usual), *(ODD_NAMES.values() if self.odd else ())]


SPIKE = 1000.0


class Ranks:
    """All ranks and their agent; `run` until told to end."""

    def __init__(self, job: Job, controller: ControllerUnderTest) -> None:
        self.job, self.over, self.is_resting, self.is_ending = job, threading.Event(), False, False
        self.names = job.named()
        self.context = zmq.Context()
        self.context.set(zmq.MAX_SOCKETS, job.ranks + 100)
        self.ranks = [
            WireRank(self.context, controller.address, rank, job.ranks, host=self.host(rank), pid=100_000 + rank)
            for rank in range(job.ranks)
        ]
        self.agent = WireRank(self.context, controller.address, -1, host=self.host(0), role="agent")
        for rank in (*self.ranks, self.agent):
            rank.hello()
        pump_until((*self.ranks, self.agent), lambda: all(rank.welcome for rank in self.ranks), 40, "welcomes")
        self.agent.send(messages.PortWish(port=0))
        line = pump_until([self.agent, self.ranks[0]], self.said_url, 10, "the page's address")
        self.url = line.split()[1] + "/"
        self.step = 0

    def host(self, rank: int) -> str:
        return f"gpu-{rank // self.job.per_host:03d}"

    def said_url(self) -> str | None:
        lines = [m.line for rank in (self.agent, self.ranks[0]) for m in said(rank, messages.Say)]
        return next((line for line in lines if "://" in line), None)

    # --- what ranks send ---------------------------------------------------------------------------------------------

    def values(self, step: np.ndarray, rank: int) -> np.ndarray:
        """A row a step, a column a metric; NaN, infinities and all."""
        names = self.names
        usual = 2.0 / (1 + step[:, None] / 200) + 0.01 * np.arange(len(names))[None, :] + rank * 1e-3
        table = usual + 0.02 * np.sin(step[:, None] * (1.3 + np.arange(len(names))[None, :] * 0.1) + rank)
        for key, name in ODD_NAMES.items() if self.job.odd else ():
            column = names.index(name)
            if key == "nan":
                table[step % 50 == 25, column] = np.nan
            elif key == "inf":
                table[step % 50 == 10, column] = np.inf
                table[step % 50 == 40, column] = -np.inf
        return table.astype(np.float32)  # what losses are

    def points(self, first: int, count: int, rank: int, *, define: bool) -> messages.Points:
        step = np.arange(first, first + count, dtype="<i8")
        table = self.values(step, rank)
        is_told = np.ones(table.shape, bool)
        if self.job.odd:
            is_told[(step >= 20) & (step < 40), self.names.index(ODD_NAMES["gap"])] = False
            is_told[step < LATE_STEP, self.names.index(ODD_NAMES["late"])] = False
        ids = np.broadcast_to(np.arange(table.shape[1], dtype="<u4"), table.shape)
        at = time.time() - (count - 1 - np.arange(count)) / self.job.hz
        return messages.Points(
            defs=[messages.SeriesDef(id=key, name=name) for key, name in enumerate(self.names)] if define else [],
            time=at.astype("<f8").tobytes(),
            step=step.tobytes(),
            epoch=np.full(count, -1, "<i4").tobytes(),
            width=is_told.sum(axis=1).astype("<u4").tobytes(),
            series=ids[is_told].astype("<u4").tobytes(),
            value=table[is_told].astype("<f8").tobytes(),
        )

    def step_times(self, first: int, count: int, rank: int) -> messages.StepTimes:
        step = np.arange(first, first + count, dtype="<i8")
        noise = 1 + 0.02 * np.sin(step * (rank % 97 + 1.7))
        wall = 0.4
        slow = 3.0 if rank in self.job.slow else 1.0
        work = [0.01 * slow * noise, 0.03 * slow * noise, 0.06 * slow * noise, 0.005 * noise]
        waiting = wall - sum(work) - 0.002
        seconds = np.stack([*work, waiting, np.full(count, 0.002)], axis=1).astype("<f8")
        return messages.StepTimes(
            phases=PHASES,
            step=step.tobytes(),
            count=np.ones(count, "<u4").tobytes(),
            ended_at=(time.time() - (count - 1 - np.arange(count)) / self.job.hz).astype("<f8").tobytes(),
            wall=np.full(count, wall, "<f8").tobytes(),
            own=(wall - waiting).astype("<f8").tobytes(),
            seconds=seconds.tobytes(),
            samples=np.full(count, 32, "<i8").tobytes(),
        )

    def beat(self, rank: WireRank, step: int) -> None:
        own = 0.32 if rank.rank in self.job.slow else 0.11
        phases = {
            "data": 0.01 * step,
            "forward": 0.03 * step,
            "backward": 0.06 * step,
            "collective": (0.4 - own) * step,
        }
        rank.beat(
            step=step, batches=step, samples=32 * step, phase="backward", phases=phases, step_seconds=0.4,
            own_step_seconds=own, clock_offset=0.001, round_trip=0.0004,
        )  # fmt: skip

    def gpu(self, number: int, wave: float) -> messages.GpuSample:
        """A rank's device; a slow rank's is idle, hot and held back."""
        is_slow = number in self.job.slow
        return messages.GpuSample(
            index=number % self.job.per_host,
            uuid=f"GPU-{number:08d}",
            name="Accelerator",
            util=0.3 if is_slow else 0.9 + 0.05 * wave,
            util_peak=0.99,
            memory_used=int(60e9 + 1e9 * wave),
            memory_peak=int(65e9),
            memory_total=int(80e9),
            temperature=(86 if is_slow else 60) + 10 * wave,
            power=400 + 100 * wave,
            power_limit=700,
            clock_limits=["thermal slowdown"] if is_slow else [],
            ours=True,
        )

    def sample(self, rank: WireRank, step: int) -> None:
        number = rank.rank
        wave = float(0.5 + 0.4 * np.sin(step / 20 + number))
        gpu = self.gpu(number, wave)
        host = None
        if number % self.job.per_host == 0:
            ours = range(number, min(number + self.job.per_host, self.job.ranks))
            foreign = messages.GpuSample(
                index=self.job.per_host, uuid=f"GPU-other-{number}", name="Accelerator", util=0.0
            )
            host = messages.HostSample(
                cpu=0.4 + 0.1 * wave, cpu_count=96, cpu_limit_source="cgroup v2",
                memory_used=int(200e9), memory_total=int(1e12), memory_limit_source="cgroup v2",
                network_sent=1e9 * wave, network_received=1e9 * wave, disk_read=1e8, disk_written=1e7,
                disk_used=int(1e12), disk_total=int(4e12), gpus=[*(self.gpu(n, wave) for n in ours), foreign],
            )  # fmt: skip
        mine = messages.RankSample(cpu=0.02, memory=int(8e9), gpu=gpu, torch_allocated=int(50e9))
        rank.send(messages.ResourceSample(time=time.time(), interval_seconds=self.job.sample_s, host=host, rank=mine))

    # --- the course of the job ---------------------------------------------------------------------------------------

    def begin(self) -> None:
        self.ranks[0].send(messages.SetPlan(steps=100_000, name=f"crowd of {self.job.ranks}"))
        for rank in self.ranks:
            self.log(rank, 0, self.job.history + 1, define=True)
            if self.job.samples:
                self.sample(rank, 0)
            self.beat(rank, self.job.history + 1)
        self.step = self.job.history + 1
        self.log_long()
        living = [rank for rank in self.ranks if rank.rank not in self.job.dead]
        pump_until(self.ranks, lambda: all(rank.acknowledged == rank.seq for rank in self.ranks), 60, "the history")
        for dead in self.job.dead:
            self.agent.send(messages.WorkerExited(rank=dead, generation=0, time=time.time(), signal="SIGKILL"))
            self.ranks[dead].close()
        self.ranks = living

    def log(self, rank: WireRank, first: int, count: int, *, define: bool) -> None:
        rank.send(self.points(first, count, rank.rank, define=define))
        rank.send(self.step_times(first, count, rank.rank))

    def log_long(self) -> None:
        """One series of very many points, the last of them now."""
        rank, key, many, whole = self.ranks[0], len(self.names), 100_000, self.job.long
        for first in range(0, whole, many):
            count = min(many, whole - first)
            step = np.arange(first, first + count, dtype="<i8")
            value = np.random.default_rng(first).normal(0, 1, count).astype(np.float32)
            for spike in self.job.spikes:
                value[step == spike] = SPIKE
            at = time.time() - (whole - 1 - step) * 1e-3
            message = messages.Points(
                defs=[messages.SeriesDef(id=key, name="long/spiky")] if first == 0 else [],
                time=at.astype("<f8").tobytes(),
                step=step.tobytes(),
                epoch=np.full(count, -1, "<i4").tobytes(),
                width=np.ones(count, "<u4").tobytes(),
                series=np.full(count, key, "<u4").tobytes(),
                value=value.astype("<f8").tobytes(),
            )
            rank.send(message)
            while rank.seq - rank.acknowledged > 4:
                rank.pump()
                time.sleep(0.002)

    def run(self) -> None:
        """Live on until `over`."""
        began = time.monotonic()
        start, sampled = self.step, began
        while not self.over.is_set():
            is_sampled = self.job.samples and time.monotonic() - sampled >= self.job.sample_s
            sampled = time.monotonic() if is_sampled else sampled
            for at in range(SLICES):
                for rank in self.ranks[at::SLICES]:
                    if not self.is_resting:
                        self.log(rank, self.step, 1, define=False)
                    self.beat(rank, self.step)
                    if is_sampled:
                        self.sample(rank, self.step)
                    rank.pump()
                self.agent.pump()
                due = began + (self.step - start + (at + 1) / SLICES) / self.job.hz
                self.over.wait(max(0.0, due - time.monotonic()))
            self.step += 1

    def obey(self) -> None:
        """Do what standard input says, until it ends."""
        for line in sys.stdin:
            self.is_resting = True
            self.is_ending = line.strip() == "end"
            if self.is_ending:
                break
        self.over.set()

    def end(self) -> None:
        """Every rank comes to its clean end, and so does the job."""
        for rank in self.ranks:
            rank.send(messages.Goodbye(time=time.time()))
        pump_until(self.ranks, lambda: all(rank.acknowledged == rank.seq for rank in self.ranks), 60, "the end")
        self.agent.send(messages.JobEnded(time=time.time(), exit_code=0))
        self.agent.send(messages.Goodbye(time=time.time()))
        pump_until([self.agent], lambda: self.agent.acknowledged == self.agent.seq, 20, "the job's end")

    def close(self) -> None:
        for rank in (*self.ranks, self.agent):
            rank.close()
        self.context.destroy(linger=0)


class Crowd:
    """The same, started and ended from elsewhere.

    Args:
        directory: for its run folder.
        job: what it does.
    """

    def __init__(self, directory: Path, job: Job) -> None:
        command = [sys.executable, "-m", "tests.browser.crowd", str(directory)]
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(msgspec.json.encode(job) + b"\n")
        self.process.stdin.flush()
        self.said: dict[str, Any] = json.loads(self.process.stdout.readline() or b"{}")
        if "url" not in self.said:
            self.close()
            raise AssertionError("the crowd did not begin")
        self.url: str = self.said["url"]
        self.controller: int = self.said["pid"]
        self.folder = Path(self.said["folder"])

    def rest(self) -> None:
        """Every rank goes on living and makes no step any more."""
        self._tell(b"rest\n")

    def end(self) -> float:
        """Come to a clean end; how long the controller took for its own, seconds. Blocks: until it has gone."""
        self._tell(b"end\n")
        assert self.process.stdout
        line = self.process.stdout.readline()
        return float(json.loads(line)["ended_s"])

    def _tell(self, line: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def close(self) -> None:
        """End it; idempotent."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                pipe.close()
        self.process.wait(60)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    options = parser.parse_args()
    job = msgspec.json.decode(sys.stdin.readline(), type=Job)
    controller = ControllerUnderTest(options.directory)
    ranks = Ranks(job, controller)
    threading.Thread(target=ranks.obey, daemon=True).start()
    try:
        ranks.begin()
        print(
            json.dumps({"url": ranks.url, "pid": controller.process.pid, "folder": str(controller.folder)}), flush=True
        )
        ranks.run()
        if ranks.is_ending:
            ranks.end()
            began = time.monotonic()
            controller.wait(120)
            print(json.dumps({"ended_s": time.monotonic() - began}), flush=True)
    finally:
        ranks.close()
        controller.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
