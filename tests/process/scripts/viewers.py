"""Very many readers of one page: `viewers.py URL KIND COUNT SECONDS`; it ends with a line of what became of them."""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

Ask = Callable[[str], bytes]
STREAM = "api/v1/stream"


class Crowd:
    """Clients of one page, each on a connection of its own."""

    def __init__(self, url: str, count: int, seconds: float) -> None:
        parts = urlsplit(url)
        self.host, self.port = str(parts.hostname), int(parts.port or 80)
        self.count, self.seconds = count, seconds
        self.became: Counter[str] = Counter()
        self.writers: list[asyncio.StreamWriter] = []

    async def ask(self, path: str) -> tuple[asyncio.StreamReader, str]:
        """One request and the status of its answer."""
        reader, writer = await asyncio.open_connection(self.host, self.port, limit=4096)
        self.writers.append(writer)
        writer.write(f"GET /{path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        status = (await reader.readline()).split(b" ")
        return reader, status[1].decode() if len(status) > 1 else "ended"

    async def streams(self, number: int) -> None:
        """Reads all that comes."""
        reader, status = await self.ask(STREAM)
        self.became[status] += 1
        if status == "200":
            tail, seen = b"", False
            while piece := await reader.read(65_536):
                tail = tail[-20:] + piece
                if not seen and b"event: points" in tail:
                    seen = True
                    self.became["saw points"] += 1

    async def deaf(self, number: int) -> None:
        """Opens a stream and reads nothing of it."""
        _, writer = await asyncio.open_connection(self.host, self.port, limit=1024)
        self.writers.append(writer)
        writer.write(f"GET /{STREAM} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        self.became["deaf"] += 1
        await asyncio.sleep(self.seconds)

    async def slow(self, number: int) -> None:
        """Reads a hundred times slower than the stream flows."""
        reader, status = await self.ask(STREAM)
        self.became[status] += 1
        while await reader.read(256):  # noqa: ASYNC110 - it is meant to be slow
            await asyncio.sleep(0.5)

    async def halves(self, number: int) -> None:
        """Never gets to the end of its request."""
        reader, writer = await asyncio.open_connection(self.host, self.port)
        self.writers.append(writer)
        for letter in f"GET /{'x' * 1000}":
            writer.write(letter.encode())
            await asyncio.sleep(0.2)
        await reader.read()

    async def charts(self, number: int) -> None:
        """A different large question each."""
        _, status = await self.ask(f"api/v1/series?metric=calm&points=10000&from={-number}")
        self.became[status] += 1

    async def giants(self, number: int) -> None:
        """Questions without measure."""
        asked = (
            f"api/v1/series?metric=calm&points={'9' * 1000}",
            f"api/v1/series?metric=calm&path={'root/' * 5000}",
            f"api/v1/heat?path={'x' * 60_000}",
            f"api/v1/stream?path={'y' * 60_000}",
            f"{'z' * 1_000_000}",
        )
        _, status = await self.ask(asked[number % len(asked)])
        self.became[status] += 1

    async def run(self, kind: str) -> None:
        """All at once, for a while."""

        async def one(number: int) -> None:
            each: Callable[[int], Awaitable[None]] = getattr(self, kind)
            try:
                await each(number)
            except (OSError, asyncio.IncompleteReadError):
                self.became["ended"] += 1

        tasks = [asyncio.create_task(one(number)) for number in range(self.count)]
        await asyncio.wait(tasks, timeout=self.seconds)
        for task in tasks:
            task.cancel()
        for writer in self.writers:
            writer.transport.abort()


if __name__ == "__main__":
    url, kind, count, seconds = sys.argv[1:]
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    crowd = Crowd(url, int(count), float(seconds))
    asyncio.run(crowd.run(kind))
    print(json.dumps(crowd.became), flush=True)
