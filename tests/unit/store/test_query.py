"""Chart answers against an oracle that looks at every row; out of memory, out of Parquet, out of both."""

import math
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import pstdev

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.store.station import Station, batch, new_folder
from trackside.errors import StoreError
from trackside.store import PointTable, RunFolder, SeriesQuery, SeriesReader
from trackside.store.database import connect
from trackside.store.segments import POINT_ORDER, merge_files, write_segment
from trackside.wire.columns import PointBatch, concatenate
from trackside.wire.documents import SeriesAnswer

NAMES = ({0: "loss", 1: "lr"}, {(rank, g): f"root/h/rank{rank}" for rank in range(8) for g in range(3)})
LOSS = SeriesQuery("loss", "root", None)

Row = tuple[int, int, int, float]
"""rank, generation, step, value"""


class Shelf:
    """A reader over some rows, the first of them in Parquet files, the others in memory."""

    def __init__(self, base: Path, cold: list[PointBatch], hot: list[PointBatch]) -> None:
        self.folder = new_folder(base)
        self.table = PointTable()
        with connect() as database:
            for at, rows in enumerate(cold):
                write_segment(database, self.folder, at + 1, [rows], NAMES)
        self.table.replace_files(tuple(self.folder.point_files()))
        for metric, name in NAMES[0].items():
            self.table.name_metric(metric, name)
        for rows in hot:
            self.table.append(rows)
        self.reader = SeriesReader(self.table.snapshot)

    def ask(self, **options: object) -> SeriesAnswer:
        return self.reader.series_now(msgspec.structs.replace(LOSS, **options))


@pytest.fixture
def shelves(tmp_path: Path) -> Iterator[list[Shelf]]:
    opened: list[Shelf] = []
    yield opened
    for shelf in opened:
        shelf.reader.close()


@pytest.fixture(params=["exact", "inside DuckDB"])
def way(request, monkeypatch) -> str:
    """Both ways to answer must say the same."""
    if request.param != "exact":
        monkeypatch.setattr("trackside.store.query.EXACT_ROWS", 0)
    return str(request.param)


def rows_to_batch(rows: list[Row]) -> PointBatch:
    return concatenate([batch([v], step=s, rank=r, generation=g) for r, g, s, v in rows])


def standing(rows: list[Row]) -> list[Row]:
    """Rows that no later generation of the same rank supersedes."""
    firsts: dict[tuple[int, int], int] = {}
    for rank, generation, step, _ in rows:
        firsts[rank, generation] = min(step, firsts.get((rank, generation), step))
    return [
        (rank, generation, step, value)
        for rank, generation, step, value in rows
        if not any(r == rank and g > generation and first <= step for (r, g), first in firsts.items())
    ]


def by_step(rows: list[Row]) -> dict[int, list[float]]:
    groups: dict[int, list[float]] = defaultdict(list)
    for _, _, step, value in standing(rows):
        groups[step].append(value)
    return dict(sorted(groups.items()))


def oracle(rows: list[Row]) -> list[tuple[int, float, float, float, int]]:
    return [(step, sum(v) / len(v), min(v), max(v), len(v)) for step, v in by_step(rows).items()]


some_rows = st.lists(
    st.tuples(
        st.integers(0, 2), st.integers(0, 2), st.integers(-5, 30), st.floats(-1e6, 1e6).map(lambda v: round(v, 3))
    ),
    min_size=1,
    max_size=40,
)
slow = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)


@slow
@given(rows=some_rows, data=st.data())
def test_every_step_is_the_cohorts(tmp_path_factory, way: str, rows: list[Row], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(rows)))
    second = data.draw(st.integers(0, cut))
    cold = [rows_to_batch(part) for part in (rows[:second], rows[second:cut]) if part]
    shelf = Shelf(tmp_path_factory.mktemp("shelf"), cold, [rows_to_batch(rows[cut:])] if rows[cut:] else [])
    answer = shelf.ask()
    shelf.reader.close()
    expected = oracle(rows)
    assert answer.x == [step for step, *_ in expected]
    assert answer.mean == pytest.approx([mean for _, mean, *_ in expected], rel=1e-9, abs=1e-6)
    assert answer.min == [low for _, _, low, _, _ in expected]
    assert answer.max == [high for _, _, _, high, _ in expected]
    assert answer.count == [count for *_, count in expected]
    assert answer.total_points == sum(answer.count)
    assert not answer.decimated
    differs = max(answer.count) > 1
    assert answer.std or not (differs and way == "exact")
    if answer.std:
        assert answer.std == pytest.approx([pstdev(group) for group in by_step(rows).values()], rel=1e-9, abs=1e-6)


