"""Who failed: the first, whom the others followed, and in which order it is told.

A rank that dies takes its peers along: their collective breaks, which is an exception in each, and their launcher ends the
rest. These words come over several links within moments, a victim's often before the cause's. So what may be a consequence
waits for a second, and the cause is told first.
"""

from collections.abc import Callable

from trackside.run.events import raise_event
from trackside.run.inputs import Moment
from trackside.run.outputs import Instruction
from trackside.run.state import Rank, Run
from trackside.run.topology import path_of
from trackside.wire.messages import Identity

STOP_SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT")
TELL_SECONDS = 1.0
"""How long a failure that may be a consequence waits for its cause."""
_FOLLOWS_SECONDS = 5.0
"""How long after its victims' word a cause may be heard of: another host's launcher, a slow link."""


def end_words(rank: Rank) -> str:
    """How a rank ended, for people: `rank 5 on gpu-02 was killed by SIGKILL`."""
    who = f"rank {rank.rank}" + (f" on {rank.host}" if rank.host else "")
    if rank.signal and not (rank.raised and rank.signal == "SIGTERM"):  # which came when it was ending already
        return f"{who} was killed by {rank.signal}"
    if rank.exit_code is not None:
        return f"{who} exited with code {rank.exit_code}"
    return f"{who} ended with an exception" if rank.raised else f"{who} ended without a word"


def first_to_fail(run: Run) -> Rank | None:
    """Whose end the others followed; whoever was asked to end only followed."""
    failed = _failed(run)
    return min(failed, key=_order(failed), default=None)


def note_failure(run: Run, rank: Rank, now: Moment, *, is_known: bool) -> list[Instruction]:
    """A rank did not end well: told now when it is no consequence, else in a moment.

    What is learnt later (the exit code after the exception) is said in the same event.
    """
    if rank.untold_since is None and _is_told(run, rank):
        return _tell(run, rank, now, count=0 if is_known else 1)
    rank.untold_since = now.mono if rank.untold_since is None else rank.untold_since
    is_sure = _is_cause(rank) and rank.signal != "SIGTERM"  # which may be followed by the launcher's own end
    if is_sure or (run.world_size == 1 and rank.signal != "SIGTERM"):
        return _tell(run, rank, now)
    return []


def tell_due(run: Run, now: Moment) -> list[Instruction]:
    """Tell what has waited long enough; whoever was asked to end meanwhile is no failure."""
    return _tell_untold(run, now, TELL_SECONDS)


def tell_all(run: Run, now: Moment) -> list[Instruction]:
    """Tell what there is: nothing more will be known."""
    return _tell_untold(run, now, 0.0)


def tell_before(run: Run, identity: Identity | None, now: Moment) -> list[Instruction]:
    """Before ranks are started again: what their predecessors came to."""
    if identity is None or not (identity.generation > run.generation or identity.rank in _untold(run)):
        return []
    return tell_all(run, now)


def is_asked(run: Run, rank: Rank) -> bool:
    """Whether the rank was asked to end: with the job, for another's failure, or by whoever sits at the terminal."""
    if run.stop_reason is not None and rank.signal in STOP_SIGNALS:
        return True
    if run.job is not None and run.job.signal is not None:
        return True
    if rank.signal == "SIGINT":
        return not run.settings.launched
    return rank.signal == "SIGTERM" and rank.follows and first_to_fail(run) is not rank


def _failed(run: Run) -> list[Rank]:
    return [rank for rank in run.ranks.values() if rank.state == "failed"]


def _order(failed: list[Rank]) -> Callable[[Rank], tuple[bool, bool, float, int]]:
    """By which the first to fail stands first.

    A rank that was killed, or left with a code of its own, did not do so because a peer was gone. What an exception or an
    abort (which is how NCCL's watchdog ends a rank) tells is when it came.
    """
    began = min((rank.ended_at or 0.0 for rank in failed if not _only_followed(rank)), default=0.0)

    def order(rank: Rank) -> tuple[bool, bool, float, int]:
        at = rank.ended_at or 0.0
        return _only_followed(rank), not (_is_cause(rank) and at - began <= _FOLLOWS_SECONDS), at, rank.rank

    return order


def _only_followed(rank: Rank) -> bool:
    return rank.signal == "SIGTERM" and rank.follows and not rank.raised


def _is_cause(rank: Rank) -> bool:
    if rank.raised:
        return False
    if rank.signal:
        return rank.signal != "SIGABRT" and not _only_followed(rank)
    return rank.exit_code is not None and rank.exit_code > 1


def _is_told(run: Run, rank: Rank) -> bool:
    """Whether it is an event that holds, or was one before the journal is replayed that tells it again."""
    path = path_of(rank)
    told = (event for event in run.events if event.kind == "rank failed" and event.path == path)
    return any(event.active or event.id in run.recalled for event in told)


def _untold(run: Run) -> dict[int, Rank]:
    return {rank.rank: rank for rank in run.ranks.values() if rank.untold_since is not None}


def _tell_untold(run: Run, now: Moment, after_seconds: float) -> list[Instruction]:
    untold = _untold(run)
    if not any(now.mono - (rank.untold_since or 0.0) >= after_seconds for rank in untold.values()):
        return []
    out: list[Instruction] = []
    for rank in sorted(untold.values(), key=_order(_failed(run))):
        if is_asked(run, rank):
            rank.untold_since = None
        else:
            out += _tell(run, rank, now)
    return out


def _tell(run: Run, rank: Rank, now: Moment, count: int = 1) -> list[Instruction]:
    rank.untold_since = None
    step = "no step" if rank.step is None else f"last step {rank.step:,}"
    return raise_event(
        run,
        now,
        "rank failed",
        f"{end_words(rank)}, {step}",
        severity="warn" if rank.signal == "SIGTERM" else "critical",
        path=path_of(rank),
        count=count,
        step=rank.step,
        active=True,
    )
