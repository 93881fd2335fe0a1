"""How a run begins and ends, in honest words."""

from typing import Literal

from trackside.run.epochs import publish_rest
from trackside.run.events import raise_event
from trackside.run.failures import STOP_SIGNALS, end_words, first_to_fail, tell_all
from trackside.run.inputs import Moment, StopAsked
from trackside.run.outputs import CompleteRun, Instruction, PublishRun
from trackside.run.state import Rank, Run
from trackside.run.topology import ranks_in_order
from trackside.wire import messages

RunOutcome = Literal["finished", "failed", "terminated"]
BY_HAND = "stopped with Ctrl-C (SIGINT)"


def end_job(run: Run, message: messages.JobEnded, now: Moment) -> list[Instruction]:
    """A launcher says how the job ended, or that a signal ends it; of several hosts' launchers the worst word counts."""
    if run.job is None or (run.job.signal is None and (message.signal or (message.exit_code or 0) > 0)):
        run.job = message
    return [*tell_all(run, now), PublishRun()]


def lose_launcher(run: Run, now: Moment) -> list[Instruction]:
    """The launcher died without a word; ranks may go on."""
    if run.launcher_gone or run.job is not None:
        return []
    run.launcher_gone = True
    for session in run.sessions.values():
        if session.role == "agent":
            session.gone = True
    if not run.settings.launched:
        return []
    text = "the launcher is gone; the ranks go on and are watched until the last one ends"
    return raise_event(run, now, "launcher gone", text, severity="critical", active=True)


def ask_stop(run: Run, asked: StopAsked, now: Moment) -> list[Instruction]:
    """Somebody wants the controller to end; asked twice, at once."""
    is_first = run.stop_reason is None
    run.stop_reason = run.stop_reason or asked.reason
    run.stopped_mono = now.mono if is_first else now.mono - run.settings.stop_grace_seconds
    return [PublishRun()]


def check_end(run: Run, now: Moment) -> list[Instruction]:
    """Complete the run once nothing more can come."""
    if run.completed:
        return []
    is_again = run.ended_wall is not None  # it was opened again, for what came to light
    out: list[Instruction] = []
    agents = [session for session in run.sessions.values() if session.role == "agent"]
    if agents and all(session.gone or session.said_goodbye for session in agents):
        out = lose_launcher(run, now)
    if not (is_again or _is_over(run, now)):
        return out
    run.completed = True
    out += tell_all(run, now)
    run.state, run.state_detail = _outcome(run)
    if is_again:
        return [*out, PublishRun(), CompleteRun()]
    run.ended_wall, run.ended_mono = now.wall, now.mono
    text = run.state if run.state_detail is None else f"{run.state}: {run.state_detail}"
    return [*out, *publish_rest(run, now), *raise_event(run, now, "finish", text), PublishRun(), CompleteRun()]


def _is_over(run: Run, now: Moment) -> bool:
    if run.stopped_mono is not None:
        has_ranks = any(session.is_open and session.role == "rank" for session in run.sessions.values())
        return not has_ranks or now.mono - run.stopped_mono >= run.settings.stop_grace_seconds
    agents = [session for session in run.sessions.values() if session.role == "agent"]
    if agents and not run.launcher_gone:
        return run.job is not None and not any(session.is_open for session in agents)
    if run.settings.launched and not run.launcher_gone:
        return False
    if not run.ranks:
        return run.launcher_gone
    if not all(rank.is_over or _is_given_up(run, rank, now) for rank in run.ranks.values()) or _is_leaving(run, now):
        run.all_over_since = None
        return False
    if run.all_over_since is None:
        run.all_over_since = now.mono
    return now.mono - run.all_over_since >= _linger_seconds(run)


def _linger_seconds(run: Run) -> float:
    """How long more ranks, or the next ones, are waited for."""
    if run.may_restart and any(rank.state == "failed" for rank in run.ranks.values()):
        return run.settings.restart_seconds
    is_complete = run.world_size is not None and len(run.ranks) >= run.world_size
    return 0.0 if is_complete else run.settings.linger_seconds


def _is_leaving(run: Run, now: Moment) -> bool:
    """Whether a process is about to end, with an exit code that may still change the word."""
    return any(
        session.leaving and now.mono - session.seen < run.settings.leave_seconds for session in run.sessions.values()
    )


def _is_given_up(run: Run, rank: Rank, now: Moment) -> bool:
    """Whether a lost rank is not waited for: nobody saw it end, so it may only be cut off or frozen for a while.

    One without a Monitor was known through its launcher only; when that is gone there is nothing to wait for.
    """
    if rank.state != "lost":
        return False
    return not rank.monitored or now.mono - rank.seen >= run.settings.abandon_after_seconds


def _outcome(run: Run) -> tuple[RunOutcome, str | None]:
    """State and detail of a run that is over."""
    job = run.job
    if (how := _terminated(run)) is not None:
        return "terminated", how
    if job is not None and job.exit_code == 0 and not run.launcher_gone:
        return "finished", None
    if failure := _failure(run):
        return "failed", failure
    is_busy = not run.ranks or any(not rank.is_over for rank in run.ranks.values())
    if run.stop_reason is not None and is_busy:
        return "terminated", f"the controller was stopped by {run.stop_reason}"
    if run.launcher_gone and run.settings.launched:
        return "finished", "the launcher died before; every rank ended cleanly"
    return "finished", None


def _terminated(run: Run) -> str | None:
    """Which signal asked the job to end, and whom; None where none did."""
    if run.job is not None:
        if run.job.signal == "SIGINT":
            return BY_HAND
        return f"the launcher was ended by {run.job.signal}" if run.job.signal in STOP_SIGNALS else None
    culprit = first_to_fail(run)
    if culprit is not None and culprit.signal == "SIGINT" and not run.settings.launched:
        return BY_HAND
    return end_words(culprit) if culprit is not None and culprit.signal in STOP_SIGNALS else None


def _failure(run: Run) -> str | None:
    """What went wrong, or None: the first rank that failed by itself, else the launcher, else who was lost."""
    if (culprit := first_to_fail(run)) is not None:
        failed = (rank for rank in run.ranks.values() if rank.state == "failed" and rank is not culprit)
        others = sum(rank.signal != "SIGTERM" for rank in failed)
        return end_words(culprit) + (f"; {others} more failed" if others else "")
    if run.job is not None and (run.job.exit_code or run.job.signal):
        how = f"was killed by {run.job.signal}" if run.job.signal else f"exited with code {run.job.exit_code}"
        return f"the launcher {how}"
    if not run.ranks and run.launcher_gone and run.stop_reason is None:
        return "the process that began it ended before any rank was connected"
    lost = [rank for rank in ranks_in_order(run) if rank.state == "lost"]
    if not lost or (run.stop_reason is not None and len(lost) < len(run.ranks)):
        return None
    if run.launcher_gone and not any(rank.monitored for rank in lost):
        return "the launcher died, and without it nobody can say how the ranks ended"
    names = ", ".join(f"rank {rank.rank}" for rank in lost[:5]) + (" …" if len(lost) > 5 else "")
    return f"{names} never spoke again"
