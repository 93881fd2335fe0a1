"""Steps to messages, a few times a second."""

from array import array
from dataclasses import dataclass, field
from operator import add

from trackside.monitor.phases.fold import StepCost
from trackside.wire.messages import StepTimes

EVERY_S = 0.25
ENTRY_S = 0.05
"""Steps shorter than this are summed until it is full."""
PATIENCE_S = 1.0
"""How long an entry that is not full waits for more steps."""
_NAN = float("nan")


@dataclass(slots=True)
class _Entry:
    """Consecutive steps, summed."""

    step: int
    ended_at: float
    names: tuple[str, ...]
    """Of the phases in `seconds`, as most steps have them."""
    seconds: list[float]
    wall: float
    own: float
    """NaN when that of one of them cannot be told."""
    known: tuple[str, ...]
    samples: int
    """-1 when those of one of them are not counted."""
    core_wait: float
    """Of those steps that were looked at."""
    looked_at: int
    count: int = 1
    others: list[dict[str, float]] = field(default_factory=list)
    """Seconds of steps that had other phases, or in another order."""

    @property
    def whole_core_wait(self) -> float:
        """Of all its steps, as far as those that were looked at tell; NaN when none was."""
        return self.core_wait / self.looked_at * self.count if self.looked_at else _NAN

    def add(self, cost: StepCost) -> None:
        self.step, self.ended_at, wall, own, seconds, self.known, samples, core_wait = cost
        self.count += 1
        self.wall += wall
        self.own += _NAN if own is None else own
        if core_wait is not None:
            self.core_wait += core_wait
            self.looked_at += 1
        if tuple(seconds) == self.names:
            self.seconds = list(map(add, self.seconds, seconds.values()))
        else:
            self.others.append(seconds)
        self.samples = -1 if samples is None or self.samples < 0 else self.samples + samples

    def by_phase(self) -> dict[str, float]:
        found = dict(zip(self.names, self.seconds, strict=True))
        for seconds in self.others:
            for name, spent in seconds.items():
                found[name] = found.get(name, 0.0) + spent
        return found


def _entry(cost: StepCost) -> _Entry:
    return _Entry(
        step=cost.step,
        ended_at=cost.ended_at,
        names=tuple(cost.seconds),
        seconds=list(cost.seconds.values()),
        wall=cost.wall,
        own=_NAN if cost.own is None else cost.own,
        known=cost.known,
        samples=-1 if cost.samples is None else cost.samples,
        core_wait=cost.core_wait or 0.0,
        looked_at=int(cost.core_wait is not None),
    )


class Entries:
    """Steps that wait to be sent. Threads: the send thread only."""

    def __init__(self) -> None:
        self._full: list[_Entry] = []
        self._filling: _Entry | None = None
        self._filling_since = 0.0
        self._sent_at = 0.0

    def add(self, cost: StepCost, now: float) -> None:
        """Take a step; `now` is monotonic."""
        filling = self._filling
        if filling is not None and (filling.known != cost.known or cost.step <= filling.step):
            self._full.append(filling)
            filling = None
        if filling is None:
            filling, self._filling_since = _entry(cost), now
        else:
            filling.add(cost)
        self._filling = filling
        if filling.wall >= ENTRY_S:
            self._full.append(filling)
            self._filling = None

    def message(self, now: float, *, flush: bool) -> StepTimes | None:
        """What there is to send now.

        Args:
            now: Monotonic.
            flush: Send everything at once.
        """
        if not flush and now - self._sent_at < EVERY_S:
            return None
        if self._filling is not None and (flush or now - self._filling_since > PATIENCE_S):
            self._full.append(self._filling)
            self._filling = None
        if not self._full:
            return None
        self._sent_at = now
        entries, self._full = self._full, []
        return _message(entries)


def _message(entries: list[_Entry]) -> StepTimes:
    names = list(dict.fromkeys(name for entry in entries for name in entry.known))
    seconds = array("d")
    for entry in entries:
        by_phase = entry.by_phase()
        seconds.extend(by_phase.get(name, 0.0 if name in entry.known else _NAN) for name in names)
    return StepTimes(
        phases=names,
        step=array("q", [entry.step for entry in entries]).tobytes(),
        count=array("I", [entry.count for entry in entries]).tobytes(),
        ended_at=array("d", [entry.ended_at for entry in entries]).tobytes(),
        wall=array("d", [entry.wall for entry in entries]).tobytes(),
        own=array("d", [entry.own for entry in entries]).tobytes(),
        seconds=seconds.tobytes(),
        samples=array("q", [entry.samples for entry in entries]).tobytes(),
        core_wait=array("d", [entry.whole_core_wait for entry in entries]).tobytes(),
    )
