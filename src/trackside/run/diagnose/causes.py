"""Findings as verdicts: the figures and the sentence that goes with them."""

from trackside.run.diagnose import words
from trackside.run.diagnose.balance import Balance
from trackside.run.diagnose.blame import Behind, Judgement
from trackside.run.diagnose.bound import Costs
from trackside.run.diagnose.crowding import CoreWaits
from trackside.run.diagnose.memory import Leak
from trackside.run.diagnose.spikes import Pattern
from trackside.run.diagnose.window import Aligned
from trackside.run.state import Rank
from trackside.run.topology import path_of
from trackside.wire.documents import Verdict
from trackside.wire.ids import ROOT_PATH, host_path

NO_ID = 0
"""The book gives the real one."""


def of_behind(
    behind: Behind, judgement: Judgement, rank: Rank, blamed: list[int], module: str | None, known: int | None = None
) -> Verdict:
    """A rank that is behind in its own time. `known`: the step from which on that has been said."""
    view = judgement.view
    since = behind.since_step if known is None else known
    gain = judgement.gain(blamed, behind.rank)
    is_starved = behind.phase == "data"
    where = f", mostly in `{module}`" if module and not is_starved else ""
    figures = f"{words.duration(behind.phase_seconds)} a step, its peers {words.duration(behind.peer_seconds)}"
    what = "waits for data" if is_starved else f"is behind in {words.phase_words(behind.phase)}{where}"
    slower = words.slower(behind.own, behind.peer_own)
    won = words.percent(gain, judgement.recent_step_seconds)
    gained = f"; without it a step would be {won} shorter" if won else ""
    return Verdict(
        id=NO_ID,
        kind="data starvation" if is_starved else "straggler",
        text=f"{named(rank)} {what}{' ' if is_starved else ': '}{figures}; {slower} since step {since:,}{gained}",
        claim=f"{named(rank)} {what}; {slower}",
        path=path_of(rank),
        rank=behind.rank,
        phase=behind.phase,
        module=None if is_starved else module,
        since_step=since,
        since_time=view.time_of(behind.since_at),
        own_seconds=behind.phase_seconds,
        peer_seconds=behind.peer_seconds,
        gain_seconds=gain,
        steps=behind.blocks * view.window.stride,
    )


def of_starved_job(costs: Costs, judgement_steps: int, since: int, since_time: float | None) -> Verdict:
    """All ranks wait for data."""
    data = costs.phases.get("data", 0.0)
    ratio = costs.input_ratio or 0.0
    text = (
        f"every rank waits for data {words.duration(data)} of a step of {words.duration(costs.step_seconds)} "
        f"({ratio:.0%}); more loader workers, or faster storage, would help all of them"
    )
    return Verdict(
        id=NO_ID,
        kind="data starvation",
        text=text,
        path=ROOT_PATH,
        phase="data",
        since_step=since,
        since_time=since_time,
        own_seconds=data,
        gain_seconds=data,
        steps=judgement_steps,
    )


def of_balance(balance: Balance, at: int, rank: Rank, step: int, time: float | None, stride: int) -> Verdict:
    """A rank whose share of the batch does not fit its speed."""
    gain = words.duration(balance.gain_seconds)
    text = (
        f"{named(rank)} has {balance.share[at]:.1%} of the samples and needs {words.duration(float(balance.own[at]))} a "
        f"step; with {balance.suggested[at]:.1%} all ranks would need the same time, and a step {gain} less"
    )
    others = [float(own) for place, own in enumerate(balance.own) if place != at]
    return Verdict(
        id=NO_ID,
        kind="imbalance",
        text=text,
        claim=f"{named(rank)} has {balance.share[at]:.1%} of the samples; with {balance.suggested[at]:.1%} all ranks would "
        f"need the same time",
        path=path_of(rank),
        rank=rank.rank,
        since_step=step,
        since_time=time,
        own_seconds=float(balance.own[at]),
        peer_seconds=sorted(others)[len(others) // 2],
        gain_seconds=balance.gain_seconds,
        steps=balance.blocks * stride,
    )


def of_crowded_host(host: str, waits: CoreWaits, view: Aligned) -> Verdict:
    """Ranks that could go on and have to wait for a core."""
    if waits.rank is not None:
        who = f"another process takes the core of rank {waits.rank} on {host}: it waits"
        advice = "a look at what runs there, and at which cores the rank may use, would help"
    else:
        their = "its rank waits" if waits.ranks == 1 else "its ranks wait"
        who = f"host {host} has no core free: {their}"
        advice = "fewer processes there, or more cores, would help"
    return Verdict(
        id=NO_ID,
        kind="crowded host",
        text=f"{who} up to {words.duration(waits.seconds)} of a step for one ({waits.ratio:.0%}); {advice}",
        path=host_path(host),
        since_step=view.first_step(0),
        since_time=view.time_of(0),
        own_seconds=waits.seconds,
        steps=len(view.ids) * view.window.stride,
    )


def of_pattern(pattern: Pattern, rank: Rank | None) -> Verdict:
    """Slow steps at regular distances."""
    who = f" on {named(rank)}, for which the others wait," if rank is not None else ""
    what = "" if pattern.phase is None else f" in {words.phase_words(pattern.phase)}"
    cost = words.percent(pattern.seconds / pattern.every, pattern.base)
    text = (
        f"every {pattern.every:,} steps one takes {words.duration(pattern.seconds)} longer{who}{what}, as a checkpoint or an "
        f"evaluation does" + (f"; {cost} of the time goes into it" if cost else "")
    )
    return Verdict(
        id=NO_ID,
        kind="slow step",
        text=text,
        claim=f"every {pattern.every:,} steps one takes longer{who}{what}, as a checkpoint or an evaluation does",
        path=ROOT_PATH,
        rank=None if rank is None else rank.rank,
        phase=pattern.phase,
        since_step=pattern.first_step,
        pattern="recurring",
        own_seconds=pattern.seconds + pattern.base,
        peer_seconds=pattern.base,
        gain_seconds=pattern.seconds / pattern.every,
        steps=pattern.last_step - pattern.first_step + 1,
    )


def of_leak(leak: Leak, rank: Rank, wall: float) -> Verdict:
    """A rank whose memory grows steadily."""
    growth = leak.growth
    left = "" if leak.seconds_left is None else f"; at this rate it is full in {words.long_duration(leak.seconds_left)}"
    where = "its process" if growth.where == "host" else "torch's memory on its device"
    return Verdict(
        id=NO_ID,
        kind="memory growth",
        text=(
            f"{named(rank)}: {where} grew from {words.size(growth.first_bytes)} to {words.size(growth.last_bytes)} "
            f"without a pause, {words.size(growth.rate * 60)} a minute{left}"
        ),
        path=path_of(rank),
        rank=rank.rank,
        since_step=growth.since_step,
        since_time=wall,
        steps=max(0, (rank.step or 0) - (growth.since_step or 0)),
    )


def named(rank: Rank) -> str:
    """A rank for people: `rank 5 on gpu-02`."""
    return f"rank {rank.rank}" + (f" on {rank.host}" if rank.host else "")