@slow
@given(
    spike=st.integers(0, 4999),
    points=st.integers(1, 300),
    zoom=st.tuples(st.integers(0, 4999), st.integers(0, 4999)),
    x=st.sampled_from(["step", "time", "relative"]),
)
def test_a_spike_of_one_point_is_seen_at_every_zoom(spikes: "Spikes", way: str, spike, points, zoom, x) -> None:
    shelf = spikes.shelf(spike)
    low, high = min(*zoom, spike), max(*zoom, spike)
    shift = {"step": 0, "time": 1000.0, "relative": 400.0}[x]
    answer = shelf.ask(points=points, start=low + shift, end=high + shift, x=x, origin=600.0)
    assert 0 < len(answer.x) <= points
    assert answer.x == sorted(answer.x)
    assert sum(answer.count) == answer.total_points == high - low + 1
    assert max(answer.max) == 1e9
    assert min(answer.min) == (1e9 if low == high else -1.0)
    assert all(a <= b <= c for a, b, c in zip(answer.min, answer.mean, answer.max, strict=True))
    assert answer.x[0] >= low + shift
    assert answer.x[-1] <= high + shift
    assert answer.decimated == any(count > 1 for count in answer.count)


class Spikes:
    """5,000 steps of -1; the one spike is set per example, in what is hot."""

    def __init__(self, base: Path) -> None:
        self._base, self._shelves = base, {}

    def shelf(self, spike: int) -> Shelf:
        if spike not in self._shelves:
            values = np.full(5000, -1.0)
            values[spike] = 1e9
            folder = self._base / str(spike)
            cold = [batch(values[:3000]), batch(values[3000:4000], step=np.arange(3000, 4000))]
            hot = [batch(values[4000:], step=np.arange(4000, 5000))]
            self._shelves[spike] = Shelf(folder, cold, hot)
        return self._shelves[spike]

    def close(self) -> None:
        for shelf in self._shelves.values():
            shelf.reader.close()


@pytest.fixture(scope="module")
def spikes(tmp_path_factory) -> Iterator[Spikes]:
    made = Spikes(tmp_path_factory.mktemp("spikes"))
    yield made
    made.close()


def test_what_a_later_generation_trains_again_is_gone_though_it_has_not_told_the_metric(shelves, tmp_path, way) -> None:
    cold = batch([1.0] * 10, step=np.arange(10), rank=0, generation=0)
    hot = batch([2.0] * 5, step=np.arange(10, 15), rank=1, generation=0)
    new = batch([5.0] * 2, step=np.arange(7, 9), rank=0, generation=1)
    shelves.append(Shelf(tmp_path / "a", [cold], [hot]))
    answer = shelves[0].ask(superseded=((1, 6),))
    assert answer.x == [0, 1, 2, 3, 4, 5]
    assert shelves[0].ask(superseded=((1, 6),), x="epoch").total_points == 0
    shelves.append(Shelf(tmp_path / "b", [cold, new], [hot]))
    answer = shelves[1].ask(superseded=((1, 6),))
    assert (answer.x, answer.mean[-2:]) == ([0, 1, 2, 3, 4, 5, 7, 8], [5.0, 5.0])


