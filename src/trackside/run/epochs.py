"""Epochs over ranks: in order, weighted, amended by late reports."""

import math
from collections.abc import Iterable

import msgspec

from trackside.run.events import raise_event
from trackside.run.inputs import Moment
from trackside.run.outputs import Instruction, PublishEpoch
from trackside.run.resources import cluster_figures
from trackside.run.state import Epoch, Rank, Run
from trackside.run.topology import path_of
from trackside.wire.documents import EpochRecord, Number
from trackside.wire.ids import ROOT_PATH
from trackside.wire.messages import EpochReport, Reduction
from trackside.wire.values import to_json_number

AMENDABLE_EPOCHS = 16
"""How many of the latest epochs keep every rank's report, so that late ones can amend them."""
SKIPPED_SECONDS = 10.0
"""A rank that has reported a later epoch still owes an earlier one for so long; then it is known to have skipped it."""
MAX_EPOCHS = 20_000
"""Epochs in memory; the run folder holds all."""
MOST_FIGURES = 1_000_000
"""Values of all epochs in memory; where they have very many metrics, fewer epochs stay."""
MOST_NAMES = 10_000
"""Metrics of all epochs in memory."""
MOST_NAME_CHARACTERS = 16_384
MOST_OPEN = 1_000
"""Epochs that wait for ranks; beyond, the oldest is published as it is, and amended when they come."""


def report_epoch(run: Run, rank: int, generation: int, report: EpochReport, now: Moment) -> list[Instruction]:
    """Take one rank's epoch; publish what is complete, amend what was.

    A later generation that trains an epoch again begins its reports anew; the former record stands until they are complete.
    """
    report, out = _within_names(run, rank, report, now)
    epoch = run.epochs.setdefault(report.epoch, Epoch(epoch=report.epoch, generation=generation))
    return [*out, *_take_report(run, epoch, rank, generation, report, now)]


def _within_names(run: Run, rank: int, report: EpochReport, now: Moment) -> tuple[EpochReport, list[Instruction]]:
    """A report without the metrics that are too many in this run's epochs, which are counted and said."""
    names = run.epoch_names
    kept: dict[str, float] = {}
    for name, value in report.metrics.items():
        if name in names or (len(names) < MOST_NAMES and len(name) <= MOST_NAME_CHARACTERS):
            names.add(name)
            kept[name] = value
    more = len(report.metrics) - len(kept)
    if not more:
        return report, []
    run.epoch_names_left_out += more
    text = (
        f"{run.epoch_names_left_out:,} values of epochs were left out: their metrics are beyond {MOST_NAMES:,}, "
        "or have too long names; put what changes into the epoch, not the name"
    )
    who = run.ranks.get(rank)
    path = path_of(who) if who is not None else ROOT_PATH
    out = raise_event(run, now, "epoch values left out", text, severity="warn", path=path, count=more, active=True)
    return msgspec.structs.replace(report, metrics=kept), out


def _take_report(
    run: Run, epoch: Epoch, rank: int, generation: int, report: EpochReport, now: Moment
) -> list[Instruction]:
    if generation < epoch.generation:
        return []
    if generation > epoch.generation:
        epoch.generation, epoch.reports, epoch.published, epoch.cut = generation, {}, False, set()
    if epoch.published and not epoch.reports:
        return []
    run.last_epoch = max(run.last_epoch, report.epoch)
    if not epoch.published:
        run.open_epochs.add(report.epoch)
    epoch.reports[rank], epoch.reported_at = report, now.mono
    _note_reported(run, rank, generation, report.epoch)
    if epoch.published:
        return [_publish(run, epoch, now)]
    return publish_complete(run, now)


def _note_reported(run: Run, number: int, generation: int, epoch: int) -> None:
    rank = run.ranks.get(number)
    if rank is not None and rank.generation == generation:
        rank.reported_epoch = epoch if rank.reported_epoch is None else max(rank.reported_epoch, epoch)


