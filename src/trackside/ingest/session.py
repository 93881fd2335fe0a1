"""One session: one link of one process."""

import msgspec

from trackside.wire.ids import is_possible_rank
from trackside.wire.messages import Hello, Identity

ASK_AGAIN_S = 2.0
"""How long frames that leave a gap are refused, waiting for what is missing, before the gap is believed."""
HELD_S = 30.0
"""The same after a frame that there was no room for: its sender has it, and all that is between."""


class Session(msgspec.Struct):
    """What the controller keeps of one link; part of a checkpoint."""

    role: str
    rank: int
    """Global rank; -1 for an agent."""
    generation: int
    host: str
    highest_seq: int = 0
    """Highest sequence taken; what is not above it is known."""
    series: dict[int, int] = {}
    """The session's series id -> the run's metric id, -1 for a name that was not taken."""
    live: bool = False
    """Whether it has said hello to this process of the controller; after a restart it has not. Only then is it known to
    send again what the old process did not make durable."""
    greeted: bool = False
    """Whether the next sequenced frame may follow a gap: the sender has just begun to send again."""
    gap_since: float | None = None
    """Arrival time of the first frame that left the present gap."""
    due: int = 0
    """Sequence of the frame that there was no room for; 0: there is none. It comes again, and all that follows it."""
    is_held: bool = False
    """Whether it has not been asked for yet."""

    def greet(self) -> None:
        """It begins to send what is not durable."""
        self.live = True
        self.expect(greeted=True)

    def expect(self, *, greeted: bool = False) -> None:
        """Nothing is missing as of now."""
        self.greeted, self.gap_since, self.due, self.is_held = greeted, None, 0, False

    def hold(self, seq: int) -> None:
        """There is no room for this frame."""
        self.expect()
        self.due, self.is_held = seq, True

    @property
    def patience_s(self) -> float:
        """How long what is missing is waited for."""
        return HELD_S if self.due else ASK_AGAIN_S

    def take_identity(self, hello: Hello) -> None:
        """Who it is, which a process may learn late."""
        if (identity := _identity(hello)) is not None:
            self.rank, self.generation = identity.rank, identity.generation

    @property
    def path(self) -> str:
        """How messages about it name it."""
        return self.host if self.rank < 0 else f"{self.host} rank {self.rank}"


def open_session(hello: Hello) -> Session:
    """A new session from its first frame."""
    identity = _identity(hello)
    return Session(
        role=hello.role,
        rank=-1 if identity is None else identity.rank,
        generation=0 if identity is None else identity.generation,
        host=hello.host.host,
        live=True,
        greeted=True,
    )


def _identity(hello: Hello) -> Identity | None:
    """Who it says it is; None for an agent, and for what no job can have (the run state says that it was refused)."""
    told = hello.identity
    return told if told is not None and is_possible_rank(told.rank, told.world_size, told.generation) else None
