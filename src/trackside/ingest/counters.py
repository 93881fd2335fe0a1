"""What ingest counts; shown on `/healthz` and on the page."""

import msgspec


class Counters(msgspec.Struct):
    """Running totals since the run began (they survive a restart of the controller)."""

    frames: int = 0
    """Frames taken."""
    values: int = 0
    """Values taken."""
    frames_duplicate: int = 0
    """Frames that a session sent again and that were known."""
    frames_ahead: int = 0
    """Frames that came before one that is still missing; asked for again."""
    frames_held: int = 0
    """Times that a session was told to keep what it has, since there was no room for it."""
    frames_skipped: int = 0
    """Sequence numbers a sender never delivered."""
    frames_malformed: int = 0
    frames_unknown_kind: int = 0
    frames_before_hello: int = 0
    frames_refused: int = 0
    """Frames of other runs, other versions, or sessions that were not let in."""
    peers_refused: int = 0
    """Connections with a wrong key."""
    handshakes_failed: int = 0
    """Connections to the link's port that never got as far: not ZeroMQ, no key at all, another controller's."""
    values_over_name_limit: int = 0
    """Values of metric names beyond the limit."""
    values_without_definition: int = 0
    """Values whose series the session never named."""
    replies_undelivered: int = 0
