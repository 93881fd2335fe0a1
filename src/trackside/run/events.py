"""Events: repeats collapse, conditions clear up, and nothing grows without bound."""

import msgspec

from trackside.run.inputs import Moment
from trackside.run.outputs import Instruction, PrintLine, PublishEvent
from trackside.run.state import Run
from trackside.wire.documents import EventRecord
from trackside.wire.documents import Warning as OpenWarning
from trackside.wire.ids import ROOT_PATH
from trackside.wire.messages import Level

COLLAPSE_SECONDS = 10.0
MAX_LIVE = 200
EVICTED = "events dropped"


def raise_event(
    run: Run,
    now: Moment,
    kind: str,
    text: str,
    *,
    severity: Level = "info",
    path: str = ROOT_PATH,
    count: int = 1,
    step: int | None = None,
    active: bool = False,
    collapse: bool = True,
) -> list[Instruction]:
    """Record one event; a repeat of (kind, path) within 10 s of its last one only raises its count."""
    if collapse and (at := _repeated(run, kind, path, now.wall)) is not None:
        old = run.events[at]
        record = msgspec.structs.replace(
            old, count=old.count + count, last_time=now.wall, text=text, step=step or old.step, active=active
        )
        run.events[at] = record
        return [PublishEvent(record, is_new=False)]
    record = EventRecord(
        id=run.next_event,
        time=now.wall,
        path=path,
        kind=kind,
        severity=severity,
        text=text,
        count=count,
        step=step,
        last_time=now.wall,
        active=active,
    )
    run.next_event += 1
    run.events.append(record)
    out: list[Instruction] = [PublishEvent(record, is_new=True)]
    if severity != "info" or kind in _PRINTED:
        out.append(PrintLine(event_line(record)))
    return out + _evict(run, now)


_PRINTED = ("restart", "rank back", "user")


def event_line(record: EventRecord) -> str:
    """One event for the terminal."""
    where = "" if record.path == ROOT_PATH else f"  [{record.path.removeprefix(ROOT_PATH + '/')}]"
    return f"  {record.severity:<8} {record.kind}: {record.text}{where}"


def clear_event(run: Run, kind: str, path: str) -> list[Instruction]:
    """Say that a condition no longer holds."""
    out: list[Instruction] = []
    for at, record in enumerate(run.events):
        if record.active and record.kind == kind and record.path == path:
            run.events[at] = msgspec.structs.replace(record, active=False)
            out.append(PublishEvent(run.events[at], is_new=False))
    return out


def open_warnings(run: Run) -> list[OpenWarning]:
    """Every condition that still holds, oldest first."""
    return [
        OpenWarning(time=e.time, path=e.path, kind=e.kind, severity=e.severity, text=e.text)
        for e in run.events
        if e.active
    ]


def _repeated(run: Run, kind: str, path: str, wall: float) -> int | None:
    for at in range(len(run.events) - 1, -1, -1):
        record = run.events[at]
        if record.kind == kind and record.path == path:
            return at if 0 <= wall - (record.last_time or record.time) <= COLLAPSE_SECONDS else None
    return None


def _evict(run: Run, now: Moment) -> list[Instruction]:
    """Keep at most 200: the least recently seen goes, and how many went is itself an event."""
    if len(run.events) <= MAX_LIVE:
        return []
    others = [at for at, record in enumerate(run.events) if record.kind != EVICTED]
    idle = [at for at in others if not run.events[at].active] or others
    del run.events[min(idle, key=lambda at: run.events[at].last_time or run.events[at].time)]
    for at, record in enumerate(run.events):
        if record.kind == EVICTED:
            grown = msgspec.structs.replace(record, count=record.count + 1, last_time=now.wall)
            run.events[at] = grown
            return [PublishEvent(grown, is_new=False)]
    text = f"more than {MAX_LIVE} events; the oldest have left the page and are in events.jsonl"
    return raise_event(run, now, EVICTED, text)
