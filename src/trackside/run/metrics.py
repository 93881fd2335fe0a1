"""Metrics and their latest values, per rank, as one table."""

from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from trackside.run.cohort import CohortWindow, GroupedSteps, group, select_rows
from trackside.run.epochs import metric_order, reduce_values
from trackside.run.events import raise_event
from trackside.run.inputs import MetricAppeared, Moment
from trackside.run.outputs import DefineMetric, Instruction, PublishRun
from trackside.run.state import Metric, Run
from trackside.run.takeover import note_first_step, span_of
from trackside.run.topology import path_of
from trackside.wire.columns import NO_EPOCH, PointBatch
from trackside.wire.documents import MetricEntry
from trackside.wire.ids import MAX_RANKS
from trackside.wire.messages import Level
from trackside.wire.values import to_json_number

MAX_PATHS = 64
MAX_SHOWN_NAME = 80
MAX_NAMED = 100
MAX_NAMED_RANKS = 4
"""Ranks that have an event of their own for a metric that is not finite."""
"""Non-finite metrics of one batch that are said by name."""

Array = npt.NDArray[Any]


class LatestCells(msgspec.Struct):
    """Latest values as columns, for a checkpoint."""

    metric: bytes = b""
    rank: bytes = b""
    value: bytes = b""


class LatestValues:
    """Last value of every metric on every rank; a cell that was never written is unknown, not 0."""

    def __init__(self) -> None:
        self.value: npt.NDArray[np.float64] = np.zeros((8, 8))
        self.known: npt.NDArray[np.bool_] = np.zeros((8, 8), bool)

    def snapshot(self) -> LatestCells:
        """The cells that are known."""
        metric, rank = np.nonzero(self.known)
        return LatestCells(
            metric=metric.astype("<i4").tobytes(),
            rank=rank.astype("<i4").tobytes(),
            value=self.value[metric, rank].astype("<f8").tobytes(),
        )

    def restore(self, cells: LatestCells) -> None:
        """Take over what `snapshot` returned."""
        metric, rank = np.frombuffer(cells.metric, "<i4"), np.frombuffer(cells.rank, "<i4")
        if len(metric):
            self._write(metric, rank, np.frombuffer(cells.value, "<f8"))

    def of(self, metric: int, ranks: list[int]) -> list[float]:
        """Latest values of a metric on ranks that have one."""
        found: list[float] = self.value[metric, ranks].tolist()
        return found

    def put(self, batch: PointBatch) -> None:
        """Take a batch; the later row of a cell wins."""
        self._write(batch.metric, batch.rank, batch.value)

    def _write(self, metric: Array, rank: Array, value: Array) -> None:
        self._grow(int(metric.max()) + 1, int(rank.max()) + 1)
        self.value[metric, rank] = value
        self.known[metric, rank] = True

    def ranks_with(self, metric: int) -> list[int]:
        """Ranks that have a value, ascending."""
        return np.flatnonzero(self.known[metric]).tolist() if metric < len(self.known) else []

    def _grow(self, metrics: int, ranks: int) -> None:
        rows, columns = self.value.shape
        if metrics <= rows and ranks <= columns:
            return
        shape = (
            rows if metrics <= rows else metrics + metrics // 2,
            columns if ranks <= columns else ranks + ranks // 4,
        )
        for name in ("value", "known"):
            old = getattr(self, name)
            new: npt.NDArray[Any] = np.zeros(shape, old.dtype)
            new[:rows, :columns] = old
            setattr(self, name, new)


def define_metric(run: Run, appeared: MetricAppeared) -> list[Instruction]:
    """A name is new, or declared otherwise than before."""
    known = run.metrics.get(appeared.id)
    if known is not None:
        known.unit, known.reduction = appeared.unit, appeared.reduction
        return [DefineMetric(appeared.id, appeared.name, appeared.reduction), PublishRun()]
    run.metrics[appeared.id] = Metric(
        id=appeared.id, name=appeared.name, unit=appeared.unit, reduction=appeared.reduction
    )
    return [DefineMetric(appeared.id, appeared.name, appeared.reduction)]


def take_points(
    run: Run, batch: PointBatch, root: CohortWindow, latest: LatestValues, now: Moment
) -> list[Instruction]:
    """Take values of any ranks a job can have."""
    for grouped in group(batch):
        root.add_grouped(grouped)
        _count(run, grouped)
    latest.put(batch)
    _advance_ranks(run, batch)
    return [*_note_first_step(run, batch), *_note_non_finite(run, batch, now)]


def _note_first_step(run: Run, batch: PointBatch) -> list[Instruction]:
    """Where the present generation goes on, once it tells."""
    if not run.takeovers:
        return []
    mine = batch.generation == run.takeovers[-1].generation
    if not mine.any():
        return []
    steps = np.where(mine, batch.step, np.iinfo(np.int64).max)
    at = int(steps.argmin())
    epoch = int(batch.epoch[at])
    return note_first_step(run, run.takeovers[-1].generation, int(steps[at]), None if epoch == NO_EPOCH else epoch)


def of_possible_ranks(batch: PointBatch) -> PointBatch:
    """Without values of ranks that no job can have: a session that was refused may still send."""
    keep = (batch.rank >= 0) & (batch.rank < MAX_RANKS)
    return batch if keep.all() else select_rows(batch, keep)