def note_broken_off(run: Run, rank: Rank, now: Moment) -> list[Instruction]:
    """A script ended with an exception or was interrupted: the epoch it was in has been reported as it stood then.

    That was the last one it reported, unless that has as many batches as its others, or is the last that was planned.
    """
    epoch = run.epochs.get(rank.reported_epoch) if rank.reported_epoch is not None else None
    report = epoch.reports.get(rank.rank) if epoch is not None and epoch.generation == rank.generation else None
    if epoch is None or report is None or not report.batches:
        return []
    others = [
        one.reports[rank.rank].batches
        for one in run.epochs.values()
        if one is not epoch and one.generation == rank.generation and rank.rank in one.reports
    ]
    is_last = run.plan_epochs is not None and _ordinal(run, epoch.epoch) >= run.plan_epochs
    if report.batches >= max(others) if others else is_last:
        return []
    epoch.cut.add(rank.rank)
    return [_publish(run, epoch, now)] if epoch.published else []


def _ordinal(run: Run, epoch: int) -> int:
    """How many epochs there are up to this one, as far as is known."""
    return epoch + 1 if min(run.epochs) == 0 else epoch


def publish_complete(run: Run, now: Moment) -> list[Instruction]:
    """Publish every epoch that no live rank still owes, in ascending order."""
    waiting = sorted(run.open_epochs)
    out: list[Instruction] = []
    for at, number in enumerate(waiting):
        epoch = run.epochs[number]
        if not _is_complete(run, epoch, now) and len(waiting) - at <= MOST_OPEN:
            break
        out.append(_publish(run, epoch, now))
    return [*out, *_let_go(run, now)] if out else []


def _let_go(run: Run, now: Moment) -> list[Instruction]:
    """Forget the reports of epochs far behind: their records stand, and nobody amends them any more."""
    for number in sorted(run.held_epochs)[:-AMENDABLE_EPOCHS]:
        run.held_epochs.discard(number)
        if number in run.epochs and run.epochs[number].published:
            run.epochs[number].reports = {}
    if len(run.epochs) <= MAX_EPOCHS and len(run.epochs) * len(run.epoch_names) <= MOST_FIGURES:
        return []
    figures = sum(len(epoch.record.metrics) for epoch in run.epochs.values() if epoch.record is not None)
    if len(run.epochs) <= MAX_EPOCHS and figures <= MOST_FIGURES:
        return []
    gone = 0
    for number in sorted(run.epochs)[:-AMENDABLE_EPOCHS]:
        record = run.epochs[number].record
        is_within = len(run.epochs) <= MAX_EPOCHS and figures <= MOST_FIGURES
        if not is_within and record is not None and run.epochs[number].published:
            figures -= len(record.metrics)
            gone += 1
            del run.epochs[number]
    if not gone:
        return []
    text = "the oldest epochs have left the page, for there are very many; the run folder holds all"
    return raise_event(run, now, "epochs left the page", text, key="epochs", count=gone)


def publish_rest(run: Run, now: Moment) -> list[Instruction]:
    """Publish what is left when the run ends."""
    return [_publish(run, run.epochs[number], now) for number in sorted(run.open_epochs)]


def _owing(run: Run, epoch: Epoch, now: Moment) -> set[int]:
    """Live ranks that have not reported an epoch.

    A rank that counts no epochs at all (only rank 0 does in some scripts) owes none once another is further on, and one
    that is further on itself (it reports every fifth, say) owes none after a while.
    """
    missing = [
        rank
        for rank in run.ranks.values()
        if rank.monitored and rank.state in ("alive", "late") and rank.rank not in epoch.reports
    ]
    if not missing:
        return set()
    is_past = run.last_epoch > epoch.epoch
    is_old = now.mono - epoch.reported_at >= SKIPPED_SECONDS
    return {
        rank.rank
        for rank in missing
        if not (is_past and _counts_none(rank)) and not (is_old and _is_beyond(rank, epoch.epoch))
    }


