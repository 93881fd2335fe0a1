"""A client of the event stream, without a browser."""

from __future__ import annotations

import json
import socket
import threading
import urllib.request
from typing import Any


class Stream:
    """One client of the event stream; events lie in `events` as they come."""

    def __init__(self, url: str, path: str = "root", last: str | None = None) -> None:
        request = urllib.request.Request(f"{url}api/v1/stream?path={path}")
        if last:
            request.add_header("Last-Event-ID", last)
        self.events: list[tuple[str, Any]] = []
        self.last_id: str | None = None
        self.ended = threading.Event()
        self._answer = urllib.request.urlopen(request, timeout=20)
        self.headers = self._answer.headers
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        fields: dict[str, str] = {}
        try:
            for raw in self._answer:
                line = raw.decode().rstrip("\n")
                if line:
                    name, _, value = line.partition(": ")
                    fields[name] = value
                    continue
                if "event" in fields:
                    self.last_id = fields.get("id", self.last_id)
                    self.events.append((fields["event"], json.loads(fields["data"])))
                fields = {}
        except (OSError, ValueError):
            pass
        self.ended.set()

    def names(self) -> list[str]:
        return [name for name, _ in self.events]

    def latest(self, name: str) -> Any:
        """Data of the latest event of a name."""
        return next(data for known, data in reversed(list(self.events)) if known == name)

    def curve(self, metric: str = "loss") -> dict[int, float]:
        """What the stream said of a metric: step -> mean, the entry with the larger count kept."""
        best: dict[int, tuple[int, float]] = {}
        for name, data in list(self.events):
            update = data["metrics"].get(metric) if name == "points" else None
            for step, mean, count in (
                zip(*[update[key] for key in ("step", "mean", "count")], strict=True) if update else []
            ):
                if count >= best.get(step, (0, 0.0))[0]:
                    best[step] = (count, mean)
        return {step: mean for step, (_, mean) in sorted(best.items())}

    def close(self) -> None:
        sock = self._answer.fp.raw._sock if self._answer.fp else None
        if sock is not None:
            sock.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)
        self._answer.close()
