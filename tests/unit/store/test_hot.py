from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.store.station import batch
from trackside.store import PointTable
from trackside.store.hot import CHUNK_ROWS
from trackside.wire.columns import concatenate


def table_of(sizes: list[int]) -> PointTable:
    table, at = PointTable(), 0
    for size in sizes:
        table.append(batch(np.arange(at, at + size)))
        at += size
    return table


@given(sizes=st.lists(st.integers(0, 50), max_size=40), data=st.data())
def test_settled_rows_are_the_oldest(sizes: list[int], data: st.DataObject) -> None:
    table, total = table_of(sizes), sum(sizes)
    rows = data.draw(st.integers(0, total))
    before = table.snapshot()
    assert concatenate(before.first(rows)).value.tolist() == list(range(rows))
    table.settle(rows, (Path("000001.parquet"),))
    after = table.snapshot()
    assert after.hot.value.tolist() == list(range(rows, total))
    assert (after.files, table.hot_rows, table.total) == ((Path("000001.parquet"),), total - rows, total)
    assert before.hot.value.tolist() == list(range(total))


def test_chunks_stay_few_and_copies_small() -> None:
    table = table_of([1] * 3000)
    assert len(table.snapshot().chunks) <= 13
    table = table_of([CHUNK_ROWS - 1] * 5)
    assert [len(chunk) for chunk in table.snapshot().chunks] == [CHUNK_ROWS - 1] * 5


def test_what_stays_holds_on_to_nothing_that_went() -> None:
    table = table_of([10_000])
    table.settle(9_999, ())
    (chunk,) = table.snapshot().chunks
    assert chunk.value.base is None
    assert chunk.value.tolist() == [9_999]
