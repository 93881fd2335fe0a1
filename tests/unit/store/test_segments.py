import math
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest

from tests.unit.store.station import batch
from trackside.store import COLUMNS, RunFolder
from trackside.store.database import connect
from trackside.store.segments import POINT_ORDER, merge_files, plan_merge, write_segment
from trackside.wire.columns import PointBatch, concatenate

NAMES = ({0: "b", 1: "a"}, {(0, 0): "root/h/rank0", (1, 0): "root/h/rank1", (0, 1): "root/h/rank0"})


@pytest.fixture
def database():
    with connect() as opened:
        yield opened


def test_others_read_points_with_nothing_of_ours(folder: RunFolder, database) -> None:
    rows = concatenate(
        [
            batch([1.5, math.nan, math.inf, -math.inf, 0.1], rank=1),
            batch([7.0], metric=1, generation=1, step=9, time_s=12.0009),
        ]
    )
    rows.epoch[0] = 4
    path = write_segment(database, folder, 3, [rows], NAMES)
    assert path.name == "000003.parquet"
    frame = pd.read_parquet(folder.points)
    assert tuple(frame.columns) == COLUMNS
    assert frame.series.tolist() == ["a", *["b"] * 5]
    assert frame.path.tolist() == ["root/h/rank0", *["root/h/rank1"] * 5]
    assert frame.step.tolist() == [9, 0, 1, 2, 3, 4]
    assert frame.time.tolist()[0] == round(12.0009 * 1024) / 1024
    found = duckdb.sql(f"SELECT epoch, value FROM '{folder.points}/*.parquet' ORDER BY series, step").fetchall()
    assert [epoch for epoch, _ in found] == [None, 4, None, None, None, None]
    assert [str(value) for _, value in found] == ["7.0", "1.5", "nan", "inf", "-inf", "0.1"]
    types = [column[1] for column in duckdb.sql(f"DESCRIBE SELECT * FROM '{path}'").fetchall()]
    assert types == ["VARCHAR", "VARCHAR", "INTEGER", "INTEGER", "INTEGER", "BIGINT", "DOUBLE", "DOUBLE"]


def test_rows_are_sorted_however_they_came(folder: RunFolder, database) -> None:
    random = np.random.default_rng(1)
    count = 5000
    rows = PointBatch(
        metric=random.integers(0, 2, count).astype(np.int32),
        rank=random.integers(0, 9, count).astype(np.int32),
        generation=random.integers(0, 3, count).astype(np.int32),
        epoch=np.full(count, -1, np.int32),
        step=random.integers(0, 50, count),
        time=np.arange(count, dtype=np.float64),
        value=np.arange(count, dtype=np.float64),
    )
    frame = pd.read_parquet(write_segment(database, folder, 1, [rows], NAMES))
    assert frame[["series", "rank", "generation", "step"]].apply(tuple, axis=1).is_monotonic_increasing
    assert sorted(frame["value"]) == list(range(count))


def test_names_that_nobody_defined_lose_no_row(folder: RunFolder, database) -> None:
    write_segment(database, folder, 1, [batch([1.0, 2.0], metric=5, rank=8)], NAMES)
    frame = pd.read_parquet(folder.points)
    assert frame.series.tolist() == ["unknown 5"] * 2
    assert frame.path.isna().all()
    assert frame["value"].tolist() == [1.0, 2.0]


def test_a_name_may_be_anything(folder: RunFolder, database) -> None:
    names = ["", "'; DROP TABLE x; --", "<b>", "\x00", "🙂" * 100, "a\nb", "x" * 10_000]
    rows = concatenate([batch([float(at)], metric=at) for at in range(len(names))])
    write_segment(database, folder, 1, [rows], (dict(enumerate(names)), {}))
    found = duckdb.sql(f"SELECT value, series FROM '{folder.points}/*.parquet'").fetchall()
    assert dict(found) == {float(at): name for at, name in enumerate(names)}


