"""From the buffer to messages: order, columns, names, means, devices."""

import math
import struct
from typing import Any

import numpy as np
import pytest

from trackside.monitor import buffer as buffer_module
from trackside.monitor import columns as columns_module
from trackside.monitor.buffer import NO_EPOCH, Buffer, DeviceCall
from trackside.monitor.declaration import Declaration
from trackside.monitor.encode import Encoder
from trackside.monitor.epochs import ClosedEpoch
from trackside.wire import codec
from trackside.wire.columns import unpack
from trackside.wire.messages import EpochReport, Points, SeriesDef


class Reader:
    """Messages read as the controller reads them."""

    def __init__(self) -> None:
        self.refused: list[tuple[str, str]] = []
        self.complaints: list[str] = []
        self.encoder = Encoder(lambda name, reason: self.refused.append((name, reason)), self.complaints.append)
        self.names: dict[int, str] = {}
        self.reports: list[EpochReport] = []

    def read(self, items: list[Any], *, flush: bool = False) -> list[tuple[str, int, int, float, float]]:
        """(name, epoch, step, time, value), as they came."""
        found = []
        for message in self.encoder.encode(items, flush=flush):
            codec.encode(message, 1)
            if isinstance(message, EpochReport):
                self.reports.append(message)
                continue
            assert isinstance(message, Points)
            self.names |= {definition.id: definition.name for definition in message.defs}
            columns = unpack(message)
            rows = zip(columns.series, columns.epoch, columns.step, columns.time, columns.value, strict=True)
            found += [(self.names[int(s)], int(e), int(step), float(t), float(v)) for s, e, step, t, v in rows]
        return found


class Device:
    """A device whose values come when a test says so."""

    def __init__(self, values: dict[str, float], *, error: bool = False) -> None:
        self._values, self.is_there, self._error = values, False, error

    def __len__(self) -> int:
        return len(self._values)

    @property
    def is_ready(self) -> bool:
        if self._error:
            raise RuntimeError("CUDA error: device-side assert triggered")
        return self.is_there

    def wait(self, seconds: float) -> bool:
        return self.is_ready

    def values(self) -> dict[str, float]:
        return self._values


def device_call(device: Device, step: int, epoch: int = NO_EPOCH, **known: float) -> DeviceCall:
    return DeviceCall(1.0, step, epoch, known, device)  # type: ignore[arg-type]


def closed(epoch: int, **given: float) -> ClosedEpoch:
    return ClosedEpoch(epoch=epoch, given=given, ended_at=2.0, finish=lambda report: report)


def test_calls_arrive_in_order_with_everything_that_was_given() -> None:
    reader = Reader()
    rows = reader.read([(0, 1.5, 7, {"a": 1.0, "b": 2}), (NO_EPOCH, 2.5, 8, {"a": True}), (0, 3.5, 2**40, {"b": -1.0})])
    assert rows == [
        ("a", 0, 7, 1.5, 1.0),
        ("b", 0, 7, 1.5, 2.0),
        ("a", -1, 8, 2.5, 1.0),
        ("b", 0, 2**40, 3.5, -1.0),
    ]


def test_values_round_trip_exactly_and_non_finite_ones_are_values() -> None:
    values = [0.1, 1e-308, -0.0, 1e308, math.inf, -math.inf, math.nan, 2**53, 5e-324]
    rows = Reader().read([(NO_EPOCH, 0.0, i, {"x": value}) for i, value in enumerate(values)])
    assert [struct.pack("d", row[4]) for row in rows] == [struct.pack("d", float(value)) for value in values]


def test_an_epochs_means_are_this_ranks_and_given_values_win() -> None:
    reader = Reader()
    calls = [(3, 0.0, i, {"loss": float(i), "acc": 0.5}) for i in range(4)]
    reader.read([*calls, (4, 0.0, 9, {"loss": 100.0}), closed(3, acc=0.9), closed(4), closed(5)])
    assert [report.metrics for report in reader.reports] == [{"loss": 1.5, "acc": 0.9}, {"loss": 100.0}, {}]


def test_b35_a_rank_s_epoch_is_the_mean_of_its_values() -> None:
    reader = Reader()
    calls = [(0, 0.0, step, {"loss": float(step), "lr": 0.1, "most": 1.7e308}) for step in range(3)]
    reader.read([*calls, (0, 0.0, 3, {"loss": 9.0}), (1, 0.0, 4, {"loss": 100.0})])
    reader.read([(0, 0.0, 5, {"bad": math.nan, "worse": math.inf}), (0, 0.0, 6, {"bad": 1.0, "worse": 1.0}), closed(0)])
    (report,) = reader.reports
    assert {name: report.metrics[name] for name in ("loss", "lr", "most", "worse")} == {
        "loss": 3.0,
        "lr": 0.1,
        "most": 1.7e308,
        "worse": math.inf,
    }
    assert math.isnan(report.metrics["bad"])


