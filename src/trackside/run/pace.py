"""How fast and how long still: throughput, batch share, time left."""

from itertools import islice

import msgspec

from trackside.run.inputs import Moment
from trackside.run.state import Epoch, Progress, Rank, Run
from trackside.wire.messages import Heartbeat

WINDOW_SECONDS = 30.0
STANDING_S = 20.0
STANDING_TIMES = 3
"""An epoch or step that takes so many times as long as usual, and so many seconds more, says nothing of the time left."""
HISTORY_SECONDS = 120.0
MAX_PROGRESS = 64
MOST_PHASES = 64
MOST_PHASE_CHARACTERS = 80
MAX_HISTORY = 600
PEER_PHASES = ("collective", "waiting")
"""Phases of a heartbeat in which the rank waited for its peers; in all others it worked itself."""
BLURRED_PHASE = "step"
"""The phase that holds work and waiting for peers alike, when a rank cannot tell them apart."""


def note_progress(rank: Rank, beat: Heartbeat, mono: float) -> None:
    """Take a heartbeat's running totals; those of a new process begin anew."""
    progress = rank.progress
    if progress and (beat.batches < progress[-1].batches or (beat.samples or 0) < (progress[-1].samples or 0)):
        progress.clear()
    progress.append(Progress(mono=mono, batches=beat.batches, samples=beat.samples, phases=beat.phases))
    while len(progress) > 2 and (mono - progress[0].mono > WINDOW_SECONDS or len(progress) > MAX_PROGRESS):
        progress.pop(0)


def within_bounds(beat: Heartbeat) -> Heartbeat:
    """A heartbeat with no more phases, and no longer names for them, than anybody looks at."""
    phase = beat.phase[:MOST_PHASE_CHARACTERS] if beat.phase else beat.phase
    phases = beat.phases
    if len(phases) > MOST_PHASES or any(len(name) > MOST_PHASE_CHARACTERS for name in phases):
        phases = {name[:MOST_PHASE_CHARACTERS]: phases[name] for name in islice(phases, MOST_PHASES)}
    elif phase == beat.phase:
        return beat
    return msgspec.structs.replace(beat, phase=phase, phases=phases)


def throughput_of(run: Run, rank: Rank) -> float | None:
    """Samples per second of the rank's own working time over the last half minute.

    Without waiting for peers, which would hide the slow rank; None when that cannot be told apart, or no samples came.
    """
    if len(rank.progress) < 2:
        return None
    first, last = rank.progress[0], rank.progress[-1]
    samples = (last.samples or 0) - (first.samples or 0)
    seconds = _own_seconds(run, rank, first, last)
    return samples / seconds if samples > 0 and seconds else None


def _own_seconds(run: Run, rank: Rank, first: Progress, last: Progress) -> float | None:
    spent = {name: total - first.phases.get(name, 0.0) for name, total in last.phases.items()}
    own = sum(seconds for name, seconds in spent.items() if name not in (*PEER_PHASES, BLURRED_PHASE))
    blurred = spent.get(BLURRED_PHASE, 0.0)
    if blurred > 0 and run.world_size == 1:
        own += blurred
    elif blurred > 0 or own <= 0:
        batches = last.batches - first.batches
        own = (rank.own_step_seconds or 0.0) * batches
    return own if own > 0 else None


def wall_throughput(run: Run) -> float | None:
    """Samples per second of the whole job, by the clock on the wall."""
    rates = []
    for rank in run.ranks.values():
        if rank.state not in ("alive", "late") or len(rank.progress) < 2:
            continue
        first, last = rank.progress[0], rank.progress[-1]
        seconds = last.mono - first.mono
        if last.samples is not None and seconds > 0:
            rates.append((last.samples - (first.samples or 0)) / seconds)
    return sum(rates) if rates else None


def batch_shares(run: Run) -> dict[int, float]:
    """Each rank's samples over all samples; empty until somebody counted any. Shares sum to 1."""
    samples = {rank.rank: rank.samples for rank in run.ranks.values() if rank.samples}
    total = sum(samples.values())
    return {number: count / total for number, count in samples.items()} if total else {}


def phase_means(rank: Rank) -> dict[str, float]:
    """Mean seconds a step in each phase over the window."""
    if not rank.progress:
        return {}
    last = rank.progress[-1]
    first = rank.progress[0] if len(rank.progress) > 1 else None
    batches = last.batches - (first.batches if first else 0)
    if batches <= 0:
        return {}
    before = first.phases if first else {}
    return {name: max(0.0, total - before.get(name, 0.0)) / batches for name, total in last.phases.items()}


def note_step(run: Run, now: Moment) -> None:
    """Remember where the slowest rank is, for the step rate. Costs a look at every rank: call it on ticks only."""
    step = slowest_step(run)
    history = run.history
    if step is None or (history and history[-1][1] == step):
        return
    if history and step < history[-1][1]:
        history.clear()
    history.append((now.mono, step))
    while len(history) > 2 and (now.mono - history[0][0] > HISTORY_SECONDS or len(history) > MAX_HISTORY):
        history.pop(0)


def slowest_step(run: Run) -> int | None:
    """The step every live rank has reached; the furthest one when none is alive."""
    known = [rank for rank in run.ranks.values() if rank.step is not None]
    alive = [rank.step for rank in known if rank.state in ("alive", "late") and rank.step is not None]
    return min(alive) if alive else max((rank.step for rank in known if rank.step is not None), default=None)


def eta_seconds(run: Run, now: Moment) -> float | None:
    """Time left: from the last five epochs, else from the recent step rate; never negative.

    What is under way takes as long as the others did and does not shorten what comes after it. None without a basis: also
    when it has taken far longer than the others, since nobody knows when a run that stands goes on.
    """
    if run.ended_wall is not None:
        return None
    left = _by_epochs(run, now) if run.plan_epochs else None
    return left if left is not None else _by_steps(run, now) if run.plan_steps else None


def _by_epochs(run: Run, now: Moment) -> float | None:
    known: list[tuple[Epoch, float]] = [
        (epoch, epoch.record.seconds)
        for _, epoch in sorted(run.epochs.items())
        if epoch.record is not None and epoch.record.seconds is not None and epoch.generation == run.generation
        if epoch.record.complete
    ][-5:]
    if not known:
        return None
    done = known[-1][0].epoch + (1 if _counts_from_zero(run) else 0)
    mean = sum(seconds for _, seconds in known) / len(known)
    return _left((run.plan_epochs or 0) - done, mean, now.mono - known[-1][0].reported_at)


def _counts_from_zero(run: Run) -> bool:
    """Whether the script's first epoch is 0, as `Monitor.epochs` has it, also after a resume in the middle."""
    seen = [*run.epochs, *(rank.epoch for rank in run.ranks.values() if rank.epoch is not None)]
    return min(seen) == 0 or (min(seen) > 1 and max(seen) < (run.plan_epochs or 0))


def _by_steps(run: Run, now: Moment) -> float | None:
    if len(run.history) < 2:
        return None
    (began, first), (ended, last) = run.history[0], run.history[-1]
    if ended <= began or last <= first:
        return None
    left = (run.plan_steps or 0) - 1 - last
    return _left(left, (ended - began) / (last - first), now.mono - ended)


def _left(count: int, seconds: float, since: float) -> float | None:
    """What `count` more of so many seconds take, the first of them begun `since` ago; None when that one is far overdue."""
    if count <= 0:
        return 0.0
    if since > STANDING_TIMES * seconds + STANDING_S:
        return None
    return count * seconds - min(max(0.0, since), seconds)
