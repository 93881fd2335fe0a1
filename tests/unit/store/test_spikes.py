"""Whatever one point says is in the chart of any part of its run, however it is stored and however few entries are asked for."""

from collections.abc import Iterator
from itertools import pairwise

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.store.station import new_folder
from trackside.store import PointTable, SeriesQuery, SeriesReader
from trackside.store.database import connect
from trackside.store.outline import write_outline
from trackside.store.segments import write_segment
from trackside.wire.columns import PointBatch
from trackside.wire.documents import SeriesAnswer

NAMES = ({0: "loss"}, {(rank, 0): f"root/h/rank{rank}" for rank in range(2)})
STEPS, EDGES = 12_000, (0, 4000, 7001, 10_500, 12_000)
"""Three files, the second without an outline; the rest is in memory."""
BEGAN, PACE_S = 1000.0, 0.25
random = np.random.default_rng(7)
SPIKES = np.unique(
    [
        0,
        STEPS - 1,
        *EDGES[1:-1],
        *(edge - 1 for edge in EDGES[1:-1]),
        *random.integers(0, STEPS, 60),
        *range(5000, 5008),
    ]
)
"""Neighbours among them, and the first and the last row of each file."""


def values() -> np.ndarray:
    """A row a rank: noise, one spike up or down at each of `SPIKES`, each of its own height, on one rank; NaN beside some."""
    table = np.random.default_rng(3).normal(size=(2, STEPS))
    lonely = SPIKES[:-1][np.diff(SPIKES) > 2]
    table[:, lonely[::2] + 1] = np.nan
    for at, step in enumerate(SPIKES):
        table[at % 2, step] = (100.0 + at) * (1 if at % 3 else -1)
    return table


VALUES = values()


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeriesReader]:
    folder, table = new_folder(tmp_path_factory.mktemp("spikes")), PointTable()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trackside.store.outline.LEAST_ROWS", 10)
        patch.setattr("trackside.store.outline.ROWS_A_BUCKET", 16)
        with connect() as database:
            for number, (first, end) in enumerate(pairwise(EDGES[:-1])):
                path = write_segment(database, folder, number + 1, [rows(first, end)], NAMES)
                if number != 1:
                    write_outline(database, folder, path)
    table.replace_files(tuple(folder.point_files()))
    table.name_metric(0, "loss")
    table.append(rows(EDGES[-2], STEPS))
    made = SeriesReader(table.snapshot)
    yield made
    made.close()


def rows(first: int, end: int) -> PointBatch:
    step = np.repeat(np.arange(first, end), 2)
    zeros = np.zeros(step.size, np.int32)
    rank = np.tile(np.arange(2, dtype=np.int32), end - first)
    return PointBatch(zeros, rank, zeros, zeros - 1, step, BEGAN + step * PACE_S, VALUES[:, first:end].T.ravel())


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    zoom=st.none() | st.tuples(st.integers(0, STEPS - 1), st.integers(0, STEPS - 1)),
    points=st.sampled_from([1, 2, 10, 333, 1000]),
    x=st.sampled_from(["step", "time", "relative"]),
    ranks=st.sampled_from([None, frozenset({0}), frozenset({1})]),
    reduction=st.sampled_from(["mean", "min", "max", "sum", "last"]),
    is_exact=st.booleans(),
)
def test_every_spike_is_seen_at_every_zoom(
    reader: SeriesReader, monkeypatch: pytest.MonkeyPatch, zoom, points: int, x, ranks, reduction, is_exact: bool
) -> None:
    monkeypatch.setattr("trackside.store.query.EXACT_ROWS", 10**9 if is_exact else 0)
    first, last = (min(zoom), max(zoom)) if zoom else (0, STEPS - 1)
    shift, pace = {"step": (0.0, 1.0), "time": (BEGAN, PACE_S), "relative": (600.0, PACE_S)}[x]
    limits = {"start": first * pace + shift, "end": last * pace + shift} if zoom else {}
    query = SeriesQuery("loss", "root", ranks, x, points=points, reduction=reduction, origin=BEGAN - 600.0)
    answer = reader.series_now(msgspec.structs.replace(query, **limits))
    assert 0 < len(answer.x) <= points
    assert len(msgspec.json.encode(answer)) < 100_000
    table = VALUES[sorted(ranks)] if ranks else VALUES
    assert_kept(answer, table, np.round((np.array(answer.x, float) - shift) / pace), first, last)


def assert_kept(answer: SeriesAnswer, table: np.ndarray, starts: np.ndarray, first: int, last: int) -> None:
    """Each entry's extremes are those of all that it stands for, up to the next entry."""
    ends = np.append(starts[1:] - 1, last)
    for at, (start, end) in enumerate(zip(starts, ends, strict=True)):
        part = table[:, int(np.ceil(start)) : int(np.floor(end)) + 1]
        finite = part[np.isfinite(part)]
        if not len(finite):
            assert answer.max[at] == "NaN"
        else:
            assert (answer.min[at], answer.max[at]) == (finite.min(), finite.max()), (start, end)
    assert starts[0] >= first
    assert sum(answer.count) == answer.total_points == table[:, first : last + 1].size
