"""Wishes for a live page: the first one binds, a different one is answered once."""

from trackside.run.events import raise_event
from trackside.run.inputs import Moment
from trackside.run.outputs import Instruction, RegisterPort
from trackside.run.state import Run


def wish(run: Run, session: bytes | None, port: int | None, now: Moment) -> list[Instruction]:
    """Take a wish; None as port: whichever is free, None as session: the way the run was started."""
    if not run.asked_page:
        run.asked_page, run.asked_port = True, port
        return [RegisterPort(port)]
    if session is None or port is None or port in (run.bound_port, run.asked_port, *run.refused_ports):
        return []
    run.refused_ports.append(port)
    number = run.sessions[session].rank
    who = "the launcher" if number is None else f"rank {number}"
    bound = run.bound_port if run.bound_port is not None else run.asked_port
    where = f"port {bound}" if bound is not None else "the default port"
    text = f"{who} asked for port {port}; the page is bound to {where} and stays there"
    return raise_event(run, now, "port", text, severity="warn", key=str(port))
