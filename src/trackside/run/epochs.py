"""Epochs over ranks: in order, weighted, amended by late reports."""

from collections.abc import Iterable

import msgspec

from trackside.run.inputs import Moment
from trackside.run.outputs import Instruction, PublishEpoch
from trackside.run.resources import cluster_figures
from trackside.run.state import Epoch, Run
from trackside.wire.documents import EpochRecord, Number
from trackside.wire.messages import EpochReport, Reduction
from trackside.wire.values import to_json_number


def report_epoch(run: Run, rank: int, report: EpochReport, now: Moment) -> list[Instruction]:
    """Take one rank's epoch; publish what is complete, amend what was."""
    epoch = run.epochs.setdefault(report.epoch, Epoch(epoch=report.epoch))
    epoch.reports[rank] = report
    if epoch.published:
        return [_publish(run, epoch)]
    return publish_complete(run)


def publish_complete(run: Run) -> list[Instruction]:
    """Publish every epoch that no live rank still owes, in ascending order."""
    out: list[Instruction] = []
    for number in sorted(run.epochs):
        epoch = run.epochs[number]
        if epoch.published:
            continue
        if not _is_complete(run, epoch):
            break
        out.append(_publish(run, epoch))
    return out


def publish_rest(run: Run) -> list[Instruction]:
    """Publish what is left when the run ends."""
    return [_publish(run, run.epochs[number]) for number in sorted(run.epochs) if not run.epochs[number].published]


def _owing(run: Run) -> set[int]:
    """Ranks whose epochs are waited for: alive, with a Monitor."""
    return {rank.rank for rank in run.ranks.values() if rank.monitored and rank.state in ("alive", "late")}


def _is_complete(run: Run, epoch: Epoch) -> bool:
    return bool(epoch.reports) and _owing(run) <= set(epoch.reports)


def _publish(run: Run, epoch: Epoch) -> Instruction:
    epoch.published = True
    kept = epoch.record
    figures = {name: getattr(kept, name) for name in _FIGURES} if kept else cluster_figures(run)
    epoch.record = aggregate(run, epoch, figures)
    return PublishEpoch(epoch.record)


_FIGURES = ("cpu", "memory_used", "memory_total", "gpu", "vram_used", "vram_total")


def aggregate(run: Run, epoch: Epoch, figures: dict[str, float | int | None]) -> EpochRecord:
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
        complete=_owing(run) <= set(epoch.reports),
        ended_at=max((r.ended_at for r in reports if r.ended_at is not None), default=None),
    )
    return msgspec.structs.replace(record, **figures)


def _metrics(run: Run, reports: list[EpochReport]) -> dict[str, Number]:
    reductions = {metric.name: metric.reduction for metric in run.metrics.values()}
    names = {name for report in reports for name in report.metrics}
    return {
        name: to_json_number(
            reduce_values(
                [(report.metrics[name], _weight(report)) for report in reports if name in report.metrics],
                reductions.get(name, "mean"),
            )
        )
        for name in sorted(names, key=metric_order)
    }


def _weight(report: EpochReport) -> float:
    return float(report.samples or report.batches or 1)


def reduce_values(values: list[tuple[float, float]], reduction: Reduction) -> float:
    """Reduce (value, weight) pairs; `mean` is weighted, the others ignore the weight."""
    plain = [value for value, _ in values]
    if reduction == "sum":
        return sum(plain)
    if reduction == "min":
        return min(plain)
    if reduction == "max":
        return max(plain)
    if reduction == "last":
        return plain[-1]
    return sum(value * weight for value, weight in values) / sum(weight for _, weight in values)


def metric_order(name: str) -> tuple[bool, str]:
    """`loss` first, then by name."""
    return name != "loss", name


def _total(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
