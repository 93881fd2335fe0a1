"""Framing of server-sent events."""

PING = b": ping\n\n"
RETRY = b"retry: 1000\n\n"


def frame(event: str, identity: str, data: bytes) -> bytes:
    """One event with its id. `data` is JSON on one line, as msgspec writes it."""
    return b"id: %s\nevent: %s\ndata: %s\n\n" % (identity.encode("ascii"), event.encode("ascii"), data)


def plain_frame(event: str, data: bytes) -> bytes:
    """One event that a client cannot resume from."""
    return b"event: %s\ndata: %s\n\n" % (event.encode("ascii"), data)


def format_id(boot: str, number: int) -> str:
    """The id of an event: which start of the server, and its number there."""
    return f"{boot}-{number}"


def parse_id(text: str | None, boot: str) -> int | None:
    """The number in an event's id, or None when it is of another start of the server, or no id."""
    if not text:
        return None
    prefix, _, number = text.rpartition("-")
    if prefix != boot or not (number.isascii() and number.isdigit()) or len(number) > 18:
        return None
    return int(number)
