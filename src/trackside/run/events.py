"""Events: repeats collapse, conditions clear up, and nothing grows without bound."""

from bisect import bisect_left
from collections.abc import Iterable

import msgspec

from trackside.run.inputs import Moment
from trackside.run.outputs import Instruction, PrintLine, PublishEvent
from trackside.run.state import EventMark, Run
from trackside.wire.documents import EventRecord
from trackside.wire.documents import Warning as OpenWarning
from trackside.wire.ids import ROOT_PATH
from trackside.wire.messages import Level

COLLAPSE_SECONDS = 10.0
MAX_LIVE = 200
MAX_TEXT = 2000
"""Characters of an event's text; a rank may send any amount."""
EVICTED = "events dropped"
RECALL_SLACK_SECONDS = 2.0
"""How far from the moment of its telling an event's frames may be replayed: they were told in another batch."""

_PRINTED = ("restart", "rank back", "user", EVICTED)
"""Classes that are printed although they are only information."""
_RANKING: dict[Level, int] = {"info": 0, "warn": 1, "critical": 2}


def raise_event(
    run: Run,
    now: Moment,
    kind: str,
    text: str,
    *,
    severity: Level = "info",
    path: str = ROOT_PATH,
    key: str = "",
    count: int = 1,
    step: int | None = None,
    active: bool = False,
    keeps_first: bool = False,
) -> list[Instruction]:
    """Record one event.

    It repeats the latest one of the same class, path and key when that is at most 10 s old or its condition still holds;
    then only the count grows, and the text and step are the new ones unless it `keeps_first`.

    `kind` is the class; `key` tells apart events of one class and path, such as the metric of a non-finite value; `count` is
    how many occurrences this call stands for; `active` says that a condition begins to hold, until `clear_event`.
    """
    text = text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + " …"
    name = "\0".join((kind, path, key))
    told = _recalled(run, (kind, path), name, text, now) if run.recalled else None
    if told is not None:
        return _keep_told(run, told, name, active=active)
    at = _repeated(run, name, now.mono)
    if at is not None:
        old = run.events[at]
        run.event_marks[old.id].seen = now.mono
        record = run.events[at] = msgspec.structs.replace(
            old,
            count=old.count + count,
            last_time=now.wall,
            text=old.text if keeps_first else text,
            step=old.step if keeps_first or step is None else step,
            severity=max(old.severity, severity, key=_RANKING.__getitem__),
            active=active,
        )
        return [PublishEvent(record, is_new=False)]
    record = EventRecord(
        id=run.next_event,
        time=now.wall,
        path=path,
        kind=kind,
        severity=severity,
        text=text,
        count=max(1, count),
        step=step,
        last_time=now.wall,
        active=active,
    )
    return _add(run, record, EventMark(name=name, seen=now.mono), now)


def _add(run: Run, record: EventRecord, mark: EventMark, now: Moment) -> list[Instruction]:
    run.next_event = record.id + 1
    run.events.append(record)
    run.event_marks[record.id] = mark
    run.latest_events[mark.name] = record.id
    out: list[Instruction] = [PublishEvent(record, is_new=True)]
    if record.severity != "info" or record.kind in _PRINTED:
        out.append(PrintLine(event_line(record)))
    return out + _evict(run, now)


def event_line(record: EventRecord) -> str:
    """One event for the terminal; what cannot be printed is replaced."""
    where = "" if record.path == ROOT_PATH else f"  [{record.path.removeprefix(ROOT_PATH + '/')}]"
    what = record.text if record.kind == "user" else f"{record.kind}: {record.text}"
    line = f"  {record.severity:<8} {what}{where}"
    return "".join(letter if letter.isprintable() else "·" for letter in line)


def amend_event(run: Run, kind: str, path: str, text: str) -> list[Instruction]:
    """Say more exactly what a condition is that holds already; it is no repeat."""
    out: list[Instruction] = []
    for at, record in enumerate(run.events):
        if record.active and record.kind == kind and record.path == path and record.text != text:
            run.events[at] = msgspec.structs.replace(record, text=text[:MAX_TEXT])
            out.append(PublishEvent(run.events[at], is_new=False))
    return out


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


