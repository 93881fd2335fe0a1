"""Verdicts that are open, and those that are over; each is an event while it holds."""

from collections.abc import Iterable
from typing import Any

import msgspec

from trackside.run.events import amend_event, clear_event, raise_event
from trackside.run.inputs import Moment
from trackside.run.outputs import Instruction, PublishRun
from trackside.run.state import Run
from trackside.wire.documents import Verdict
from trackside.wire.messages import Level

MOST_OVER = 50
MOST_OPEN = 64
"""Verdicts at a time; a job in which more ranks are behind than that has another problem."""
AGAIN_STEPS = 20_000
"""A verdict on the same path within so many steps of the last one is recurring."""
_ORDER = {
    "straggler": 0,
    "data starvation": 0,
    "crowded host": 1,
    "imbalance": 2,
    "memory growth": 3,
    "slow step": 4,
}

Key = tuple[str, str]
"""Kind and path."""


class VerdictBook(msgspec.Struct, kw_only=True):
    """All verdicts of a run; part of a checkpoint."""

    open: list[Verdict] = []
    over: list[Verdict] = []
    """Oldest first."""
    next_id: int = 1

    def find(self, kind: str, path: str) -> Verdict | None:
        """The open verdict of a kind on a path."""
        return next((one for one in self.open if one.kind == kind and one.path == path), None)

    def say(self, run: Run, now: Moment, verdict: Verdict, severity: Level) -> list[Instruction]:
        """Open a verdict, or bring the one that is open on its path up to date. Its id and pattern are set here."""
        known = self.find(verdict.kind, verdict.path)
        if known is not None:
            return self._renew(run, known, verdict)
        if len(self.open) >= MOST_OPEN:
            return []
        before = [one for one in self.over if one.kind == verdict.kind and one.path == verdict.path]
        again = bool(before) and (verdict.since_step or 0) - (before[-1].until_step or 0) < AGAIN_STEPS
        fresh = _with(verdict, id=self.next_id, pattern="recurring" if again else verdict.pattern)
        self.next_id += 1
        self.open.append(fresh)
        out = raise_event(
            run,
            now,
            fresh.kind,
            fresh.text,
            severity=severity,
            path=fresh.path,
            step=fresh.since_step,
            active=True,
        )
        return [*out, PublishRun()]

    def _renew(self, run: Run, known: Verdict, verdict: Verdict) -> list[Instruction]:
        """Figures move on; where it began stays, and the event follows only when somebody else is to blame."""
        fresh = _with(
            verdict,
            id=known.id,
            pattern=known.pattern,
            since_step=known.since_step,
            since_time=known.since_time,
        )
        self.open[self.open.index(known)] = fresh
        if (fresh.phase, fresh.module) == (known.phase, known.module):
            return []
        return [*amend_event(run, fresh.kind, fresh.path, fresh.text), PublishRun()]

    def end(self, run: Run, verdict: Verdict, step: int | None) -> list[Instruction]:
        """The cause is gone. A step before its beginning, or none, is of a session that began again: no step to tell."""
        self.open.remove(verdict)
        if step is not None and step < (verdict.since_step or 0):
            step = None
        pattern = "once" if verdict.pattern == "chronic" else verdict.pattern
        self.over = [*self.over, _with(verdict, active=False, until_step=step, pattern=pattern)][-MOST_OVER:]
        return [*clear_event(run, verdict.kind, verdict.path), PublishRun()]

    def listed(self) -> list[Verdict]:
        """Open ones first, the worst first; then those that are over, the latest first."""
        return [*sorted(self.open, key=_rank_of), *reversed(self.over)]

    def worst_on(self, paths: Iterable[str]) -> dict[str, str]:
        """Kind of the worst open verdict by path."""
        wanted = set(paths)
        found: dict[str, str] = {}
        for verdict in sorted(self.open, key=_rank_of):
            if verdict.path in wanted:
                found.setdefault(verdict.path, verdict.kind)
        return found


def _rank_of(verdict: Verdict) -> tuple[int, float, int]:
    return _ORDER[verdict.kind], -(verdict.gain_seconds or 0.0), verdict.id


def _with(verdict: Verdict, **changes: Any) -> Verdict:
    return msgspec.structs.replace(verdict, **changes)
