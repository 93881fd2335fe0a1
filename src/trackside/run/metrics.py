"""Metrics and their latest values, per rank, as one table."""

from typing import Any

import numpy as np
import numpy.typing as npt

from trackside.run.cohort import CohortWindow, GroupedSteps, group
from trackside.run.epochs import metric_order
from trackside.run.events import raise_event
from trackside.run.inputs import MetricAppeared, Moment
from trackside.run.outputs import DefineMetric, Instruction
from trackside.run.state import Metric, Run
from trackside.run.topology import path_of
from trackside.wire.columns import NO_EPOCH, PointBatch
from trackside.wire.documents import MetricEntry
from trackside.wire.messages import Level
from trackside.wire.values import to_json_number

MAX_PATHS = 64


class LatestValues:
    """Last value of every metric on every rank; a cell that was never written is unknown, not 0."""

    def __init__(self) -> None:
        self.value: npt.NDArray[np.float64] = np.zeros((8, 8))
        self.known: npt.NDArray[np.bool_] = np.zeros((8, 8), bool)

    def put(self, batch: PointBatch) -> None:
        """Take a batch; the later row of a cell wins."""
        self._grow(int(batch.metric.max()) + 1, int(batch.rank.max()) + 1)
        self.value[batch.metric, batch.rank] = batch.value
        self.known[batch.metric, batch.rank] = True

    def ranks_with(self, metric: int) -> list[int]:
        """Ranks that have a value, ascending."""
        return np.flatnonzero(self.known[metric]).tolist() if metric < len(self.known) else []

    def _grow(self, metrics: int, ranks: int) -> None:
        rows, columns = self.value.shape
        if metrics <= rows and ranks <= columns:
            return
        shape = (
            max(rows, 2 * metrics if metrics > rows else rows),
            max(columns, 2 * ranks if ranks > columns else columns),
        )
        for name in ("value", "known"):
            old = getattr(self, name)
            new: npt.NDArray[Any] = np.zeros(shape, old.dtype)
            new[:rows, :columns] = old
            setattr(self, name, new)


def define_metric(run: Run, appeared: MetricAppeared) -> list[Instruction]:
    """A name is new."""
    run.metrics[appeared.id] = Metric(
        id=appeared.id, name=appeared.name, unit=appeared.unit, reduction=appeared.reduction
    )
    return [DefineMetric(appeared.id, appeared.name, appeared.reduction)]


def take_points(
    run: Run, batch: PointBatch, root: CohortWindow, latest: LatestValues, now: Moment
) -> list[Instruction]:
    """Take values of any ranks."""
    if not len(batch):
        return []
    grouped = group(batch)
    root.add_grouped(grouped)
    latest.put(batch)
    _count(run, grouped)
    _advance_ranks(run, batch)
    return _note_non_finite(run, batch, now)


def _count(run: Run, grouped: GroupedSteps) -> None:
    edges = np.flatnonzero(np.r_[True, grouped.metric[1:] != grouped.metric[:-1]])
    for start, end in zip(edges, [*edges[1:], len(grouped.metric)], strict=True):
        metric = run.metrics.get(int(grouped.metric[start]))
        if metric is None:
            continue
        rows = grouped.rows[start:end]
        first, last, bad = int(rows["step"][0]), int(rows["step"][-1]), int(rows["bad"].sum())
        metric.points += int(rows["finite"].sum()) + bad
        metric.non_finite += bad
        metric.first_step = first if metric.first_step is None else min(metric.first_step, first)
        metric.last_step = last if metric.last_step is None else max(metric.last_step, last)


def _advance_ranks(run: Run, batch: PointBatch) -> None:
    """The last row of each rank says where it is."""
    ends = np.r_[np.flatnonzero(batch.rank[1:] != batch.rank[:-1]), len(batch.rank) - 1]
    for at in ends.tolist():
        rank = run.ranks.get(int(batch.rank[at]))
        if rank is None or rank.generation != int(batch.generation[at]):
            continue
        rank.step = int(batch.step[at])
        if batch.epoch[at] != NO_EPOCH:
            rank.epoch = int(batch.epoch[at])


def _note_non_finite(run: Run, batch: PointBatch, now: Moment) -> list[Instruction]:
    bad = np.flatnonzero(~np.isfinite(batch.value))
    if not len(bad):
        return []
    cells = np.stack([batch.metric[bad].astype(np.int64), batch.rank[bad].astype(np.int64)])
    pairs, first, counts = np.unique(cells, axis=1, return_index=True, return_counts=True)
    out: list[Instruction] = []
    for at in range(min(pairs.shape[1], 200)):
        metric, rank = run.metrics.get(int(pairs[0, at])), run.ranks.get(int(pairs[1, at]))
        if metric is None or rank is None:
            continue
        count = int(counts[at])
        rank.non_finite += count
        where = bad[first[at]]
        text = f"{metric.name} is {to_json_number(float(batch.value[where]))} at step {int(batch.step[where]):,}"
        kind = "non-finite" if metric.name == "loss" else f"non-finite {metric.name}"
        severity: Level = "critical" if "loss" in metric.name else "warn"
        out += raise_event(
            run, now, kind, text, severity=severity, path=path_of(rank), count=count, step=int(batch.step[where])
        )
    return out


def metric_entries(run: Run, root: CohortWindow, latest: LatestValues) -> list[MetricEntry]:
    """Every metric in page order."""
    entries = []
    for metric in sorted(run.metrics.values(), key=lambda metric: metric_order(metric.name)):
        ranks = latest.ranks_with(metric.id)
        paths = [path_of(run.ranks[rank]) for rank in ranks[:MAX_PATHS] if rank in run.ranks]
        entries.append(
            MetricEntry(
                name=metric.name,
                unit=metric.unit,
                reduction=metric.reduction,
                paths=paths,
                rank_count=len(ranks),
                points=metric.points,
                first_step=metric.first_step,
                last_step=metric.last_step,
                last=to_json_number(root.last(metric.id, metric.reduction)),
                non_finite=metric.non_finite,
            )
        )
    return entries
