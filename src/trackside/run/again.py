"""A run whose job was started again as a whole: what was said stays, who said it is no more."""

from trackside.run.epochs import publish_rest
from trackside.run.events import clear_event, forget_recalled, raise_event
from trackside.run.inputs import JobStartedAgain, Moment
from trackside.run.outputs import Instruction, PublishRun
from trackside.run.state import Run
from trackside.run.takeover import note_takeover

_MINUTE_S = 60
_ENDS = {"terminated": "was terminated"}


def start_again(run: Run, event: JobStartedAgain, now: Moment) -> list[Instruction]:
    """Begin the next session. How the last one ended is kept as an event, and its conditions hold no longer.

    The run has begun when it first began, and what it learnt (epochs, metrics, model, metadata) is its own; processes,
    hosts, their states, the pace and the page are those of the session.
    """
    forget_recalled(run)
    out: list[Instruction] = publish_rest(run, now)
    for record in [one for one in run.events if one.active]:
        out += clear_event(run, record.kind, record.path)
    text = _words(run, event, now)
    said = raise_event(run, now, "restart", text, key=f"session {event.session}", step=_last_step(run))
    out += said
    paused = _pause(run, event, now)
    run.paused_seconds += paused
    if event.generation > run.generation:
        note_takeover(run, event.generation, now, said, paused)
    run.session, run.generation, run.settings = event.session, event.generation, event.settings
    run.restarts += 1
    _forget_processes(run)
    _forget_end(run)
    _forget_page(run)
    run.environment["session"] = event.session + 1
    if event.by is not None:
        run.environment["batch_job"] = event.by
    return [*out, PublishRun()]


def _words(run: Run, event: JobStartedAgain, now: Moment) -> str:
    """What began and what came before it."""
    by = f" ({event.by})" if event.by is not None else ""
    if run.ended_wall is None:
        before = "the one before broke off without an end"
    else:
        detail = f": {run.state_detail}" if run.state_detail else ""
        before = f"the one before {_ENDS.get(run.state, run.state)}{detail}"
    return f"session {event.session + 1} of this run begins{by}, {_span(_pause(run, event, now))} later; {before}"


def _pause(run: Run, event: JobStartedAgain, now: Moment) -> float:
    """How long nothing of the job was there, seconds."""
    ended = run.ended_wall if run.ended_wall is not None else event.heard_wall
    return max(0.0, now.wall - ended)


def _span(seconds: float) -> str:
    if seconds < 2 * _MINUTE_S:
        return f"{seconds:.0f} s"
    minutes = round(seconds / _MINUTE_S)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def _last_step(run: Run) -> int | None:
    return max((rank.step for rank in run.ranks.values() if rank.step is not None), default=None)


def _forget_processes(run: Run) -> None:
    run.ranks, run.sessions, run.hosts = {}, {}, {}
    run.world_size = None
    run.history.clear()
    run.module_times.clear()
    run.timed_rank = None
    run.quotas.clear()
    run.latest_events.clear()  # nothing repeats what another session said


def _forget_end(run: Run) -> None:
    run.state, run.state_detail, run.job = "waiting", None, None
    run.ended_wall = run.ended_mono = run.all_over_since = None
    run.stop_reason = run.stopped_mono = None
    run.completed = run.launcher_gone = False
    run.stalled_since = run.stall_reason = None


def _forget_page(run: Run) -> None:
    run.bound_port = run.asked_port = run.url_line = None
    run.asked_page = run.own_wish_counted = False
    run.refused_ports, run.later_wishes = [], []
