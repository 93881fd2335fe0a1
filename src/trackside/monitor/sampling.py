"""The hardware, in a thread of its own, so that a hung driver call silences nothing else."""

import logging
import os
import threading
import time
from collections.abc import Mapping
from typing import Protocol

from trackside.wire import messages

logger = logging.getLogger("trackside.monitor")

TICK_SECONDS = 0.25
SAMPLE_SECONDS = 2.0


class SampleSink(Protocol):
    """Where samples go."""

    @property
    def samples_host(self) -> bool: ...

    def send(self, message: messages.Upward) -> None: ...


class Sampling:
    """The thread `trackside-sample`."""

    def __init__(self, environ: Mapping[str, str], identity: messages.Identity, sink: SampleSink) -> None:
        self._environ, self._identity, self._sink = dict(environ), identity, sink
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="trackside-sample", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Ask it to end; it is not waited for, since a driver call may hang."""
        self._stop.set()

    def _run(self) -> None:
        try:
            self._work()
        except Exception:  # top of thread
            logger.debug("hardware is no longer sampled", exc_info=True)

    def _work(self) -> None:
        from trackside.monitor.samplers import HostSampler, RankSampler, hardware_parts

        local_rank = self._identity.local_rank
        cpu, gpu = hardware_parts(self._environ, local_rank)
        self._sink.send(messages.SetHardware(cpu=cpu, gpu=gpu))
        rank = RankSampler(os.getpid(), local_rank, self._environ)
        host: HostSampler | None = None
        last = time.monotonic()
        has_gpu = gpu is not None
        while not self._stop.wait(TICK_SECONDS if has_gpu else SAMPLE_SECONDS):
            if self._sink.samples_host and host is None:
                host = HostSampler(os.curdir)
            if has_gpu:
                rank.tick()
                if host is not None:
                    host.tick()
            now = time.monotonic()
            if now - last < SAMPLE_SECONDS - TICK_SECONDS / 2:
                continue
            is_sampling_host = host is not None and self._sink.samples_host
            self._sink.send(
                messages.ResourceSample(
                    time=time.time(),
                    interval_seconds=now - last,
                    rank=rank.sample(),
                    host=host.sample() if host is not None and is_sampling_host else None,
                )
            )
            last = now
        rank.close()
        if host is not None:
            host.close()