def is_repeat(run: Run, now: Moment, kind: str, path: str, key: str) -> bool:
    """Whether an event would only add to one that is there."""
    return _repeated(run, "\0".join((kind, path, key)), now.mono) is not None


def recall_events(run: Run, records: Iterable[EventRecord], now: Moment) -> list[Instruction]:
    """Take up what had been told after the checkpoint, before its controller died.

    The journal's frames tell most of it again: until `forget_recalled` that adds nothing. A condition holds again when it is
    told again; who tells the others (a launcher that has gone, a disk that hangs) does so anew.
    """
    out: list[Instruction] = []
    for record in sorted(records, key=lambda record: record.id):
        at = bisect_left(run.events, record.id, key=lambda known: known.id)
        told = record.last_time if record.last_time is not None else record.time
        if at < len(run.events) and run.events[at].id == record.id:
            if record.count <= run.events[at].count:
                continue
            run.events[at] = msgspec.structs.replace(record, active=run.events[at].active)
        elif record.id >= run.next_event:
            seen = now.mono - max(0.0, now.wall - told)
            mark = EventMark(name="\0".join((record.kind, record.path, "")), seen=seen)
            out += _add(run, msgspec.structs.replace(record, active=False), mark, now)
        else:  # it had left the page
            continue
        run.recalled[record.id] = told
    return out


def forget_recalled(run: Run) -> None:
    """From now on what is told is new."""
    run.recalled.clear()


def _recalled(run: Run, about: tuple[str, str], name: str, text: str, now: Moment) -> int | None:
    """Place of the recalled event that this one is, told once more; with several, the likeliest."""
    found = [
        at
        for at, record in enumerate(run.events)
        if (record.kind, record.path) == about
        and record.id in run.recalled
        and record.time - RECALL_SLACK_SECONDS <= now.wall <= run.recalled[record.id] + RECALL_SLACK_SECONDS
    ]
    named = [at for at in found if run.event_marks[run.events[at].id].name == name]
    alike = [at for at in found if run.events[at].text == text]
    return next(iter([*named, *alike, *found]), None)


def _keep_told(run: Run, at: int, name: str, *, active: bool) -> list[Instruction]:
    record = run.events[at]
    run.event_marks[record.id].name = name
    run.latest_events[name] = max(record.id, run.latest_events.get(name, 0))
    if record.active == active:
        return []
    run.events[at] = msgspec.structs.replace(record, active=active)
    return [PublishEvent(run.events[at], is_new=False)]


def _repeated(run: Run, name: str, mono: float) -> int | None:
    """Place of the event that one of this name repeats."""
    number = run.latest_events.get(name)
    if number is None:
        return None
    at = bisect_left(run.events, number, key=lambda record: record.id)
    is_recent = mono - run.event_marks[number].seen <= COLLAPSE_SECONDS
    return at if run.events[at].active or is_recent else None


def _evict(run: Run, now: Moment) -> list[Instruction]:
    """Keep at most 200: the least recently seen goes, and how many went is itself an event."""
    if len(run.events) <= MAX_LIVE:
        return []
    others = [at for at, record in enumerate(run.events) if record.kind != EVICTED]
    idle = [at for at in others if not run.events[at].active] or others
    oldest = min(idle, key=lambda at: run.event_marks[run.events[at].id].seen)
    gone = run.events.pop(oldest).id
    mark = run.event_marks.pop(gone)
    if run.latest_events[mark.name] == gone:
        del run.latest_events[mark.name]
    for at, record in enumerate(run.events):
        if record.kind == EVICTED:
            grown = msgspec.structs.replace(record, count=record.count + 1, last_time=now.wall)
            run.events[at] = grown
            run.event_marks[grown.id].seen = now.mono
            return [PublishEvent(grown, is_new=False)]
    text = f"more than {MAX_LIVE} events; the oldest have left the page and are in events.jsonl"
    return raise_event(run, now, EVICTED, text)
