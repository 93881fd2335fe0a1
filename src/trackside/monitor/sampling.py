"""The hardware, in a thread of its own; the driver in one more, so that a call that hangs silences nothing else."""

import logging
import os
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from trackside.wire import messages

if TYPE_CHECKING:
    from trackside.monitor.samplers import HostSampler, Patience, RankSampler

logger = logging.getLogger("trackside.monitor")

TICK_S = 0.25
SAMPLE_S = 2.0
RETRY_S = 5.0


def silence_notice() -> messages.Notice:
    """What is said when the driver has fallen silent."""
    text = "the NVIDIA driver does not answer; GPU figures are unknown until it does"
    return messages.Notice(time=time.time(), about="driver silent", text=text)


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
        self._is_admitted = False
        self._stop = threading.Event()
        self._introduced = threading.Event()
        self._thread = threading.Thread(target=self._run, name="trackside-sample", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Ask it to end; it is not waited for, since a driver call may hang. Idempotent."""
        self._stop.set()

    def settle(self, seconds: float) -> None:
        """Wait until what this process runs on was said, or cannot be. Blocks: up to `seconds`."""
        self._introduced.wait(seconds)

    def _run(self) -> None:
        try:
            while not self._work_if_possible():
                self._stop.wait(RETRY_S)
        except Exception:  # top of thread
            logger.debug("trackside: hardware is no longer sampled", exc_info=True)
        finally:
            self._introduced.set()

    def _work_if_possible(self) -> bool:
        """Sample to the end; False where this process has no descriptors for it now."""
        try:
            self._work()
        except (ImportError, OSError):
            logger.debug("trackside: hardware cannot be sampled now", exc_info=True)
            return self._stop.is_set()
        return True

    def _work(self) -> None:
        from trackside.monitor.samplers import Patience

        driver = Patience()
        try:
            self._sample(driver)
        finally:
            driver.close()

    def _sample(self, driver: "Patience") -> None:
        from trackside.monitor.samplers import HostSampler, RankSampler

        gpu = self._introduce(driver)
        rank = RankSampler(os.getpid(), self._local_rank, self._environ, driver=driver)
        host: HostSampler | None = None
        since = time.monotonic()
        while not self._stop.wait(TICK_S if rank.watches_gpus else SAMPLE_S):
            if self._sink.samples_host and host is None:
                host = HostSampler(os.curdir, driver=driver)
            rank.tick()
            if host is not None and self._sink.samples_host:
                host.tick()
            now = time.monotonic()
            if now - since >= SAMPLE_S - TICK_S / 2:
                self._take(rank, host if self._sink.samples_host else None, now - since)
                since = now
                self._admit(driver)
                if gpu is None and rank.gpu_uuid is not None:  # the driver answers late, or torch has told the device
                    gpu = self._introduce(driver)
            if not rank.watches_gpus:
                driver.close()  # its thread has nothing to wait for
        rank.close()
        if host is not None:
            host.close()

    def _introduce(self, driver: "Patience") -> str | None:
        """Say what this rank runs on; return the GPU's part."""
        from trackside.monitor.samplers import hardware_parts

        cpu, gpu = hardware_parts(self._environ, self._local_rank, driver)
        self._sink.send(messages.SetHardware(cpu=cpu, gpu=gpu))
        self._introduced.set()
        return gpu

    def _admit(self, driver: "Patience") -> None:
        """Say once that the driver has fallen silent; again when it does so again."""
        if driver.is_silent and not self._is_admitted:
            self._sink.send(silence_notice())
        self._is_admitted = driver.is_silent

    def _take(self, rank: "RankSampler", host: "HostSampler | None", interval_s: float) -> None:
        sample = messages.ResourceSample(
            time=time.time(),
            interval_seconds=interval_s,
            rank=rank.sample(),
            host=host.sample() if host is not None else None,
        )
        self.latest = sample
        self._sink.send(sample)
