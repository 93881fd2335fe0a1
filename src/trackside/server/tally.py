"""What the page's server counts of itself, and whom it may send away."""

from typing import Protocol


class GivesWay(Protocol):
    """A connection to which no answer is due."""

    def give_way(self) -> None:
        """End it for another one's sake."""
        ...


class Tally:
    """Shared by the connections and routes of one server.

    Threads: the event loop's only.
    """

    def __init__(self) -> None:
        self.connections = 0
        """Open now."""
        self.connections_refused = 0
        """There was no place for them."""
        self.requests_too_slow = 0
        """Connections whose next request did not come whole in time, or that gave way to others."""
        self.answers_unread = 0
        """Connections whose client stopped to read its answer."""
        self.charts_refused = 0
        """Chart questions that came while too many waited."""
        self.without_request: dict[GivesWay, None] = {}
        """Connections to which no answer is due, the longest first."""

    def counters(self) -> dict[str, int]:
        """For `/healthz`."""
        return {
            "http_connections": self.connections,
            "http_connections_refused": self.connections_refused,
            "http_requests_too_slow": self.requests_too_slow,
            "http_answers_unread": self.answers_unread,
            "chart_questions_refused": self.charts_refused,
        }
