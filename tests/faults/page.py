"""The page as a browser keeps it open: it follows the stream, and begins again where that breaks off."""

from __future__ import annotations

import threading
from typing import Any

from tests.process.job import wait_for
from tests.process.stream import Stream


class OpenPage:
    """What one open page knows.

    Args:
        url: Of the page, with its slash.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._streams: list[Stream] = []
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="open page", daemon=True)
        self._thread.start()
        wait_for(lambda: self.run, 30, "the page")

    def _follow(self) -> None:
        while not self._closed.is_set():
            try:
                stream = Stream(self._url)
            except OSError:
                self._closed.wait(0.1)
                continue
            self._streams.append(stream)
            while not (self._closed.is_set() or stream.ended.wait(0.1)):
                pass
            stream.close()

    def _events(self) -> list[tuple[str, Any]]:
        return [event for stream in list(self._streams) for event in list(stream.events)]

    @property
    def run(self) -> dict[str, Any]:
        """The run document, as the page knows it; empty before it knows one."""
        return next((data for name, data in reversed(self._events()) if name in ("run", "complete")), {})

    @property
    def events(self) -> list[dict[str, Any]]:
        """Every event, in its last form."""
        return list({data["id"]: data for name, data in self._events() if name == "event"}.values())

    @property
    def is_complete(self) -> bool:
        """Whether it was told that the run is over."""
        return any(name == "complete" for name, _ in self._events())

    def ending(self) -> tuple[str, str | None]:
        """State and detail of the run's end."""
        wait_for(lambda: self.is_complete, 20, "the page is told that the run is over")
        return self.run["state"], self.run["state_detail"]

    def states(self) -> list[str]:
        """States of rank 0, in the order in which they were seen, without repeats."""
        seen = [data[0]["state"] for name, data in self._events() if name == "ranks" and data]
        return [state for at, state in enumerate(seen) if at == 0 or state != seen[at - 1]]

    def steps(self, metric: str) -> set[int]:
        """Steps of a metric that it has shown."""
        return {step for stream in list(self._streams) for step in stream.curve(metric)}

    def close(self) -> None:
        """Idempotent."""
        self._closed.set()
        self._thread.join(10)
