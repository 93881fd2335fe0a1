"""Documents as JSON text."""

import msgspec

_encoder = msgspec.json.Encoder()


def encode(document: object) -> bytes:
    """A document as JSON text on one line."""
    return _encoder.encode(document)
