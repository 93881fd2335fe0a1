"""Jobs that never ran: step times drawn with noise, pauses, checkpoints and faults, fed to the real rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trackside.run.diagnose.diagnoser import Diagnoser
from trackside.run.diagnose.entries import Entries
from trackside.run.inputs import Moment
from trackside.run.outputs import PublishEvent
from trackside.run.state import Rank, Run, Settings
from trackside.wire.documents import Verdict

PHASES = ("data", "transfer", "forward", "backward", "optimizer", "collective", "rest")
OWN = [0, 1, 2, 3, 4, 6]
USUAL = {"data": 0.004, "transfer": 0.001, "forward": 0.03, "backward": 0.055, "optimizer": 0.008, "rest": 0.002}
WALL = 1_700_000_000.0
Array = np.ndarray[Any, Any]
Fault = Callable[[Array, Array], None]
"""Changes seconds (steps, ranks, phases) of the steps that are given, in place."""


@dataclass
class Job:
    """A synchronous job: every step ends when its slowest rank does."""

    ranks: int = 8
    seed: int = 0
    sigma: float = 0.1
    """Of each rank's own time, lognormal; phases vary by themselves as well."""
    usual: dict[str, float] = field(default_factory=lambda: dict(USUAL))
    wire_s: float = 0.01
    """A collective when nobody is waited for."""
    drift: float = 0.01
    """Lasting differences between healthy ranks."""
    memory: float = 0.0
    """Correlation of a rank's neighbouring steps."""
    pause_chance: float = 0.002
    pause_s: float = 0.3
    """A garbage collection, or another process, now and then."""
    checkpoint_every: int = 0
    checkpoint_s: float = 1.0
    checkpoint_by: int | None = None
    """One rank; None: all."""
    evaluate_every: int = 0
    evaluate_s: float = 2.0
    samples: int | None = 32
    faults: list[Fault] = field(default_factory=list)
    core_waits: dict[int, tuple[int, float]] = field(default_factory=dict)
    """By rank: the step from which on it waits for a core, and for how many seconds in the mean, in its forward."""
    first_step: int = 0

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)
        self.step = self.first_step
        self.clock = 0.0
        self._tilt = np.exp(self.random.normal(0.0, self.drift, self.ranks))
        self._last = np.zeros(self.ranks)

    def steps(self, count: int) -> Entries:
        """The next steps of every rank, as they arrive: step by step."""
        numbers = np.arange(self.step, self.step + count)
        seconds, waits = self._seconds(numbers), self._core_waits(numbers)
        seconds[:, :, PHASES.index("forward")] += waits
        own = seconds[:, :, OWN].sum(axis=2)
        longest = own.max(axis=1)
        seconds[:, :, PHASES.index("collective")] = longest[:, None] - own + self.wire_s
        wall = np.repeat((longest + self.wire_s)[:, None], self.ranks, axis=1)
        ended = WALL + self.clock + np.cumsum(wall, axis=0)
        self.step += count
        self.clock += float(wall[:, 0].sum())
        each = count * self.ranks
        return Entries(
            phases=PHASES,
            rank=np.tile(np.arange(self.ranks), count),
            step=np.repeat(numbers, self.ranks),
            count=np.ones(each),
            ended_at=ended.reshape(-1),
            wall=wall.reshape(-1),
            own=own.reshape(-1),
            samples=self._samples(numbers),
            core_wait=waits.reshape(-1),
            seconds=seconds.reshape(each, len(PHASES)),
        )

    def _core_waits(self, numbers: Array) -> Array:
        waits = np.zeros((len(numbers), self.ranks))
        for rank, (since, mean_s) in self.core_waits.items():
            waits[:, rank] = (numbers >= since) * self.random.exponential(mean_s, len(numbers))
        return waits

    def _samples(self, numbers: Array) -> Array:
        return np.full(len(numbers) * self.ranks, np.nan if self.samples is None else float(self.samples))

    def _seconds(self, numbers: Array) -> Array:
        shape = (len(numbers), self.ranks)
        base = np.array([self.usual.get(name, 0.0) for name in PHASES])
        seconds = base * np.exp(self.random.normal(0.0, self.sigma / 3, (*shape, len(PHASES))))
        seconds *= (np.exp(self._noise(shape)) * self._tilt)[:, :, None]
        pauses = self.random.random(shape) < self.pause_chance
        seconds[:, :, PHASES.index("forward")] += pauses * self.random.exponential(self.pause_s, shape)
        rest = seconds[:, :, PHASES.index("rest")]
        if self.checkpoint_every:
            at = numbers % self.checkpoint_every == self.checkpoint_every - 1
            whom = slice(None) if self.checkpoint_by is None else self.checkpoint_by
            rest[at, whom] += self.checkpoint_s
        if self.evaluate_every:
            rest[numbers % self.evaluate_every == self.evaluate_every - 1] += self.evaluate_s
        for fault in self.faults:
            fault(seconds, numbers)
        return seconds

    def _noise(self, shape: tuple[int, int]) -> Array:
        fresh = self.random.normal(0.0, self.sigma, shape)
        if not self.memory:
            return fresh
        out = np.empty(shape)
        for at, row in enumerate(fresh):
            self._last = self.memory * self._last + np.sqrt(1.0 - self.memory**2) * row
            out[at] = self._last
        return out


