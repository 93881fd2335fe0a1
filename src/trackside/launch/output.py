"""The ranks' own output: every line whole, live, with the rank in front.

A rank writes into an anonymous file in memory. Unlike a pipe it never makes the rank wait for a stopped terminal, and
never breaks under the rank when the launcher is killed; unlike a file on disk it cannot fill one. What has been shown
is given back to the kernel.
"""

import ctypes
import logging
import os
import threading
import time
from dataclasses import dataclass, field

_logger = logging.getLogger("trackside.launch")

_POLL_S = 0.04
_CHUNK_BYTES = 1 << 18
_RELEASE_BYTES = 1 << 20
_LONGEST_LINE_BYTES = 1 << 16
_BACKLOG_BYTES = 64 << 20
"""Beyond this a terminal that does not take lines costs lines, said so, and not memory without end."""
_PROGRESS_S = 1.0
"""How often a line that is rewritten with carriage returns (a progress bar) is shown."""
_PUNCH_HOLE_KEEP_SIZE = 0x03


class RankStream:
    """One stream of one rank: the file it writes, and how far it has been shown.

    Args:
        prefix: In front of every line, `[host:r3] `.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix.encode()
        self._fd: int | None = os.memfd_create(f"trackside{prefix.strip()}", os.MFD_CLOEXEC)
        self._offset = 0
        self._released = 0
        self._partial = b""
        self._progress_at = 0.0

    @property
    def path(self) -> str:
        """Where the rank opens it; good in every process of the same user while the launcher lives."""
        return f"/proc/{os.getpid()}/fd/{self._fd}"

    def read(self, now: float, last: bool = False) -> bytes:
        """Return what is new as whole lines, prefixed.

        Args:
            now: Monotonic seconds.
            last: Nothing more will come: what has no line end gets one.
        """
        if self._fd is None:
            return b""
        shown: list[bytes] = []
        skipped = self._skip()
        if skipped:
            shown.append(self._prefix + f"({skipped:,} bytes of output were not shown)\n".encode())
        while chunk := os.pread(self._fd, _CHUNK_BYTES, self._offset):
            self._offset += len(chunk)
            *lines, self._partial = (self._partial + chunk).split(b"\n")
            shown += [self._prefix + _last_rewrite(line) + b"\n" for line in lines]
            if len(self._partial) > _LONGEST_LINE_BYTES:
                shown.append(self._cut())
        if self._partial and (last or self._progress_is_due(now)):
            self._progress_at = now
            shown.append(self._cut())
        self._release()
        return b"".join(shown)

    def close(self) -> None:
        """Forget the file; a process that still writes it may go on. Idempotent."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _progress_is_due(self, now: float) -> bool:
        return b"\r" in self._partial and now - self._progress_at >= _PROGRESS_S

    def _cut(self) -> bytes:
        line, self._partial = _last_rewrite(self._partial), b""
        return self._prefix + line + b"\n" if line else b""

    def _skip(self) -> int:
        backlog = os.fstat(self._fd or 0).st_size - self._offset
        if backlog <= _BACKLOG_BYTES:
            return 0
        self._offset += backlog - _CHUNK_BYTES
        self._partial = b""
        return backlog - _CHUNK_BYTES

    def _release(self) -> None:
        end = self._offset - self._offset % 4096
        if self._fd is None or end - self._released < _RELEASE_BYTES:
            return
        _punch_hole(self._fd, self._released, end - self._released)
        self._released = end


@dataclass(slots=True)
class _Lane:
    """All ranks' streams that go to one descriptor."""

    descriptor: int
    streams: list[RankStream] = field(default_factory=list)
    ended: list[RankStream] = field(default_factory=list)
    broken: bool = False


class RankOutput:
    """Shows all ranks' output, stdout on stdout and stderr on stderr, each on a thread of its own.

    Args:
        stdout: Descriptor for the ranks' standard output.
        stderr: The same for their standard error; the launcher's own lines go there too, through `say`.
    """

    def __init__(self, stdout: int = 1, stderr: int = 2) -> None:
        self._lanes = (_Lane(stdout), _Lane(stderr))
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(lane,), name="trackside-output", daemon=True)
            for lane in self._lanes
        ]
        self._started = False

    def open(self, prefix: str, to_stderr: bool) -> str:
        """Return the path a rank's stream is to be opened at."""
        stream = RankStream(prefix)
        with self._lock:
            self._lanes[to_stderr].streams.append(stream)
            if not self._started:
                self._started = True
                for thread in self._threads:
                    thread.start()
        return stream.path

    def end_generation(self) -> None:
        """The present ranks have ended: show the rest of what they wrote, then forget their files."""
        with self._lock:
            for lane in self._lanes:
                lane.ended += lane.streams
                lane.streams = []

    def close(self, deadline_s: float = 5.0) -> None:
        """Show what is left. Idempotent. Blocks: up to `deadline_s`, when the terminal takes nothing."""
        self.end_generation()
        self._stop.set()
        end = time.monotonic() + deadline_s
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(0.0, end - time.monotonic()))

    def _run(self, lane: _Lane) -> None:
        try:
            while not self._stop.is_set():
                self._show(lane)
                self._stop.wait(_POLL_S)
            self._show(lane)
        except Exception:  # top of thread
            _logger.exception("the ranks' output is no longer shown")

    def _show(self, lane: _Lane) -> None:
        with self._lock:
            live, ended, lane.ended = list(lane.streams), lane.ended, []
        now = time.monotonic()
        for stream in live:
            self._write(lane, stream.read(now))
        for stream in ended:
            self._write(lane, stream.read(now, last=True))
            stream.close()

    def _write(self, lane: _Lane, text: bytes) -> None:
        while text and not lane.broken:
            try:
                text = text[os.write(lane.descriptor, text) :]
            except BlockingIOError:
                time.sleep(_POLL_S)
            except OSError:  # the reader has gone (`trackside run … | head`); the training goes on
                lane.broken = True


def _last_rewrite(line: bytes) -> bytes:
    """Return what a terminal would show at last of a line that was rewritten with carriage returns."""
    if b"\r" not in line:
        return line
    rewrites = [part for part in line.split(b"\r") if part.strip()]
    return rewrites[-1] if rewrites else b""


def _punch_hole(descriptor: int, offset: int, length: int) -> None:
    """Give a part of a file back; where the kernel cannot, memory is held until the rank ends."""
    try:
        fallocate = ctypes.CDLL(None).fallocate
    except (OSError, AttributeError):
        return
    fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    fallocate(descriptor, _PUNCH_HOLE_KEEP_SIZE, offset, length)
