"""Wishes for a live page: the first one binds, a failed one makes room for the next, a different one is answered once."""

from trackside.run.events import clear_event, raise_event
from trackside.run.inputs import Moment, PageBindFailed, PageBound
from trackside.run.outputs import Instruction, PublishRun, RegisterPort
from trackside.run.state import LaterWish, Run


def wish(run: Run, session: bytes | None, port: int | None, now: Moment) -> list[Instruction]:
    """Take a wish; None as port: the default one or the next that is free, None as session: the way the run was started.

    While it is not known what came of an earlier wish, a different port waits for that.
    """
    if run.settings.no_page:
        return []
    if not run.asked_page:
        return _ask(run, port)
    if session is None or not port or port == run.asked_port:
        return []
    number = run.sessions[session].rank
    later = LaterWish(who="the launcher" if number is None else f"rank {number}", port=port)
    if run.bound_port is not None:
        return _decline(run, later, now)
    if all(known.port != port for known in run.later_wishes):
        run.later_wishes.append(later)
    return []


def bound(run: Run, event: PageBound, now: Moment) -> list[Instruction]:
    """The page listens; who wished another port is told so."""
    run.bound_port, run.url_line = event.port, event.url_line
    later, run.later_wishes = run.later_wishes, []
    declined = [said for known in later for said in _decline(run, known, now)]
    return [*clear_event(run, "page not bound", "root"), *declined, PublishRun()]


def bind_failed(run: Run, event: PageBindFailed, now: Moment) -> list[Instruction]:
    """The page could not listen; the next wish tries again, and it may be here already."""
    run.asked_page, run.asked_port = False, None
    text = f"no page on port {event.port}: {event.reason}"
    out = raise_event(run, now, "page not bound", text, severity="warn", active=True)
    return out + _ask(run, run.later_wishes.pop(0).port) if run.later_wishes else out


def _ask(run: Run, port: int | None) -> list[Instruction]:
    run.asked_page, run.asked_port = True, port
    return [RegisterPort(port)]


def _decline(run: Run, later: LaterWish, now: Moment) -> list[Instruction]:
    if later.port in (run.bound_port, *run.refused_ports):
        return []
    run.refused_ports.append(later.port)
    text = f"{later.who} asked for port {later.port}; the page is bound to port {run.bound_port} and stays there"
    return raise_event(run, now, "port", text, severity="warn", key=str(later.port))
