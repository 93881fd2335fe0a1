"""Signs of life: late, lost, back, gone."""

from trackside.run.events import clear_event, raise_event
from trackside.run.inputs import Moment
from trackside.run.outputs import Instruction, PublishRun
from trackside.run.state import Rank, Run
from trackside.run.topology import elect_samplers, path_of, rank_is_back, ranks_in_order
from trackside.wire import messages


def note_life(run: Run, session: bytes, now: Moment) -> list[Instruction]:
    """Any frame of a session is a sign of its life."""
    known = run.sessions.get(session)
    if known is None:
        return []
    known.seen, known.gone = now.mono, False
    rank = run.ranks.get(known.rank) if known.rank is not None else None
    if rank is None or rank.session != session:
        return []
    return touch(run, rank, now)


def touch(run: Run, rank: Rank, now: Moment) -> list[Instruction]:
    """The rank is alive at this moment."""
    out: list[Instruction] = []
    if rank.state in ("late", "lost"):
        out = [*rank_is_back(run, rank, now), *elect_samplers(run), PublishRun()]
    rank.seen = now.mono
    return out


def check_silence(run: Run, now: Moment) -> list[Instruction]:
    """Mark ranks that have been silent for too long; at teardown nobody is."""
    if run.completed or run.job is not None or run.stop_reason is not None:
        return []
    out: list[Instruction] = []
    for rank in ranks_in_order(run):
        if rank.is_over or rank.state == "lost":
            continue
        silent = now.mono - rank.seen
        if silent >= run.settings.lost_after_seconds:
            out += _lose(run, rank, silent, now)
        elif silent >= run.settings.late_after_seconds and rank.state == "alive":
            rank.state = "late"
            out += _say_silent(run, rank, "rank late", silent, now)
    return [*out, *elect_samplers(run), PublishRun()] if out else []


def _lose(run: Run, rank: Rank, silent: float, now: Moment) -> list[Instruction]:
    rank.state = "lost"
    return clear_event(run, "rank late", path_of(rank)) + _say_silent(run, rank, "rank lost", silent, now)


def _say_silent(run: Run, rank: Rank, kind: str, silent: float, now: Moment) -> list[Instruction]:
    step = "no step yet" if rank.step is None else f"last step {rank.step:,}"
    phase = f", phase {rank.phase}" if rank.phase else ""
    text = f"{rank.host or 'unknown host'} rank{rank.rank}: {step}{phase}, silent {silent:.0f} s"
    severity: messages.Level = "critical" if kind == "rank lost" else "warn"
    return raise_event(run, now, kind, text, severity=severity, path=path_of(rank), step=rank.step, active=True)


def exit_worker(run: Run, message: messages.WorkerExited, now: Moment) -> list[Instruction]:
    """The launcher saw a rank's process end."""
    rank = run.ranks.get(message.rank)
    if rank is None or rank.generation != message.generation:
        return []
    rank.exit_code, rank.signal = message.exit_code, message.signal
    clean = message.exit_code == 0
    return end_rank(run, rank, clean=clean, now=now)


def end_rank(run: Run, rank: Rank, *, clean: bool, now: Moment, why: str | None = None) -> list[Instruction]:
    """A rank is over, well or not; what was open about its silence clears up."""
    was_failed = rank.state == "failed"
    rank.state = "finished" if clean else "failed"
    rank.seen = now.mono
    path = path_of(rank)
    out = clear_event(run, "rank late", path) + clear_event(run, "rank lost", path)
    if not clean and not was_failed and not _is_expected(run, rank):
        step = "no step" if rank.step is None else f"last step {rank.step:,}"
        text = f"{why or end_words(rank)}, {step}"
        out += raise_event(run, now, "rank failed", text, severity="critical", path=path, step=rank.step, active=True)
    return [*out, *elect_samplers(run), PublishRun()]


def end_words(rank: Rank) -> str:
    """How a rank ended, for people: `rank 5 on gpu-02 was killed by SIGKILL`."""
    who = f"rank {rank.rank}" + (f" on {rank.host}" if rank.host else "")
    if rank.signal:
        return f"{who} was killed by {rank.signal}"
    if rank.exit_code is not None:
        return f"{who} exited with code {rank.exit_code}"
    return f"{who} ended without a word"


def _is_expected(run: Run, rank: Rank) -> bool:
    """Whether the launcher ended it because of another's failure, or somebody asked for the end."""
    if rank.signal != "SIGTERM":
        return False
    return run.stop_reason is not None or any(
        other.state == "failed" and other is not rank for other in run.ranks.values()
    )


def say_goodbye(run: Run, session: bytes, message: messages.Goodbye, now: Moment) -> list[Instruction]:
    """A script, or an agent's job, came to its end."""
    known = run.sessions[session]
    known.said_goodbye = True
    rank = run.ranks.get(known.rank) if known.rank is not None else None
    if rank is None or rank.session != session:
        return elect_samplers(run)
    rank.dropped_points = max(rank.dropped_points, message.dropped_points)
    if rank.exit_code is not None or rank.signal:
        return elect_samplers(run)
    why = f"rank {rank.rank}" + (f" on {rank.host}" if rank.host else "") + " ended with an exception"
    return end_rank(run, rank, clean=message.clean, now=now, why=None if message.clean else why)


def lose_process(run: Run, session: bytes, now: Moment) -> list[Instruction]:
    """A session's process has ended on the controller's own machine."""
    known = run.sessions.get(session)
    if known is None or not known.is_open:
        return []
    known.gone = True
    rank = run.ranks.get(known.rank) if known.rank is not None else None
    if rank is None or rank.session != session or rank.is_over or (run.settings.launched and not run.launcher_gone):
        return elect_samplers(run)
    return end_rank(run, rank, clean=False, now=now)
