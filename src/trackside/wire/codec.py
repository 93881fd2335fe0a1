"""Envelopes: decoded first, so that an unknown kind is skipped and a wrong version refused before a body is read."""

from typing import Annotated, Any, get_args

import msgspec

from trackside.errors import FrameTooLargeError, ProtocolError, VersionMismatchError
from trackside.wire import messages

PROTOCOL = 1
MAX_FRAME_BYTES = 16 * 1024 * 1024
MAX_SEQ = 2**40
"""A million frames a second for twelve days; a sender that is further on is none of ours."""


class Envelope(msgspec.Struct, frozen=True, array_like=True):
    """What is read of every frame before its body."""

    protocol: int
    kind: str
    seq: Annotated[int, msgspec.Meta(ge=0, le=MAX_SEQ)]
    """Position in the session's durable order, from 1; 0 for what is not acknowledged."""
    body: msgspec.Raw


def _kinds(union: Any) -> dict[str, type[messages.Message]]:
    return {str(cls.__struct_config__.tag): cls for cls in get_args(union)}


UPWARD = _kinds(messages.Upward)
DOWNWARD = _kinds(messages.Downward)

_encoder = msgspec.msgpack.Encoder()
_envelope_decoder = msgspec.msgpack.Decoder(Envelope)
_body_decoders = {kind: msgspec.msgpack.Decoder(cls) for kind, cls in {**UPWARD, **DOWNWARD}.items()}


def encode(message: messages.Message, seq: int = 0) -> bytes:
    """Return the frame of one message.

    Raises:
        FrameTooLargeError: more than 16 MiB.
    """
    kind = str(message.__struct_config__.tag)
    frame = _encoder.encode(Envelope(PROTOCOL, kind, seq, msgspec.Raw(_encoder.encode(message))))
    if len(frame) > MAX_FRAME_BYTES:
        raise FrameTooLargeError(f"a {kind} message of {len(frame):,} bytes; the wire takes {MAX_FRAME_BYTES:,}")
    return frame


def open_envelope(frame: bytes | memoryview) -> Envelope:
    """Read the envelope of one frame, not its body.

    Raises:
        FrameTooLargeError: more than 16 MiB.
        VersionMismatchError: another protocol version; names both.
        ProtocolError: anything else that is not an envelope.
    """
    if len(frame) > MAX_FRAME_BYTES:
        raise FrameTooLargeError(f"a frame of {len(frame):,} bytes; the wire takes {MAX_FRAME_BYTES:,}")
    try:
        envelope = _envelope_decoder.decode(frame)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ProtocolError(f"not a Trackside frame: {error}") from error
    if envelope.protocol != PROTOCOL:
        raise VersionMismatchError(
            f"the peer speaks protocol {envelope.protocol}, this side {PROTOCOL}; install the same trackside on both"
        )
    return envelope


def decode_body(envelope: Envelope) -> messages.Message | None:
    """Return the message inside, or None when its kind is not known here.

    Raises:
        ProtocolError: the body does not fit its kind.
    """
    decoder = _body_decoders.get(envelope.kind)
    if decoder is None:
        return None
    try:
        return decoder.decode(envelope.body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ProtocolError(f"a malformed {envelope.kind!r} message: {error}") from error
