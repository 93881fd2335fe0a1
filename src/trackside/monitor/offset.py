"""How far the controller's clock is from ours, by the exchange with the shortest round trip."""

from collections import deque

KEPT = 16
LONGEST_S = 60.0
SET_S = 0.5
"""Two exchanges that contradict each other by more than this: a clock was set between them."""


class ClockOffset:
    """Offset by NTP's formula over recent exchanges. Threads: one writes, any may read."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, float]] = deque(maxlen=KEPT)
        self.offset: float | None = None
        """Controller's wall clock minus ours, seconds; None before the first answer."""
        self.round_trip: float | None = None

    def take(self, sent_at: float, answered_at: float, received_at: float) -> None:
        """One exchange: our clock at sending, theirs at answering, ours at receiving."""
        round_trip = received_at - sent_at
        if not 0 <= round_trip < LONGEST_S:
            return  # our own clock was set meanwhile
        offset = answered_at - (sent_at + received_at) / 2
        if any(abs(offset - known) > (round_trip + other) / 2 + SET_S for other, known in self._samples):
            self._samples.clear()
        self._samples.append((round_trip, offset))
        self.round_trip, self.offset = min(self._samples)