def test_a_later_generation_wins_from_its_first_step_on(shelves, tmp_path, way) -> None:
    """Rank 0 was restarted from step 3; rank 1 has not come back: its old values stand."""
    old = concatenate([batch([1.0] * 6, rank=rank) for rank in (0, 1)])
    new = batch([5.0] * 4, step=np.arange(3, 7), rank=0, generation=1)
    shelves.append(shelf := Shelf(tmp_path, [old], [new]))
    answer = shelf.ask()
    assert answer.x == [0, 1, 2, 3, 4, 5, 6]
    assert answer.count == [2, 2, 2, 2, 2, 2, 1]
    assert answer.max == [1.0] * 3 + [5.0] * 4
    assert answer.mean == [1.0] * 3 + [3.0] * 3 + [5.0]
    zoomed = shelf.ask(start=4, ranks=frozenset({0}))
    assert (zoomed.x, zoomed.mean) == ([4, 5, 6], [5.0, 5.0, 5.0])


def test_ranks_below_a_path_only(shelves, tmp_path, way) -> None:
    rows = concatenate([batch([float(rank)] * 3, rank=rank) for rank in range(5)])
    shelves.append(shelf := Shelf(tmp_path, [rows], [batch([9.0], metric=1)]))
    assert shelf.ask(ranks=frozenset({1, 3})).mean == [2.0] * 3
    assert shelf.ask(ranks=frozenset({1, 2, 3})).max == [3.0] * 3
    assert shelf.ask(ranks=frozenset()).x == []
    assert shelf.ask(metric="nothing").x == []
    assert shelf.ask(metric="lr").mean == [9.0]


@pytest.mark.parametrize(
    ("reduction", "exact", "halved"),
    [
        ("mean", [1.5, 2.5, 3.5, 4.5], [2.0, 4.0]),
        ("sum", [3.0, 5.0, 7.0, 9.0], [4.0, 8.0]),
        ("min", [1.0, 2.0, 3.0, 4.0], [1.0, 3.0]),
        ("max", [2.0, 3.0, 4.0, 5.0], [3.0, 5.0]),
    ],
)
def test_the_reduction_a_user_declared(shelves, tmp_path, way, reduction, exact, halved) -> None:
    rows = concatenate([batch(np.arange(1.0, 5.0) + rank, rank=rank) for rank in (0, 1)])
    shelves.append(shelf := Shelf(tmp_path, [rows], []))
    answer = shelf.ask(reduction=reduction)
    assert (answer.mean, answer.reduction) == (exact, reduction)
    answer = shelf.ask(reduction=reduction, points=2)
    assert (answer.mean, answer.decimated) == (halved, True)
    assert (answer.min, answer.max) == ([1.0, 3.0], [3.0, 5.0])


def test_the_last_value_of_a_bucket(shelves, tmp_path, way) -> None:
    shelves.append(shelf := Shelf(tmp_path, [batch([1.0, 9.0, 2.0, 3.0])], [batch([7.0], step=4)]))
    assert shelf.ask(reduction="last", points=3).mean == [9.0, 3.0, 7.0]


def test_b39_what_is_not_finite_is_marked_and_never_drawn_as_a_number(shelves, tmp_path, way) -> None:
    values = [1.0, math.nan, math.inf, -math.inf, 3.0, math.nan]
    shelves.append(shelf := Shelf(tmp_path, [batch(values[:3])], [batch(values[3:], step=np.arange(3, 6))]))
    answer = shelf.ask()
    assert answer.mean == [1.0, "NaN", "Infinity", "-Infinity", 3.0, "NaN"]
    assert answer.non_finite == [(1, "NaN"), (2, "Infinity"), (3, "-Infinity"), (5, "NaN")]
    answer = shelf.ask(points=2)
    assert (answer.mean, answer.min, answer.max) == ([1.0, 3.0], [1.0, 3.0], [1.0, 3.0])
    assert answer.count == [4, 2]
    assert len(answer.non_finite) == 4
    msgspec.json.encode(answer)


def test_a_cohort_with_one_nan_keeps_the_others_mean(shelves, tmp_path, way) -> None:
    rows = concatenate([batch([v], rank=rank) for rank, v in enumerate([1.0, 3.0, math.nan])])
    shelves.append(shelf := Shelf(tmp_path, [rows], []))
    answer = shelf.ask()
    assert (answer.mean, answer.min, answer.max, answer.count) == ([2.0], [1.0], [3.0], [3])


