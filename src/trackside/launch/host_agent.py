"""The host's agent: tells the controller which ranks started and ended, that they live, and what they use."""

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from trackside.launch.workers import Exit, Worker, WorkerWatch
from trackside.monitor.samplers import HostSampler, Patience, RankSampler
from trackside.wire import messages

_logger = logging.getLogger("trackside.launch")

_ALIVE_S = 1.0
_WATCH_S = 0.1
_TICK_S = 0.25
_SAMPLE_S = 2.0
_LAST_EXITS_S = 1.0
"""How long the end of the job waits for exits nobody has recorded yet."""


class AgentLink(Protocol):
    """The agent's end of the link to the controller; `send` never waits for it."""

    samples_host: bool
    """Whether the controller wants this host's sample from us."""
    spared_ranks: frozenset[int]
    """Ranks that sample themselves, or want it not at all."""

    def send(self, message: messages.Upward) -> None: ...

    def inherit(self, pid: int) -> None:
        """Deliver what this process, which has ended, left undelivered."""
        ...

    def close(self, deadline_s: float) -> bool:
        """Deliver what is left, bounded; whether all of it arrived."""
        ...


class HostAgent:
    """Watches this host's ranks from the launcher.

    `trackside-agent` follows the processes, `trackside-agent-sample` reads the hardware, where a driver may hang.

    Args:
        connect: Opens the link; None when there is no controller. Called once, in our own thread.
        directory: On the file system whose space is reported.
        environ: The launcher's environment, which the ranks inherit.

    Threads: any may call.
    """

    def __init__(self, connect: Callable[[], AgentLink | None], directory: Path, environ: Mapping[str, str]) -> None:
        self._connect = connect
        self._directory = directory
        self._environ = environ
        self._link: AgentLink | None = None
        self._arrivals: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        self._watch = WorkerWatch()
        self._generation = 0
        self._restarting = False
        self._first_failure: tuple[int, Exit] | None = None
        self._running: tuple[Worker, ...] = ()
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._follow, name="trackside-agent", daemon=True),
            threading.Thread(target=self._sample, name="trackside-agent-sample", daemon=True),
        ]

    def start(self) -> None:
        """Begin. Blocks: never."""
        for thread in self._threads:
            thread.start()

    def workers_started(self, workers: list[Worker]) -> None:
        """A generation's ranks run. Blocks: never."""
        for worker in workers:
            self._arrivals.put(worker)

    def generation_ending(self) -> None:
        """The launcher ends the ranks that still run, to start all again. Blocks: never."""
        self._restarting = True

    def stopping(self, signal: str) -> None:
        """A signal ends the job: what the ranks come to now is no failure. Blocks: never."""
        if self._link is not None:
            self._link.send(messages.JobEnded(time=time.time(), signal=signal))

    def first_failure(self) -> Exit | None:
        """How the first rank ended, of the last generation, that did not end well; None while none has."""
        failure = self._first_failure
        return failure[1] if failure and failure[0] == self._generation else None

    def settle(self) -> None:
        """Wait for exits that are still on their way. Blocks: up to 3 s, less when all are known."""
        self._stop.set()
        self._threads[0].join(_LAST_EXITS_S + 2 * _WATCH_S + 2)

    def end(self, exit_code: int | None, signal: str | None, deadline_s: float = 5.0) -> None:
        """Say how the job ended and let the link go. Idempotent. Blocks: up to `deadline_s`."""
        link, self._link = self._link, None
        if link is not None:
            now = time.time()
            if signal is not None:
                exit_code = None
            link.send(messages.JobEnded(time=now, exit_code=exit_code, signal=signal))
            link.send(messages.Goodbye(time=now))
            link.close(deadline_s)

    def _follow(self) -> None:
        try:
            self._link = self._connect()
            alive_at = 0.0
            while not self._stop.is_set():
                self._take_arrivals()
                self._take_exits(_WATCH_S)
                if time.monotonic() >= alive_at and self._running:
                    alive_at = time.monotonic() + _ALIVE_S
                    self._send(_alive(self._running))
            self._take_last()
        except Exception:  # top of thread
            _logger.exception("the launcher no longer reports on its ranks")

    def _take_arrivals(self) -> None:
        while not self._arrivals.empty():
            worker = self._arrivals.get()
            self._generation = max(self._generation, worker.identity.generation)
            self._watch.add(worker)
            self._restarting = False
            self._send(messages.WorkerStarted(identity=worker.identity, pid=worker.pid, time=time.time()))
        self._running = tuple(self._watch.running())

    def _take_exits(self, timeout_s: float) -> None:
        for worker, ended in self._watch.wait(timeout_s):
            identity = worker.identity
            if self._link is not None:
                self._link.inherit(worker.pid)
            if ended.exit_code != 0 and (not self._first_failure or self._first_failure[0] < identity.generation):
                self._first_failure = (identity.generation, ended)
            self._send(
                messages.WorkerExited(
                    rank=identity.rank,
                    generation=identity.generation,
                    time=time.time(),
                    exit_code=ended.exit_code,
                    signal=ended.signal,
                    for_restart=self._restarting and ended.signal == "SIGTERM",
                )
            )

    def _take_last(self) -> None:
        deadline = time.monotonic() + _LAST_EXITS_S
        self._take_arrivals()
        while self._watch.running() and (left_s := deadline - time.monotonic()) > 0:
            self._take_exits(min(left_s, _WATCH_S))
        self._watch.close()

    def _send(self, message: messages.Upward) -> None:
        if self._link is not None:
            self._link.send(message)

    def _sample(self) -> None:
        try:
            self._sample_until_stopped()
        except Exception:  # top of thread
            _logger.exception("the launcher no longer samples its host")

    def _sample_until_stopped(self) -> None:
        driver = Patience()
        host: HostSampler | None = None
        ranks: dict[int, RankSampler] = {}
        since, due = time.monotonic(), time.monotonic() + _SAMPLE_S
        while not self._stop.wait(_TICK_S):
            link = self._link
            if link is None:  # nobody could use it
                since, due = time.monotonic(), time.monotonic() + _SAMPLE_S
                continue
            running = tuple(worker for worker in self._running if worker.identity.rank not in link.spared_ranks)
            _follow_ranks(ranks, running, self._environ, driver)
            if link.samples_host:
                host = host or HostSampler(self._directory, driver=driver)
                host.tick()
                if not host.watches_gpus:
                    driver.close()  # its thread has nothing to wait for
            for sampler in ranks.values():
                sampler.tick()
            now = time.monotonic()
            if now >= due:
                _send_samples(link, host, ranks, running, now - since)
                since, due = now, max(now, due + _SAMPLE_S)
        _follow_ranks(ranks, (), self._environ, driver)
        if host is not None:
            host.close()
        driver.close()