def slower(rank: int, phase: str, excess: float, start: int, end: int = 1 << 40) -> Fault:
    """A rank that needs so much more (a ratio of its own time of a usual step) in one phase, in these steps."""

    def fault(seconds: Array, numbers: Array) -> None:
        at = (numbers >= start) & (numbers < end)
        seconds[at, rank, PHASES.index(phase)] += excess * sum(USUAL.values())

    return fault


@dataclass
class Watch:
    """The rules over a job, with what they said."""

    job: Job
    diagnoser: Diagnoser = field(default_factory=Diagnoser)
    said: list[tuple[int, Verdict]] = field(default_factory=list)
    """(step at which it was opened, verdict)."""
    cleared: list[tuple[int, Verdict]] = field(default_factory=list)
    pause_s: float = 0.25

    def __post_init__(self) -> None:
        settings = Settings()
        self.run = Run(
            id="r",
            name="n",
            directory="/r",
            version="0",
            settings=settings,
            started_wall=WALL,
            started_mono=0.0,
            seen_wall=WALL,
            seen_mono=0.0,
            world_size=self.job.ranks,
        )
        self.run.ranks = {
            rank: Rank(rank=rank, generation=0, host=f"node-{rank // 8}", local_rank=rank % 8, monitored=True)
            for rank in range(self.job.ranks)
        }
        self._open: dict[int, Verdict] = {}

    def watch(self, steps: int) -> Watch:
        """Let so many steps pass."""
        step_s = sum(self.job.usual.values()) + self.job.wire_s
        pause = max(self.pause_s, 0.2 + self.job.ranks / 512)
        at_once = max(1, int(pause / step_s))
        end = self.job.step + steps
        while self.job.step < end:
            self.diagnoser.take(self.job.steps(min(at_once, end - self.job.step)))
            self.tick()
        return self

    def tick(self) -> None:
        now = Moment(WALL + self.job.clock, 5.0 + self.job.clock)
        out = self.diagnoser.tick(self.run, now)
        if any(isinstance(said, PublishEvent) for said in out) or self._open:
            self._note()

    def _note(self) -> None:
        present = {one.id: one for one in self.diagnoser.book.open}
        for number, verdict in present.items():
            if number not in self._open:
                self.said.append((self.job.step, verdict))
        self.cleared += [(self.job.step, one) for number, one in self._open.items() if number not in present]
        self._open = present

    def kinds(self) -> set[tuple[str, int | None, str | None]]:
        """(kind, rank, phase) of everything that was ever said."""
        return {(one.kind, one.rank, one.phase) for _, one in self.said}