def test_d10_how_far_ranks_differ_is_known_of_any_finite_numbers(shelves, tmp_path) -> None:
    big, none = 1.7e308, math.nan
    steps = [[1.0, 3.0], [big, -big], [big, big], [1.0, none], [none, math.inf], [5e-324, 0.0]]
    rows = concatenate([batch([v], step=step, rank=rank) for step, of in enumerate(steps) for rank, v in enumerate(of)])
    shelves.append(shelf := Shelf(tmp_path, [rows], []))
    answer = shelf.ask()
    assert answer.std == [1.0, big, 0.0, 0.0, None, pytest.approx(0.0)]
    msgspec.json.encode(answer)


def test_epochs_as_x_leave_out_what_has_none(shelves, tmp_path, way) -> None:
    rows = batch([1.0, 2.0, 3.0, 4.0])
    rows.epoch[:] = [-1, 0, 0, 1]
    shelves.append(shelf := Shelf(tmp_path, [rows], []))
    answer = shelf.ask(x="epoch")
    assert (answer.x, answer.mean, answer.total_points) == ([0, 1], [2.5, 4.0], 3)


def test_b33_ranks_whose_clocks_differ_are_one_entry_on_a_time_axis(shelves, tmp_path) -> None:
    ahead = batch([1.0, 2.0, 3.0], rank=1, time_s=np.array([1000.5, 1001.5, 1002.5]))
    behind = batch([3.0, 4.0, 5.0], rank=0, time_s=np.array([1000.0, 1001.0, 1002.0]))
    shelves.append(shelf := Shelf(tmp_path, [ahead], [behind]))
    answer = shelf.ask(x="relative", origin=1000.0)
    assert (answer.x, answer.mean, answer.count) == ([0.0, 1.0, 2.0], [2.0, 3.0, 4.0], [2, 2, 2])


def test_values_of_one_step_stay_apart_on_a_time_axis(shelves, tmp_path) -> None:
    """A script that never counts steps still has a curve over time."""
    shelves.append(shelf := Shelf(tmp_path, [], [batch([1.0, 2.0, 3.0], step=0, time_s=np.array([1.0, 2.0, 3.0]))]))
    assert shelf.ask(x="time").mean == [1.0, 2.0, 3.0]
    assert shelf.ask(x="step").mean == [2.0]


def test_extreme_steps_and_times_answer(shelves, tmp_path, way) -> None:
    big = 2**62
    rows = batch([1.0, 2.0, 3.0], step=np.array([-big, 0, big]), time_s=np.array([math.nan, math.inf, 5.0]))
    shelves.append(shelf := Shelf(tmp_path, [rows], []))
    assert shelf.ask(points=2).total_points == 3
    assert shelf.ask().max == [1.0, 2.0, 3.0] or way != "exact"
    assert shelf.ask(x="time").x == [5.0]
    assert shelf.ask(start=1e300).x == []


def test_buckets_stay_where_they_are_while_a_run_grows(shelves, tmp_path) -> None:
    shelves.append(shelf := Shelf(tmp_path, [], [batch(np.arange(1500.0))]))
    before = shelf.ask()
    shelf.table.append(batch([0.0] * 100, step=np.arange(1500, 1600)))
    after = shelf.ask()
    assert after.x[: len(before.x)] == before.x
    assert after.max[: len(before.x) - 1] == before.max[:-1]


def test_d56_an_answer_stays_small(shelves, tmp_path) -> None:
    random = np.random.default_rng(0)
    shelves.append(shelf := Shelf(tmp_path, [batch(random.normal(size=150_000))], [batch(random.normal(size=60_000))]))
    for x in ("step", "time"):
        answer = shelf.ask(x=x)
        assert len(answer.x) <= 1000
        assert len(msgspec.json.encode(answer)) < 100_000