def test_a_name_that_is_cut_is_the_same_in_points_and_epochs() -> None:
    reader, name = Reader(), "n" * 20_000
    reader.read([(0, 0.0, 1, {name: 1.0, "\ud800": 2.0}), closed(0, **{name: 3.0})])
    assert set(reader.reports[0].metrics) == set(reader.names.values())


def definitions(reader: Reader, items: list[Any]) -> list[tuple[str, str, str | None, bool]]:
    """(name, reduction, unit, declared) of every definition sent, in order."""
    sent = [m for m in reader.encoder.encode(items) if isinstance(m, Points)]
    return [(d.name, d.reduction, d.unit, d.declared) for message in sent for d in message.defs]


def test_b38_a_declared_reduction_goes_out_with_the_name() -> None:
    reader = Reader()
    before = [Declaration("tokens", "sum", "tokens"), Declaration("never logged", "max", None)]
    assert definitions(reader, before) == []
    assert definitions(reader, [(NO_EPOCH, 0.0, 0, {"loss": 1.0, "tokens": 2.0})]) == [
        ("loss", "mean", None, False),
        ("tokens", "sum", "tokens", True),
    ]


def test_b38_a_declaration_of_a_name_in_use_goes_out_at_once_and_the_last_one_wins() -> None:
    reader = Reader()
    assert definitions(reader, [(NO_EPOCH, 0.0, 0, {"loss": 1.0})]) == [("loss", "mean", None, False)]
    assert definitions(reader, [Declaration("loss", "max", None)]) == [("loss", "max", None, True)]
    assert definitions(reader, [Declaration("loss", "min", "nats")]) == [("loss", "min", "nats", True)]
    assert definitions(reader, []) == []
    lost = [SeriesDef(id=0, name="loss")]
    reader.encoder.announce_again(lost)
    assert definitions(reader, [(NO_EPOCH, 0.0, 1, {"loss": 1.0})]) == [("loss", "min", "nats", True)]


def test_device_values_come_when_they_are_ready_and_their_epoch_waits_for_them() -> None:
    reader, slow = Reader(), Device({"loss": 2.0})
    assert reader.read([device_call(slow, 1, epoch=0, lr=0.1), closed(0), (NO_EPOCH, 0.0, 2, {"x": 1.0})]) == [
        ("x", -1, 2, 0.0, 1.0)
    ]
    assert reader.reports == []
    slow.is_there = True
    assert [(row[0], row[2], row[4]) for row in reader.read([])] == [("lr", 1, 0.1), ("loss", 1, 2.0)]
    assert reader.reports[0].metrics == {"lr": 0.1, "loss": 2.0}


@pytest.mark.parametrize("device", [Device({"loss": 1.0}), Device({"loss": 1.0}, error=True)])
def test_a_device_that_never_answers_loses_its_own_values_only(device: Device) -> None:
    reader = Reader()
    rows = reader.read([device_call(device, 1, lr=0.1), (NO_EPOCH, 0.0, 2, {"x": 1.0})], flush=True)
    assert sorted(row[0] for row in rows) == ["lr", "x"]
    assert reader.encoder.lost_values == 1


@pytest.mark.parametrize(
    ("call", "rows", "refused", "complaints"),
    [
        ((NO_EPOCH, 0.0, "later", {"x": 1.0}), [], 0, 1),
        ((NO_EPOCH, 0.0, 2**70, {"x": 1.0}), [], 0, 1),
        ((NO_EPOCH, 0.0, 3.0, {"x": 1.0}), [("x", -1, 3)], 0, 0),
        ((0.5, 0.0, 3, {"x": 1.0}), [], 0, 1),
        ((NO_EPOCH, 0.0, 3, {5: 1.0, "": 2.0}), [("5", -1, 3), ("unnamed", -1, 3)], 0, 0),
        ((NO_EPOCH, 0.0, 3, {"x": 10**400, "y": 1.0}), [("y", -1, 3)], 1, 0),
        ((NO_EPOCH, 0.0, 3, {"\ud800": 1.0}), [("?", -1, 3)], 0, 0),
    ],
)
def test_what_does_not_fit_is_put_right_or_said(call: Any, rows: Any, refused: int, complaints: int) -> None:
    reader = Reader()
    assert [row[:3] for row in reader.read([call, (NO_EPOCH, 0.0, 1, {"after": 1.0})])] == [*rows, ("after", -1, 1)]
    assert (len(reader.refused), len(reader.complaints)) == (refused, complaints)


