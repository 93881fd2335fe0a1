"""How fast and how long still: throughput, batch share, time left."""

from trackside.run.inputs import Moment
from trackside.run.state import Progress, Rank, Run
from trackside.wire.messages import Heartbeat

WINDOW_SECONDS = 30.0
HISTORY_SECONDS = 120.0


def note_progress(rank: Rank, beat: Heartbeat, mono: float) -> None:
    """Take a heartbeat's running totals."""
    rank.progress.append(
        Progress(
            mono=mono,
            batches=beat.batches,
            samples=beat.samples,
            work=_work(beat),
            phases=beat.phases,
        )
    )
    while len(rank.progress) > 2 and mono - rank.progress[0].mono > WINDOW_SECONDS:
        rank.progress.pop(0)


def _work(beat: Heartbeat) -> float | None:
    if beat.own_step_seconds is None or not beat.batches:
        return None
    return beat.own_step_seconds * beat.batches


def throughput_of(rank: Rank) -> float | None:
    """Samples per second of the rank's own working time; of wall time when that is unknown; None without samples."""
    if len(rank.progress) < 2:
        return None
    first, last = rank.progress[0], rank.progress[-1]
    samples = (last.samples or 0) - (first.samples or 0)
    batches = last.batches - first.batches
    if samples <= 0 or batches <= 0:
        return None
    own = rank.own_step_seconds
    seconds = own * batches if own else last.mono - first.mono
    return samples / seconds if seconds > 0 else None


def wall_throughput(run: Run) -> float | None:
    """Samples per second of the whole job, by the clock on the wall."""
    rates = []
    for rank in run.ranks.values():
        if rank.is_over or len(rank.progress) < 2:
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
    """Remember where the slowest rank is, for the step rate."""
    step = slowest_step(run)
    if step is None or (run.history and run.history[-1][1] == step):
        return
    if run.history and step < run.history[-1][1]:
        run.history.clear()
    run.history.append((now.mono, step))
    while len(run.history) > 2 and (now.mono - run.history[0][0] > HISTORY_SECONDS or len(run.history) > 600):
        run.history.pop(0)


def slowest_step(run: Run) -> int | None:
    """The step every live rank has reached."""
    steps = [rank.step for rank in run.ranks.values() if rank.step is not None and rank.state != "failed"]
    return min(steps) if steps else None


def eta_seconds(run: Run, now: Moment) -> float | None:
    """Time left: from the last five epochs, else from the recent step rate; None without a basis, never negative."""
    if run.ended_wall is not None:
        return None
    if run.plan_epochs:
        durations = [
            epoch.record.seconds
            for epoch in sorted(run.epochs.values(), key=lambda epoch: epoch.epoch)
            if epoch.record and epoch.record.seconds is not None
        ][-5:]
        if durations:
            last = max(number for number, epoch in run.epochs.items() if epoch.record)
            left = run.plan_epochs - _epochs_done(run, last)
            return max(0.0, left * sum(durations) / len(durations) - _into_epoch(run, now))
    if run.plan_steps and len(run.history) >= 2:
        (began, first), (ended, last_step) = run.history[0], run.history[-1]
        if ended > began and last_step > first:
            rate = (last_step - first) / (ended - began)
            return max(0.0, (run.plan_steps - 1 - last_step) / rate - (now.mono - ended))
    return None


def _epochs_done(run: Run, last: int) -> int:
    """Epochs behind us, whether the script counts them from 0 or from 1."""
    return last + 1 if min(run.epochs) == 0 else last


def _into_epoch(run: Run, now: Moment) -> float:
    """Seconds since the last epoch ended, by its report; clocks of two hosts are not compared beyond that."""
    ended = max((e.record.ended_at for e in run.epochs.values() if e.record and e.record.ended_at), default=None)
    return 0.0 if ended is None else max(0.0, min(now.wall - ended, 3600.0))
