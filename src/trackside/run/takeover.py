"""Where later processes of a run took over from earlier ones: at which step, and how long nobody trained in between."""

from typing import Any

import msgspec

from trackside.run.inputs import Moment
from trackside.run.outputs import Instruction, PublishEvent, PublishRun
from trackside.run.state import Metric, Run, Takeover
from trackside.wire.documents import EventRecord

MOST_TAKEOVERS = 100
"""The latest ones; a job that fails at once may be restarted without end."""


def note_takeover(run: Run, generation: int, now: Moment, told: list[Instruction], paused_seconds: float = 0.0) -> None:
    """A generation takes over; `told` holds its event. Call while the ranks of the one before are still known."""
    events = [said.record for said in told if isinstance(said, PublishEvent) and said.record.kind == "restart"]
    reached = max((metric.last_step for metric in run.metrics.values() if metric.last_step is not None), default=None)
    run.takeovers.append(
        Takeover(
            generation=generation,
            time=now.wall,
            reached=reached,
            paused_seconds=paused_seconds,
            event=events[-1].id if events else None,
            text=events[-1].text if events else "",
        )
    )
    del run.takeovers[:-MOST_TAKEOVERS]


def note_first_step(run: Run, generation: int, step: int, epoch: int | None) -> list[Instruction]:
    """A generation told values of a step: the lowest is where it goes on, and what was trained beyond is superseded."""
    latest = run.takeovers[-1] if run.takeovers else None
    if latest is None or generation != latest.generation or (latest.step is not None and step >= latest.step):
        return []
    latest.step = step
    note_epoch(run, generation, epoch)
    at = next((at for at, record in enumerate(run.events) if record.id == latest.event), None)
    if at is None:
        return [PublishRun()]
    record: EventRecord = msgspec.structs.replace(run.events[at], step=step, text=latest.text + _words(latest))
    run.events[at] = record
    return [PublishEvent(record, is_new=False), PublishRun()]


def note_epoch(run: Run, generation: int, epoch: int | None) -> None:
    """A generation is in an epoch, or has told one: the lowest is the one it goes on in."""
    latest = run.takeovers[-1] if run.takeovers else None
    if latest is not None and epoch is not None and generation == latest.generation:
        latest.epoch = epoch if latest.epoch is None else min(epoch, latest.epoch)


def _words(takeover: Takeover) -> str:
    step, reached = takeover.step or 0, takeover.reached
    if reached is None or step > reached:
        return f"; it goes on at step {step:,}"
    again = f"steps {step:,} to {reached:,} are" if reached > step else f"step {step:,} is"
    return f"; it goes on at step {step:,}, and {again} trained again"


def span_of(run: Run, metric: Metric) -> tuple[int | None, int | None]:
    """First and last step of a metric among values that stand."""
    if metric.first_step is None or metric.last_step is None:
        return metric.first_step, metric.last_step
    last = min(
        [metric.last_step, *(step - 1 for generation, step in superseded(run) if generation > metric.generation)]
    )
    return (metric.first_step, last) if metric.first_step <= last else (None, None)


def superseded(run: Run) -> tuple[tuple[int, int], ...]:
    """(generation, step): values of earlier generations at that step or beyond it do not stand any more."""
    return tuple((one.generation, one.step) for one in run.takeovers if one.step is not None)


def takeover_facts(run: Run) -> dict[str, Any]:
    """What the run's environment says of it; empty where nothing took over."""
    paused = {"paused_seconds": run.paused_seconds} if run.paused_seconds else {}
    if not run.takeovers:
        return paused
    kept = ("generation", "time", "step", "epoch", "reached", "paused_seconds")
    return {**paused, "resumed": [{name: getattr(one, name) for name in kept} for one in run.takeovers]}
