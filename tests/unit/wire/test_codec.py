"""Frames: round trips, refusals by name, and bytes that nobody meant as a frame."""

import contextlib
import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.errors import FrameTooLargeError, ProtocolError, TracksideError, VersionMismatchError
from trackside.wire import codec, messages


def test_a_message_survives_the_wire_with_its_sequence() -> None:
    event = messages.UserEvent(time=1.5, title="resumed", text="from checkpoint 900", level="critical")
    envelope = codec.open_envelope(codec.encode(event, seq=7))
    assert (envelope.kind, envelope.seq, codec.decode_body(envelope)) == ("event", 7, event)


def test_every_kind_has_a_name_of_its_own() -> None:
    assert len(codec.UPWARD) == 20
    assert len(codec.DOWNWARD) == 6
    assert not set(codec.UPWARD) & set(codec.DOWNWARD)


def test_non_finite_values_cross_unchanged() -> None:
    report = messages.EpochReport(epoch=1, metrics={"nan": math.nan, "inf": math.inf, "neg": -math.inf})
    back = codec.decode_body(codec.open_envelope(codec.encode(report)))
    assert isinstance(back, messages.EpochReport)
    assert math.isnan(back.metrics["nan"])
    assert (back.metrics["inf"], back.metrics["neg"]) == (math.inf, -math.inf)


def test_an_unknown_kind_is_skipped() -> None:
    frame = msgspec.msgpack.encode([codec.PROTOCOL, "from the future", 4, {"a": 1}])
    assert codec.decode_body(codec.open_envelope(frame)) is None


def test_a_wrong_version_is_refused_by_name() -> None:
    frame = msgspec.msgpack.encode([codec.PROTOCOL + 1, "ack", 0, {}])
    with pytest.raises(VersionMismatchError, match=f"protocol {codec.PROTOCOL + 1}, this side {codec.PROTOCOL}"):
        codec.open_envelope(frame)


def test_more_than_the_cap_is_refused_on_both_sides() -> None:
    with pytest.raises(FrameTooLargeError, match="16,777,216"):
        codec.encode(messages.SetMetadata(text="x" * codec.MAX_FRAME_BYTES))
    with pytest.raises(FrameTooLargeError):
        codec.open_envelope(bytes(codec.MAX_FRAME_BYTES + 1))


def test_a_body_that_does_not_fit_its_kind_says_so() -> None:
    frame = msgspec.msgpack.encode([codec.PROTOCOL, "epoch", 1, {"kind": "epoch", "epoch": "three"}])
    with pytest.raises(ProtocolError, match="malformed 'epoch' message"):
        codec.decode_body(codec.open_envelope(frame))


def test_a_nesting_bomb_is_an_error_and_no_crash() -> None:
    bomb = b"\x94\x01\xa5event\x00" + b"\x91" * 2_000_000
    with pytest.raises(ProtocolError):
        codec.decode_body(codec.open_envelope(bomb))


@given(st.binary(max_size=200))
def test_random_bytes_raise_nothing_but_our_own(frame: bytes) -> None:
    with contextlib.suppress(TracksideError):
        codec.decode_body(codec.open_envelope(frame))