def test_merging_keeps_every_row_and_the_order(folder: RunFolder, database) -> None:
    parts = [batch(np.arange(n), step=10 * n, metric=n % 2, rank=n % 3) for n in range(1, 6)]
    files = [write_segment(database, folder, at + 1, [part], NAMES) for at, part in enumerate(parts)]
    merged = merge_files(database, folder, files, POINT_ORDER)
    assert merged.name == "000001-000005.parquet"
    assert all(path.exists() for path in files)
    assert folder.point_files() == [merged]
    frame = pd.read_parquet(merged)
    assert sorted(frame["value"]) == sorted(np.concatenate([part.value for part in parts]))
    order = frame[["series", "rank", "generation", "step"]]
    assert order.equals(order.sort_values([*order.columns], kind="stable"))


def test_a_segment_that_fails_leaves_nothing(folder: RunFolder, database, monkeypatch) -> None:
    def fail(*_args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="No space"):
        write_segment(database, folder, 1, [batch([1.0])], NAMES)
    assert [path for path in folder.path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    ("rows", "most_files", "expected"),
    [
        ([], 1, []),
        ([5], 1, []),
        ([5, 5], 2, []),
        ([5, 5], 1, [0, 1]),
        ([60, 5, 5, 60, 5, 5, 5], 3, [4, 5, 6]),
        ([60, 5, 60, 5], 1, []),
        ([40, 40, 40], 1, [0, 1]),
    ],
)
def test_neighbours_are_merged_while_they_are_small(rows: list[int], most_files: int, expected: list[int]) -> None:
    files = [(Path(str(at)), count) for at, count in enumerate(rows)]
    plan = plan_merge(files, most_files=most_files, small_rows=50, most_rows=100)
    assert plan == [Path(str(at)) for at in expected]


def stored_bytes(folder: RunFolder, database, rows: PointBatch, names: dict[int, str]) -> float:
    path = write_segment(database, folder, 1, [rows], (names, {(r, 0): f"root/h/rank{r}" for r in range(8)}))
    return path.stat().st_size / len(rows)


def losses_of_a_job() -> PointBatch:
    """8 ranks x 20 series, 1,000 calls each, float32 values with noise, all of a call at one time."""
    random = np.random.default_rng(0)
    steps, ranks, series = 1000, 8, 20
    step, rank, metric = (a.ravel() for a in np.mgrid[:steps, :ranks, :series])
    clock = 1.7e9 + np.cumsum(random.normal(0.1, 0.004, (steps, ranks)), axis=0)
    value = (1 / (1 + step * 0.01) + random.normal(0, 0.05, step.size)).astype(np.float32)
    return PointBatch(
        metric=metric.astype(np.int32),
        rank=rank.astype(np.int32),
        generation=np.zeros(step.size, np.int32),
        epoch=(step // 100).astype(np.int32),
        step=step,
        time=np.repeat(clock.ravel(), series),
        value=value.astype(np.float64),
    )


def test_stored_points_stay_within_four_bytes(folder: RunFolder, database) -> None:
    names = {at: f"train/metric_{at}" for at in range(20)}
    assert stored_bytes(folder, database, losses_of_a_job(), names) <= 4.0


def test_counting_doubles_in_a_tight_loop_take_less_than_a_byte(folder: RunFolder, database) -> None:
    step, metric = (a.ravel() for a in np.mgrid[:20_000, :5])
    clock = 1.7e9 + np.cumsum(np.random.default_rng(0).choice([1.2e-5, 1.5e-5, 3e-5], 20_000))
    rows = PointBatch(
        metric=metric.astype(np.int32),
        rank=np.zeros(step.size, np.int32),
        generation=np.zeros(step.size, np.int32),
        epoch=np.full(step.size, -1, np.int32),
        step=step,
        time=np.repeat(clock, 5),
        value=step * 1e-4 + metric,
    )
    assert stored_bytes(folder, database, rows, {at: f"m{at}" for at in range(5)}) <= 1.0
