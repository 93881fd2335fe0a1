"""A chart of everything from outlines says what the points themselves say."""

from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.store.station import new_folder
from trackside.store import PointTable, RunFolder, SeriesQuery, SeriesReader
from trackside.store.database import connect
from trackside.store.outline import may_be_long, outline_path, write_outline
from trackside.store.segments import POINT_ORDER, merge_files, write_segment
from trackside.wire.columns import PointBatch
from trackside.wire.documents import SeriesAnswer

NAMES = ({0: "loss", 1: "lr"}, {(rank, 0): f"root/h/rank{rank}" for rank in range(4)})
LOSS = SeriesQuery("loss", "root", None, points=16)
STEPS, FILES, HOT = 4000, 4, 300
SPIKE = 2345


def rows(first: int, count: int, ranks: int = 2) -> PointBatch:
    """Steps of every rank, not finite now and then; one value stands out."""
    step, rank = (axis.ravel() for axis in np.mgrid[first : first + count, :ranks])
    value = np.sin(step / 50) + rank
    value[(step % 977 == 5) & (rank == 0)] = np.nan
    value[(step % 1201 == 7) & (rank == 1)] = np.inf
    value[(step == SPIKE) & (rank == 0)] = 99.0
    zeros = np.zeros(step.size, np.int32)
    return PointBatch(zeros, rank.astype(np.int32), zeros, zeros - 1, step, 1.7e9 + step * 0.25 + rank * 1e-3, value)


@pytest.fixture(scope="module")
def shelf(tmp_path_factory) -> "Shelf":
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trackside.store.outline.LEAST_ROWS", 10)
        patch.setattr("trackside.store.outline.ROWS_A_BUCKET", 16)
        return Shelf(tmp_path_factory.mktemp("outlined"))


class Shelf:
    """Files with outlines and some newer rows; `ask` says what is answered with outlines, and without."""

    def __init__(self, base: Path) -> None:
        self.folder: RunFolder = new_folder(base)
        self.table = PointTable()
        count = STEPS // FILES
        with connect() as database:
            for at in range(FILES):
                path = write_segment(database, self.folder, at + 1, [rows(at * count, count)], NAMES)
                write_outline(database, self.folder, path)
        self.table.replace_files(tuple(self.folder.point_files()))
        self.table.name_metric(0, "loss")
        self.table.append(rows(STEPS, HOT))

    def ask(self, query: SeriesQuery, *, outlined: bool) -> SeriesAnswer:
        reader = SeriesReader(self.table.snapshot)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("trackside.store.query.EXACT_ROWS", 0)
            if not outlined:
                patch.setattr("trackside.store.outline._read", lambda points: None)
            answer = reader.series_now(query)
        reader.close()
        return answer


def assert_same(got: SeriesAnswer, wanted: SeriesAnswer) -> None:
    for name in ("x", "min", "max", "count", "total_points", "decimated", "non_finite"):
        assert getattr(got, name) == getattr(wanted, name), name
    assert [str(v) if isinstance(v, str) else round(v, 9) for v in got.mean] == [
        str(v) if isinstance(v, str) else round(v, 9) for v in wanted.mean
    ]


ranges = st.none() | st.tuples(st.floats(-50, 4500), st.floats(0, 4500)).map(lambda pair: (min(pair), max(pair)))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(
    zoom=ranges,
    points=st.sampled_from([1, 7, 16, 100, 1000]),
    x=st.sampled_from(["step", "relative", "time"]),
    ranks=st.sampled_from([None, frozenset({0, 1}), frozenset({0, 1, 3}), frozenset({1})]),
    reduction=st.sampled_from(["mean", "min", "max", "sum", "last"]),
)
def test_what_an_outline_says_is_what_the_points_say(shelf: Shelf, zoom, points, x, ranks, reduction) -> None:
    start, end = zoom if zoom is not None else (None, None)
    if zoom is not None and x == "time":
        start, end = 1.7e9 + start / 4, 1.7e9 + end / 4
    query = msgspec.structs.replace(
        LOSS, x=x, start=start, end=end, points=points, ranks=ranks, reduction=reduction, origin=1.7e9
    )
    assert_same(shelf.ask(query, outlined=True), shelf.ask(query, outlined=False))


def test_a_chart_of_everything_reads_no_points(shelf: Shelf, monkeypatch) -> None:
    monkeypatch.setattr("trackside.store.cold.ColdView.read_table", lambda *_: pytest.fail("the points were read"))
    monkeypatch.setattr("trackside.store.cold.ColdView.find_extent", lambda *_: pytest.fail("the points were read"))
    answer = shelf.ask(LOSS, outlined=True)
    assert (max(answer.max), answer.total_points) == (99.0, 2 * (STEPS + HOT))


def test_a_damaged_outline_is_as_good_as_none(shelf: Shelf, tmp_path) -> None:
    path = outline_path(shelf.folder.point_files()[0])
    whole = path.read_bytes()
    wanted = shelf.ask(LOSS, outlined=False)
    for damage in (b"", whole[: len(whole) // 2], b"\xff" * 40):
        path.write_bytes(damage)
        assert_same(shelf.ask(LOSS, outlined=True), wanted)
    path.write_bytes(whole)


def test_a_merged_file_has_its_own_outline_and_the_others_go(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("trackside.store.outline.LEAST_ROWS", 10)
    shelf = Shelf(tmp_path)
    files = shelf.folder.point_files()
    with connect() as database:
        merged = merge_files(database, shelf.folder, files, POINT_ORDER)
        write_outline(database, shelf.folder, merged)
    for path in files:
        path.unlink()
    shelf.folder.sweep()
    assert [path.stem for path in shelf.folder.outline.iterdir()] == [merged.stem]
    shelf.table.replace_files((merged,))
    assert_same(shelf.ask(LOSS, outlined=True), shelf.ask(LOSS, outlined=False))


def test_a_disk_that_refuses_leaves_no_outline_and_no_trouble(tmp_path, monkeypatch) -> None:
    def refuse(*_args: object, **_options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(RunFolder, "write_whole", refuse)
    shelf = Shelf(tmp_path)
    assert not [*shelf.folder.path.glob("outline/*.bin")]
    assert shelf.ask(LOSS, outlined=True).total_points > 0


def test_only_rows_of_a_long_series_are_looked_at_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trackside.store.outline.LEAST_ROWS", 10)
    one = rows(0, 4)
    short = [msgspec.structs.replace(one, metric=np.full(len(one), metric, np.int32)) for metric in (3, 0, 7)]
    assert not may_be_long(short)
    assert may_be_long([*short, short[1]])
