"""How a run begins and ends, in honest words."""

from typing import Literal

from trackside.run.events import raise_event
from trackside.run.inputs import Moment, StopAsked
from trackside.run.liveness import end_words
from trackside.run.outputs import CompleteRun, Instruction, PublishRun
from trackside.run.state import Run
from trackside.run.topology import ranks_in_order
from trackside.wire import messages

RunOutcome = Literal["finished", "failed", "terminated"]
STOP_SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT")


def end_job(run: Run, message: messages.JobEnded, now: Moment) -> list[Instruction]:
    """The launcher says how the job ended."""
    if run.job is None or (message.exit_code or 0) > (run.job.exit_code or 0):
        run.job = message
    return [PublishRun()]


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


def ask_stop(run: Run, asked: StopAsked) -> list[Instruction]:
    """Somebody wants the controller to end."""
    run.stop_reason = run.stop_reason or asked.reason
    return [PublishRun()]


def check_end(run: Run, now: Moment) -> list[Instruction]:
    """Complete the run once nothing more can come."""
    if run.completed or not _is_over(run, now):
        return []
    run.completed = True
    run.ended_wall, run.ended_mono = now.wall, now.mono
    run.state, run.state_detail = _outcome(run)
    text = run.state if run.state_detail is None else f"{run.state}: {run.state_detail}"
    return [*raise_event(run, now, "finish", text), PublishRun(), CompleteRun()]


def _is_over(run: Run, now: Moment) -> bool:
    if run.stop_reason is not None:
        return True
    ranks = run.ranks.values()
    agents = [session for session in run.sessions.values() if session.role == "agent"]
    if agents and not run.launcher_gone:
        return run.job is not None and not any(session.is_open for session in agents)
    if run.settings.launched and not run.launcher_gone and not agents:
        return False
    over = all(rank.is_over or rank.state == "lost" for rank in ranks)
    if not ranks:
        return run.launcher_gone
    if not over:
        run.all_over_since = None
        return False
    if run.all_over_since is None:
        run.all_over_since = now.mono
    everybody = run.world_size is not None and len(run.ranks) >= run.world_size
    return everybody or now.mono - run.all_over_since >= run.settings.linger_seconds


def _outcome(run: Run) -> tuple[RunOutcome, str | None]:  # noqa: PLR0911 - one line a case
    """State and detail of a run that is over."""
    signal = run.job.signal if run.job else None
    if signal in STOP_SIGNALS:
        return "terminated", f"the launcher was ended by {signal}"
    failed = [rank for rank in ranks_in_order(run) if rank.state == "failed"]
    lost = [rank for rank in ranks_in_order(run) if rank.state == "lost"]
    culprit = next((rank for rank in failed if rank.signal != "SIGTERM"), failed[0] if failed else None)
    if run.job is not None and run.job.exit_code == 0 and not run.launcher_gone:
        return "finished", None
    if culprit is not None:
        more = f"; {len(failed) - 1} more failed" if len(failed) > 1 else ""
        return "failed", end_words(culprit) + more
    if run.job is not None and run.job.exit_code:
        return "failed", f"the launcher exited with code {run.job.exit_code}"
    if lost:
        names = ", ".join(f"rank {rank.rank}" for rank in lost[:5]) + (" …" if len(lost) > 5 else "")
        return "failed", f"{names} never spoke again"
    running = [rank for rank in ranks_in_order(run) if not rank.is_over]
    if run.stop_reason is not None and (running or not run.ranks):
        return "terminated", f"the controller was stopped by {run.stop_reason}"
    if run.launcher_gone and run.settings.launched:
        return "finished", "the launcher died before; every rank ended cleanly"
    return "finished", None