def _count(run: Run, grouped: GroupedSteps) -> None:
    starts = np.flatnonzero(np.r_[True, grouped.metric[1:] != grouped.metric[:-1]])
    ends = np.r_[starts[1:], len(grouped.metric)] - 1
    step, finite, bad = (grouped.rows[name] for name in ("step", "finite", "bad"))
    columns = (grouped.metric[starts], step[starts], step[ends], *(np.add.reduceat(c, starts) for c in (finite, bad)))
    for number, first, last, good, bad_count in zip(*(column.tolist() for column in columns), strict=True):
        metric = run.metrics.get(number)
        if metric is None:
            continue
        metric.points += good + bad_count
        metric.non_finite += bad_count
        metric.first_step = first if metric.first_step is None else min(metric.first_step, first)
        if metric.last_step is None or grouped.generation > metric.generation:
            metric.last_step, metric.generation = last, grouped.generation
        elif grouped.generation == metric.generation:
            metric.last_step = max(metric.last_step, last)


def _advance_ranks(run: Run, batch: PointBatch) -> None:
    """The last row of each rank says where it is."""
    ends = np.r_[np.flatnonzero(batch.rank[1:] != batch.rank[:-1]), len(batch.rank) - 1]
    columns = (batch.rank[ends], batch.generation[ends], batch.step[ends], batch.epoch[ends])
    for number, generation, step, epoch in zip(*(column.tolist() for column in columns), strict=True):
        rank = run.ranks.get(number)
        if rank is None or rank.generation != generation:
            continue
        rank.step = step
        if epoch != NO_EPOCH:
            rank.epoch = epoch


def _note_non_finite(run: Run, batch: PointBatch, now: Moment) -> list[Instruction]:
    bad = np.flatnonzero(~np.isfinite(batch.value))
    if not len(bad):
        return []
    numbers, counts = np.unique(batch.rank[bad], return_counts=True)
    for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
        if number in run.ranks:
            run.ranks[number].non_finite += count
    metrics = np.unique(batch.metric[bad])
    out: list[Instruction] = []
    for metric in metrics[:MAX_NAMED].tolist():
        out += _say_non_finite(run, batch, metric, bad[batch.metric[bad] == metric], now)
    if len(metrics) > MAX_NAMED:
        text = f"{len(metrics) - MAX_NAMED:,} more metrics are not finite"
        rest = int(np.isin(batch.metric[bad], metrics[MAX_NAMED:]).sum())
        out += raise_event(run, now, "non-finite", text, severity="warn", key="others", count=rest)
    return out


def _say_non_finite(
    run: Run, batch: PointBatch, number: int, rows: npt.NDArray[np.int64], now: Moment
) -> list[Instruction]:
    """One event for each of the first few ranks, and one for all others: a job of a thousand must not drown the rest."""
    metric = run.metrics.get(number)
    if metric is None:
        return []
    name = metric.name if len(metric.name) <= MAX_SHOWN_NAME else metric.name[:MAX_SHOWN_NAME] + "…"
    severity: Level = "critical" if "loss" in metric.name.lower() else "warn"
    out: list[Instruction] = []
    others = 0
    ranks, first, counts = np.unique(batch.rank[rows], return_index=True, return_counts=True)
    for rank, at, count in zip(ranks.tolist(), rows[first].tolist(), counts.tolist(), strict=True):
        if rank not in run.ranks:
            continue
        metric.bad_ranks.setdefault(rank, len(metric.bad_ranks) < MAX_NAMED_RANKS)
        if not metric.bad_ranks[rank]:
            others += count
            continue
        step, path = int(batch.step[at]), path_of(run.ranks[rank])
        text = f"{name} is {to_json_number(float(batch.value[at]))} at step {step:,}"
        out += raise_event(
            run, now, "non-finite", text, severity=severity, path=path, key=str(number), count=count, step=step,
            keeps_first=True,
        )  # fmt: skip
    if others:
        text = f"{name} is not finite on {len(metric.bad_ranks):,} ranks"
        out += raise_event(run, now, "non-finite", text, severity=severity, key=str(number), count=others)
    return out


def metric_entries(run: Run, root: CohortWindow, latest: LatestValues) -> list[MetricEntry]:
    """Every metric in page order."""
    entries = []
    for metric in sorted(run.metrics.values(), key=lambda metric: metric_order(metric.name)):
        ranks = [rank for rank in latest.ranks_with(metric.id) if rank in run.ranks]
        paths = [path_of(run.ranks[rank]) for rank in ranks[:MAX_PATHS]]
        last = root.last(metric.id, metric.reduction)
        if last is None and ranks:
            last = reduce_values([(value, 1.0) for value in latest.of(metric.id, ranks)], metric.reduction)
        first_step, last_step = span_of(run, metric)
        entries.append(
            MetricEntry(
                name=metric.name,
                unit=metric.unit,
                reduction=metric.reduction,
                paths=paths,
                rank_count=len(ranks),
                points=metric.points,
                first_step=first_step,
                last_step=last_step,
                last=to_json_number(last),
                non_finite=metric.non_finite,
            )
        )
    return entries