def _send_samples(
    link: AgentLink,
    host: HostSampler | None,
    ranks: Mapping[int, RankSampler],
    running: tuple[Worker, ...],
    interval_s: float,
) -> None:
    now = time.time()
    if host is not None and link.samples_host:
        link.send(messages.ResourceSample(time=now, interval_seconds=interval_s, host=host.sample()))
    for worker in running:
        sampler = ranks.get(worker.pid)
        if sampler is None:
            continue
        sample = sampler.sample()
        if sample.memory is not None:
            number = worker.identity.rank
            link.send(messages.ResourceSample(time=now, interval_seconds=interval_s, rank=sample, of_rank=number))


def _alive(running: tuple[Worker, ...]) -> messages.WorkerAlive:
    latest = max(worker.identity.generation for worker in running)
    ranks = [worker.identity.rank for worker in running if worker.identity.generation == latest]
    return messages.WorkerAlive(ranks=ranks, generation=latest)


def _follow_ranks(
    samplers: dict[int, RankSampler], running: tuple[Worker, ...], environ: Mapping[str, str], driver: Patience
) -> None:
    """One sampler for each process that runs."""
    for pid in set(samplers) - {worker.pid for worker in running}:
        samplers.pop(pid).close()
    for worker in running:
        if worker.pid not in samplers:
            seen = {**environ, **worker.environ}
            local_rank = int(seen.get("LOCAL_RANK", worker.identity.local_rank))
            samplers[worker.pid] = RankSampler(worker.pid, local_rank, seen, driver=driver)
