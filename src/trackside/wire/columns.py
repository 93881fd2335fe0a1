"""Points as numpy columns, for the controller's side only."""

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from trackside.errors import ProtocolError
from trackside.wire.messages import Points

NO_EPOCH = -1


class PointBatch(msgspec.Struct, frozen=True):
    """Values of any number of ranks, one row a value; all columns have the same length."""

    metric: npt.NDArray[np.int32]
    """Run-wide metric id."""
    rank: npt.NDArray[np.int32]
    generation: npt.NDArray[np.int32]
    epoch: npt.NDArray[np.int32]
    """-1 for none."""
    step: npt.NDArray[np.int64]
    time: npt.NDArray[np.float64]
    """UTC epoch seconds of the rank's wall clock."""
    value: npt.NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.value)


class PointColumns(msgspec.Struct, frozen=True):
    """One `Points` message, unpacked to a row a value; `series` are still the session's own ids."""

    series: npt.NDArray[np.uint32]
    epoch: npt.NDArray[np.int32]
    step: npt.NDArray[np.int64]
    time: npt.NDArray[np.float64]
    value: npt.NDArray[np.float64]


def unpack(points: Points) -> PointColumns:
    """Return the message's values, one row a value.

    Raises:
        ProtocolError: columns whose lengths contradict each other.
    """
    try:
        width = np.frombuffer(points.width, "<u4")
        series = np.frombuffer(points.series, "<u4")
        value = np.frombuffer(points.value, "<f8")
        time = np.frombuffer(points.time, "<f8")
        step = np.frombuffer(points.step, "<i8")
        epoch = np.frombuffer(points.epoch, "<i4")
    except ValueError as error:
        raise ProtocolError(f"a points message with a torn column: {error}") from error
    calls = len(width)
    if not calls == len(time) == len(step) == len(epoch):
        raise ProtocolError(f"a points message with {calls} widths for {len(time)} times, {len(step)} steps")
    if not int(width.sum(dtype=np.int64)) == len(series) == len(value):
        raise ProtocolError(f"a points message whose widths do not add up to its {len(value)} values")
    return PointColumns(
        series=series,
        epoch=np.repeat(epoch, width),
        step=np.repeat(step, width),
        time=np.repeat(time, width),
        value=value,
    )


def concatenate(batches: Sequence[PointBatch]) -> PointBatch:
    """Join batches in order."""
    if len(batches) == 1:
        return batches[0]
    return PointBatch(
        metric=np.concatenate([b.metric for b in batches]) if batches else np.empty(0, np.int32),
        rank=np.concatenate([b.rank for b in batches]) if batches else np.empty(0, np.int32),
        generation=np.concatenate([b.generation for b in batches]) if batches else np.empty(0, np.int32),
        epoch=np.concatenate([b.epoch for b in batches]) if batches else np.empty(0, np.int32),
        step=np.concatenate([b.step for b in batches]) if batches else np.empty(0, np.int64),
        time=np.concatenate([b.time for b in batches]) if batches else np.empty(0, np.float64),
        value=np.concatenate([b.value for b in batches]) if batches else np.empty(0, np.float64),
    )