def _counts_none(rank: Rank) -> bool:
    """Whether the rank is at work, by its own word, and in no epoch."""
    return rank.epoch is None and (rank.step is not None or len(rank.progress) > 1)


def _is_beyond(rank: Rank, epoch: int) -> bool:
    return rank.reported_epoch is not None and rank.reported_epoch > epoch


def _is_complete(run: Run, epoch: Epoch, now: Moment) -> bool:
    return bool(epoch.reports) and not _owing(run, epoch, now)


def _publish(run: Run, epoch: Epoch, now: Moment) -> Instruction:
    epoch.published = True
    run.open_epochs.discard(epoch.epoch)
    run.held_epochs.add(epoch.epoch)
    kept = epoch.record
    figures = {name: getattr(kept, name) for name in _FIGURES} if kept else cluster_figures(run)
    epoch.record = aggregate(run, epoch, figures, now)
    return PublishEpoch(epoch.record)


_FIGURES = ("cpu", "memory_used", "memory_total", "gpu", "vram_used", "vram_total")


def aggregate(run: Run, epoch: Epoch, figures: dict[str, float | int | None], now: Moment) -> EpochRecord:
    """One record over all ranks that reported the epoch."""
    reports = [epoch.reports[rank] for rank in sorted(epoch.reports)]
    samples = _total(report.samples for report in reports)
    seconds = max((r.seconds for r in reports if r.seconds is not None), default=None)
    record = EpochRecord(
        epoch=epoch.epoch,
        seconds=seconds,
        metrics=_metrics(run, reports),
        samples=samples,
        batches=_total(report.batches for report in reports),
        throughput=samples / seconds if samples and seconds else None,
        ranks=len(reports),
        complete=not _owing(run, epoch, now) and not epoch.cut,
        generation=epoch.generation,
        ended_at=max((r.ended_at for r in reports if r.ended_at is not None), default=None),
    )
    return msgspec.structs.replace(record, **figures)


def _metrics(run: Run, reports: list[EpochReport]) -> dict[str, Number]:
    reductions = {metric.name: metric.reduction for metric in run.metrics.values()}
    holders: dict[str, list[EpochReport]] = {}
    for report in reports:
        for name in report.metrics:
            holders.setdefault(name, []).append(report)
    whole = _weights(reports)
    out: dict[str, Number] = {}
    for name in sorted(holders, key=metric_order):
        having = holders[name]
        weights = whole if len(having) == len(reports) else _weights(having)
        values = [report.metrics[name] for report in having]
        reduced = reduce_values(list(zip(values, weights, strict=True)), reductions.get(name, "mean"))
        out[name] = to_json_number(reduced)
    return out


def _weights(reports: list[EpochReport]) -> list[float]:
    """Samples where every one of these ranks counted them, else batches, else all alike."""
    samples = [report.samples for report in reports]
    if all(count is not None and count > 0 for count in samples):
        return [float(count or 0) for count in samples]
    if all(report.batches > 0 for report in reports):
        return [float(report.batches) for report in reports]
    return [1.0] * len(reports)


def reduce_values(values: list[tuple[float, float]], reduction: Reduction) -> float:
    """Reduce (value, weight) pairs; `mean` is weighted, the others ignore the weight.

    One value is itself, to the last bit. A NaN among them is the result, whatever the order.
    """
    plain = [value for value, _ in values]
    if len(plain) == 1 or reduction == "last":
        return plain[-1]
    if reduction == "sum":
        return sum(plain)
    if any(math.isnan(value) for value in plain):
        return math.nan
    low, high = min(plain), max(plain)
    if reduction == "min":
        return low
    if reduction == "max":
        return high
    whole = sum(weight for _, weight in values)
    mean = sum(value * (weight / whole) for value, weight in values)
    return mean if math.isnan(mean) else min(max(mean, low), high)


def metric_order(name: str) -> tuple[bool, str]:
    """`loss` first, then by name."""
    return name != "loss", name


def _total(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
