"""Monotonic times in a state that another process, perhaps after another boot, takes over."""

from collections.abc import Iterator

from trackside.run.inputs import Moment
from trackside.run.state import Rank, Run

TOLERANCE_SECONDS = 5.0
"""Both clocks may differ by so much since the state was saved before the monotonic one counts as another."""


def take_over(run: Run, now: Moment) -> None:
    """Move every monotonic time into this process's clock, when it is not the one the state was saved by.

    How long nobody was there can only be told by the wall clock of the controller's machine; it is never less than 0.
    """
    expected = run.seen_mono + max(0.0, now.wall - run.seen_wall)
    shift = now.mono - expected
    if abs(shift) <= TOLERANCE_SECONDS:
        return
    for holder, name in _times(run):
        value = getattr(holder, name)
        if value is not None:
            setattr(holder, name, value + shift)
    run.history = [(mono + shift, step) for mono, step in run.history]


def _times(run: Run) -> Iterator[tuple[object, str]]:
    for name in (
        "started_mono",
        "seen_mono",
        "published_at",
        "ended_mono",
        "all_over_since",
        "summed_at",
        "stopped_mono",
    ):
        yield run, name
    for rank in run.ranks.values():
        yield from _times_of(rank)
    for session in run.sessions.values():
        yield session, "seen"
    for host in run.hosts.values():
        yield host, "sampled_at"
    for epoch in run.epochs.values():
        yield epoch, "reported_at"
    for mark in run.event_marks.values():
        yield mark, "seen"
    for quota in run.quotas.values():
        for name in ("since", "told_at", "grew_at"):
            yield quota, name


def _times_of(rank: Rank) -> Iterator[tuple[object, str]]:
    for name in ("seen", "sampled_at", "own_sample_at", "ended_at", "untold_since"):
        yield rank, name
    for progress in rank.progress:
        yield progress, "mono"