def test_a_reader_that_asks_all_the_time_never_sees_a_gap_or_a_double(folder: RunFolder, monkeypatch) -> None:
    """Commits, segments and merges go on while charts are asked."""
    monkeypatch.setattr("trackside.store.settler.MOST_FILES", 2)
    station = Station(folder)
    station.greet(0)
    reader = SeriesReader(station.writer.table.snapshot)
    wrong: list[tuple[int, int]] = []
    logged, over = [0], threading.Event()

    def ask() -> None:
        while not over.is_set():
            least = logged[0]
            answer = reader.series_now(msgspec.structs.replace(LOSS, points=20_000))
            if answer.x != list(range(len(answer.x))) or set(answer.count) - {1} or len(answer.x) < least:
                wrong.append((least, len(answer.x)))

    asking = [threading.Thread(target=ask) for _ in range(2)]
    for thread in asking:
        thread.start()
    for turn in range(12):
        for step in range(turn * 10, turn * 10 + 10):
            station.log(0, step, [{"loss": 1.0}])
            logged[0] = step + 1
        station.rotate()
    station.close()
    over.set()
    for thread in asking:
        thread.join()
    assert reader.series_now(LOSS).total_points == 120
    reader.close()
    assert wrong == []


def test_a_merge_in_the_middle_of_a_query(shelves, tmp_path) -> None:
    """The snapshot names a file that has just gone: the query looks again."""
    shelves.append(shelf := Shelf(tmp_path, [batch([1.0]), batch([2.0], step=1)], []))
    with connect() as database:
        merged = merge_files(database, shelf.folder, shelf.folder.point_files(), POINT_ORDER)
    stale = shelf.table.snapshot()
    for path in stale.files:
        path.unlink()
    fresh = msgspec.structs.replace(stale, files=(merged,))
    answers = iter([stale, fresh])
    reader = SeriesReader(lambda: next(answers))
    assert reader.series_now(LOSS).mean == [1.0, 2.0]
    reader.close()


@pytest.mark.parametrize("damage", ["end", "values", "names"])
def test_a_damaged_file_is_left_out_and_the_others_answer(shelves, tmp_path, damage) -> None:
    """Curves and reports go without it; it is known which one."""
    shelves.append(shelf := Shelf(tmp_path, [batch([1.0]), batch([2.0], step=1)], [batch([3.0], step=2)]))
    path = shelf.folder.point_files()[0]
    content = path.read_bytes()
    spoilt = {
        "end": b"PAR1 not really",
        "values": content[:4] + bytes(300) + content[304:],
        "names": content.replace(b"loss", b"l\xff\xfes"),
    }
    path.write_bytes(spoilt[damage])
    assert shelf.ask().mean == [2.0, 3.0]
    assert shelf.reader.baked_now(LOSS).step == [1, 2]
    assert shelf.reader.unreadable == (frozenset() if damage == "names" else {path})


def test_what_cannot_be_read_at_all_is_an_error_with_a_name(shelves, tmp_path, monkeypatch) -> None:
    shelves.append(shelf := Shelf(tmp_path, [batch([1.0])], []))
    monkeypatch.setattr("trackside.store.query.readable", lambda files, throughout: (files, []))
    (path,) = shelf.folder.point_files()
    path.write_bytes(b"PAR1 not really")
    with pytest.raises(StoreError, match="the points of 'loss' cannot be read"):
        shelf.ask()


def test_a_curve_for_the_report_has_every_axis(shelves, tmp_path, way) -> None:
    rows = batch([1.0, math.nan, 3.0, 4.0])
    rows.epoch[:] = [-1, 0, 0, 1]
    shelves.append(shelf := Shelf(tmp_path, [rows], [batch([5.0], step=4)]))
    baked = shelf.reader.baked_now(LOSS)
    assert (baked.step, baked.epoch) == ([0, 1, 2, 3, 4], [None, 0, 0, 1, None])
    assert baked.time == [1000.0, 1001.0, 1002.0, 1003.0, 1004.0]
    assert baked.mean == [1.0, "NaN", 3.0, 4.0, 5.0]
    assert (baked.count, baked.total_points, baked.non_finite) == ([1] * 5, 5, [(1, "NaN")])
    halved = shelf.reader.baked_now(msgspec.structs.replace(LOSS, points=3))
    assert (halved.step, halved.max) == ([0, 2, 4], [1.0, 4.0, 5.0])


def test_a_question_that_takes_long_writes_nothing_on_the_standard_output() -> None:
    assert connect().sql("select current_setting('enable_progress_bar')").fetchall() == [(False,)]