def test_names_of_any_length_are_told_apart_and_no_frame_is_too_large() -> None:
    reader = Reader()
    names = ["n" * 20_000 + str(number) for number in range(200)]
    rows = reader.read([(NO_EPOCH, 0.0, 1, dict.fromkeys(names, 1.0))])
    assert len({row[0] for row in rows}) == 200
    assert len(reader.refused) == 200
    long = ["m" * 16_000 + str(number) for number in range(2_000)]
    assert len(reader.read([(NO_EPOCH, 0.0, 1, dict.fromkeys(long, 1.0))])) == 2_000


def test_a_name_too_many_is_said_and_the_others_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns_module, "MAX_SERIES", 3)
    reader = Reader()
    rows = reader.read([(NO_EPOCH, 0.0, i, {"loss": 1.0, f"x{i}": 2.0}) for i in range(4)])
    assert [row[0] for row in rows] == ["loss", "x0", "loss", "x1", "loss", "loss"]
    assert list(dict(reader.refused)) == ["x2", "x3"]
    assert reader.encoder.lost_values == 2


def test_a_lost_message_names_its_series_again() -> None:
    reader = Reader()
    (lost,) = reader.encoder.encode([(NO_EPOCH, 0.0, 1, {"a": 1.0})])
    assert isinstance(lost, Points)
    reader.encoder.announce_again(lost.defs)
    assert reader.read([(NO_EPOCH, 0.0, 2, {"a": 2.0})]) == [("a", -1, 2, 0.0, 2.0)]


def test_many_values_are_many_messages() -> None:
    messages = list(Reader().encoder.encode([(NO_EPOCH, 0.0, i, {"a": 1.0, "b": 2.0}) for i in range(100_000)]))
    widths = [len(message.value) // 8 for message in messages if isinstance(message, Points)]
    assert sum(widths) == 200_000
    assert max(widths) <= 65_538


def test_the_buffer_is_bounded_by_calls_and_by_values_and_counts_what_it_drops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffer_module, "LOOSE_VALUES", 0)
    monkeypatch.setattr(buffer_module, "MAX_CALLS", 10)
    monkeypatch.setattr(buffer_module, "MAX_VALUES", 50)
    narrow, wide = Buffer(), Buffer()
    for i in range(15):
        narrow.put((NO_EPOCH, 0.0, i, {"a": 1.0}), 1)
        wide.put((NO_EPOCH, 0.0, i, dict.fromkeys(map(str, range(20)), 1.0)), 20)
    assert (len(narrow.calls), narrow.dropped_values) == (10, 5)
    assert (len(wide.calls), wide.dropped_values) == (3, 240)
    assert len(narrow.take()) == 10
    assert narrow.take() == []


def test_the_bounds_hold_for_a_loop_that_is_too_quick_to_be_looked_at_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two hundred calls in a row, then one in five milliseconds, are looked at; from where it is tight on, each one is."""
    monkeypatch.setattr(buffer_module, "LOOSE_VALUES", 500)
    monkeypatch.setattr(buffer_module, "MAX_CALLS", 2_000)
    buffer = Buffer()
    for i in range(3_000):
        buffer.put((NO_EPOCH, i / 1e5, i, {"a": 1.0}), 1)
    kinds = [type(call) for call in buffer.calls]
    assert kinds.index(bytes) < 50 + buffer_module.COPIES_AHEAD + 1_000
    assert set(kinds[kinds.index(bytes) :]) == {bytes}
    assert len(kinds) + buffer.dropped_values == 3_000
    assert len(kinds) == 2_000
    assert Reader().read(buffer.take()) == [("a", -1, i, i / 1e5, 1.0) for i in range(2_000)]


def test_a_clock_that_is_set_back_leaves_no_call_unlooked_at_for_longer_than_a_turn() -> None:
    buffer, copied = Buffer(), []
    buffer.keep = copied.append
    for now in [300.0] * 300 + [0.0] * 5:
        buffer.put((NO_EPOCH, now, 1, {"a": 1.0}), 1)
    before = len(copied)
    buffer.heed_clock(0.1)
    buffer.put((NO_EPOCH, 0.1, 1, {"a": 1.0}), 1)
    assert (before, len(copied)) == (201, 202)


def test_numpy_reads_what_was_packed() -> None:
    (message,) = Reader().encoder.encode([(2, 1.0, 3, {"a": 0.5, "b": 1.5})])
    assert isinstance(message, Points)
    assert np.frombuffer(message.value, "<f8").tolist() == [0.5, 1.5]
    assert np.frombuffer(message.epoch, "<i4").tolist() == [2]
