"""A bad network between ranks and their controller: a TCP relay on loopback that breaks by verbs."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable

CHUNK_BYTES = 16_384
RECORDED_BYTES = 1_000_000


class BadLink:
    """Relays connections to `port` until a verb says otherwise. Listens on loopback at `.port`.

    Every verb returns at once, holds for connections that exist and for later ones, and is undone by `heal`.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self._delay_s = 0.0
        self._pause_s_per_byte = 0.0
        self._is_cut = self._is_black = False
        self._spoil: Callable[[bytes], list[bytes] | None] | None = None
        self._held: bytes | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.connections = 0
        """How many were accepted."""
        self.relayed_bytes = 0
        self.recorded = b""
        """What has come from the first connection, its handshake first; at most a megabyte."""
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="bad link", daemon=True)
        self._thread.start()
        assert self._ready.wait(10)

    # --- verbs -------------------------------------------------------------------------------------------------------

    def cut(self) -> None:
        """Close every connection and refuse new ones."""
        self._do(self._cut)

    def reset(self) -> None:
        """End every connection by RST; new ones are welcome."""
        self._do(lambda: self._end(abrupt=True))

    def blackhole(self) -> None:
        """Keep connections open, deliver nothing, in either direction; what is sent meanwhile is gone."""
        self._do(lambda: setattr(self, "_is_black", True))

    def delay(self, seconds: float) -> None:
        """Hold each chunk back."""
        self._do(lambda: setattr(self, "_delay_s", seconds))

    def narrow(self, bytes_per_second: float) -> None:
        """Let no more than this through."""
        self._do(lambda: setattr(self, "_pause_s_per_byte", 1 / bytes_per_second))

    def truncate(self) -> None:
        """Deliver half of the next chunk, then end its connection."""
        self._do(lambda: setattr(self, "_spoil", lambda chunk: None))

    def duplicate(self) -> None:
        """Deliver the next chunk twice."""
        self._do(lambda: setattr(self, "_spoil", lambda chunk: [chunk, chunk]))

    def corrupt(self) -> None:
        """Turn over bits of the next chunk."""
        self._do(lambda: setattr(self, "_spoil", lambda chunk: [bytes(b ^ 0x55 for b in chunk)]))

    def reorder(self) -> None:
        """Deliver the two halves of the next chunk the wrong way round."""
        self._do(lambda: setattr(self, "_spoil", lambda chunk: [chunk[len(chunk) // 2 :], chunk[: len(chunk) // 2]]))

    def heal(self) -> None:
        """Be a good network again. Connections that a black hole has robbed of bytes are reset."""
        self._do(self._heal)

    def close(self) -> None:
        """Idempotent."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(10)

    # --- on the loop -------------------------------------------------------------------------------------------------

    def _do(self, verb: Callable[[], None]) -> None:
        done = threading.Event()
        self._loop.call_soon_threadsafe(lambda: (verb(), done.set()))
        assert done.wait(10)

    def _cut(self) -> None:
        self._is_cut = True
        self._end(abrupt=False)

    def _heal(self) -> None:
        was_black, self._is_cut, self._is_black = self._is_black, False, False
        self._delay_s = self._pause_s_per_byte = 0.0
        self._spoil = None
        if was_black:
            self._end(abrupt=True)

    def _end(self, *, abrupt: bool) -> None:
        for writer in list(self._writers):
            self._drop(writer, abrupt=abrupt)

    def _drop(self, writer: asyncio.StreamWriter, *, abrupt: bool) -> None:
        self._writers.discard(writer)
        peer = writer.get_extra_info("socket")
        if abrupt and peer is not None and peer.fileno() >= 0:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort() if abrupt else writer.close()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._accept, "127.0.0.1", 0))
        self.port: int = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        self._end(abrupt=True)
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            self._loop.run_until_complete(asyncio.gather(*asyncio.all_tasks(self._loop), return_exceptions=True))
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.close()
            return
        self.connections += 1
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.close()
            return
        self._writers |= {writer, far_writer}
        is_first = self.connections == 1
        await asyncio.gather(self._relay(reader, far_writer, records=is_first), self._relay(far_reader, writer))
        for end in (writer, far_writer):
            self._drop(end, abrupt=False)

    async def _relay(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, records: bool = False
    ) -> None:
        with contextlib.suppress(OSError):
            while chunk := await reader.read(CHUNK_BYTES):
                if records and len(self.recorded) < RECORDED_BYTES:
                    self.recorded += chunk
                if self._delay_s:
                    await asyncio.sleep(self._delay_s)
                if self._pause_s_per_byte:
                    await asyncio.sleep(len(chunk) * self._pause_s_per_byte)
                if self._is_black:
                    continue
                if not await self._deliver(chunk, writer):
                    break
        self._drop(writer, abrupt=False)

    async def _deliver(self, chunk: bytes, writer: asyncio.StreamWriter) -> bool:
        """False when the connection has been spoilt for good."""
        spoil, self._spoil = self._spoil, None
        pieces = spoil(chunk) if spoil is not None else [chunk]
        for piece in pieces if pieces is not None else [chunk[: len(chunk) // 2]]:
            writer.write(piece)
            self.relayed_bytes += len(piece)
        await writer.drain()
        return pieces is not None
