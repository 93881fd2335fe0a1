"""The hardware, in a thread of its own, so that a hung driver call silences nothing else."""

import logging
import os
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from trackside.wire import messages

if TYPE_CHECKING:
    from trackside.monitor.samplers import HostSampler, RankSampler

logger = logging.getLogger("trackside.monitor")

TICK_S = 0.25
SAMPLE_S = 2.0


class SampleSink(Protocol):
    """Where samples go, and who asked for the host's."""

    @property
    def samples_host(self) -> bool: ...

    def send(self, message: messages.Upward) -> None: ...


class Sampling:
    """The thread `trackside-sample`.

    Args:
        environ: For the visible devices.
        identity: Ours.
        sink: Gets the hardware summary once, then a sample every two seconds.
    """

    def __init__(self, environ: Mapping[str, str], identity: messages.Identity, sink: SampleSink) -> None:
        self.latest: messages.ResourceSample | None = None
        self._environ, self._local_rank, self._sink = dict(environ), identity.local_rank, sink
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="trackside-sample", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Ask it to end; it is not waited for, since a driver call may hang. Idempotent."""
        self._stop.set()

    def _run(self) -> None:
        try:
            self._work()
        except Exception:  # top of thread
            logger.debug("trackside: hardware is no longer sampled", exc_info=True)

    def _work(self) -> None:
        from trackside.monitor.samplers import HostSampler, RankSampler, hardware_parts

        cpu, gpu = hardware_parts(self._environ, self._local_rank)
        self._sink.send(messages.SetHardware(cpu=cpu, gpu=gpu))
        rank = RankSampler(os.getpid(), self._local_rank, self._environ)
        host: HostSampler | None = None
        since = time.monotonic()
        while not self._stop.wait(TICK_S if rank.watches_gpus else SAMPLE_S):
            if self._sink.samples_host and host is None:
                host = HostSampler(os.curdir)
            rank.tick()
            if host is not None and self._sink.samples_host:
                host.tick()
            now = time.monotonic()
            if now - since >= SAMPLE_S - TICK_S / 2:
                self._take(rank, host if self._sink.samples_host else None, now - since)
                since = now
        rank.close()
        if host is not None:
            host.close()

    def _take(self, rank: "RankSampler", host: "HostSampler | None", interval_s: float) -> None:
        sample = messages.ResourceSample(
            time=time.time(),
            interval_seconds=interval_s,
            rank=rank.sample(),
            host=host.sample() if host is not None else None,
        )
        self.latest = sample
        self._sink.send(sample)
