"""Events that ranks make themselves: so many and no more, or one rank would push out everybody's and fill the terminal."""

from trackside.run.events import clear_event, is_repeat, raise_event
from trackside.run.inputs import Moment
from trackside.run.outputs import Instruction, PublishEvent
from trackside.run.state import Quota, Run
from trackside.wire.messages import Level

MOST_EVENTS = 100
PERIOD_S = 10.0
SAY_S = 1.0
QUIET_S = 60.0
LEFT_OUT = "events left out"


def raise_by_rank(
    run: Run, now: Moment, kind: str, text: str, *, severity: Level, path: str, key: str = "", count: int = 1
) -> list[Instruction]:
    """Record an event of a rank's own; beyond 100 in ten seconds new ones are counted and repeats are said on ticks."""
    quota = run.quotas.setdefault(path, Quota(since=now.mono))
    if now.mono - quota.since >= PERIOD_S:
        quota.since, quota.taken = now.mono, 0
    quota.taken += 1
    is_beyond = quota.taken > MOST_EVENTS
    if is_beyond and not is_repeat(run, now, kind, path, key):
        quota.left_out += count
        quota.grew_at = now.mono
        return []
    out = raise_event(run, now, kind, text, severity=severity, path=path, key=key, count=count)
    if not is_beyond:
        return out
    run.unsaid.update(said.record.id for said in out if isinstance(said, PublishEvent))
    return []


def say_rest(run: Run, now: Moment) -> list[Instruction]:
    """What grew without being said, and how many events were left out."""
    out: list[Instruction] = [PublishEvent(record, is_new=False) for record in run.events if record.id in run.unsaid]
    run.unsaid.clear()
    for path, quota in run.quotas.items():
        if quota.left_out > quota.told and now.mono - quota.told_at >= SAY_S:
            text = f"{quota.left_out:,} events were only counted: there were more than {MOST_EVENTS} within {PERIOD_S:.0f} s"
            more = quota.left_out - quota.told
            quota.told, quota.told_at = quota.left_out, now.mono
            out += raise_event(run, now, LEFT_OUT, text, severity="warn", path=path, count=more, active=True)
        elif quota.grew_at is not None and now.mono - quota.grew_at > QUIET_S:
            quota.grew_at = None
            out += clear_event(run, LEFT_OUT, path)
    return out
