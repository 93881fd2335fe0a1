"""Points as columns: a row a value, or an error; never a shift."""

from array import array

import numpy as np
import pytest

from trackside.errors import ProtocolError
from trackside.wire.columns import PointBatch, concatenate, unpack
from trackside.wire.messages import Points, SeriesDef


def points(widths: list[int], values: list[float]) -> Points:
    calls = len(widths)
    return Points(
        defs=[SeriesDef(id=0, name="loss")],
        time=array("d", [float(i) for i in range(calls)]).tobytes(),
        step=array("q", range(10, 10 + calls)).tobytes(),
        epoch=array("i", [-1] * calls).tobytes(),
        width=array("I", widths).tobytes(),
        series=array("I", range(len(values))).tobytes(),
        value=array("d", values).tobytes(),
    )


def test_each_value_gets_the_step_and_time_of_its_call() -> None:
    columns = unpack(points([2, 0, 1], [0.5, 0.25, 9.0]))
    assert columns.step.tolist() == [10, 10, 12]
    assert columns.time.tolist() == [0.0, 0.0, 2.0]
    assert columns.series.tolist() == [0, 1, 2]
    assert columns.value.tolist() == [0.5, 0.25, 9.0]


def test_widths_that_do_not_add_up_are_refused() -> None:
    with pytest.raises(ProtocolError, match="do not add up to its 3 values"):
        unpack(points([1, 1], [1.0, 2.0, 3.0]))


def test_a_torn_column_is_refused() -> None:
    torn = points([1], [1.0])
    with pytest.raises(ProtocolError, match="torn"):
        unpack(Points(**{name: getattr(torn, name) for name in torn.__struct_fields__} | {"value": b"1234567"}))


def test_columns_of_unequal_length_are_refused() -> None:
    short = points([1, 1], [1.0, 2.0])
    with pytest.raises(ProtocolError, match="2 widths for 1 times"):
        unpack(Points(**{name: getattr(short, name) for name in short.__struct_fields__} | {"time": bytes(8)}))


def test_batches_join_in_order() -> None:
    def batch(step: int) -> PointBatch:
        i4, i8, f8 = np.zeros(1, np.int32), np.array([step]), np.zeros(1)
        return PointBatch(metric=i4, rank=i4, generation=i4, epoch=i4, step=i8, time=f8, value=f8)

    assert concatenate([batch(2), batch(1)]).step.tolist() == [2, 1]
    assert len(concatenate([])) == 0
