"""torch's elastic agent, observed. The one file of ours that touches torch.

What is leaned on, of torch 2.13: `torch.distributed.run.run(args)` does all that torchrun does and builds
`launcher.api.LocalElasticAgent` by that name; the agent calls `_rendezvous` and `_start_workers` (which every agent has
to define) for each generation, `_restart_workers` for all but the first, and `_shutdown` while it handles the
`SignalException` that a signal to it has become; a `LogsSpecs` is asked, in `reify(envs)`, where each rank's streams go, and may add to
each rank's environment. The name is replaced by a subclass in this process, which is ours; no rank notices.
"""

import logging
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, Protocol

from torch.distributed import run as torchrun
from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from torch.distributed.elastic.multiprocessing import LogsSpecs, SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, record
from torch.distributed.launcher import api

from trackside.launch.workers import Worker
from trackside.wire.messages import Identity

_logger = logging.getLogger("trackside.launch")

_LAUNCHER: Any = api
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


class Observer(Protocol):
    """Who follows the agent. Called in its thread, the main one; returns at once but for `rendezvoused`."""

    def rendezvoused(self, store: Any, group_rank: int, group_size: int) -> None:
        """The hosts of a generation have found each other; blocks for some seconds at most."""
        ...

    @property
    def generation(self) -> int:
        """Of the ranks that are started next; grows with every rendezvous, which torch's own count of restarts does not."""
        ...

    def environment(self) -> Mapping[str, str]:
        """What every rank gets in its environment."""
        ...

    def stream_path(self, rank: int, to_stderr: bool) -> str:
        """Where a rank's stream goes that would go to the terminal."""
        ...

    def generation_ending(self) -> None:
        """The ranks that still run are going to be ended, so that all can be started again."""
        ...

    def stopping(self, signal: str, *, at_once: bool) -> None:
        """The launcher got a signal, and is going to pass it on to all ranks; `at_once`: the second Ctrl-C, and kill them."""
        ...

    def generation_ended(self) -> None:
        """No rank runs; the next are started soon."""
        ...

    def workers_started(self, workers: list[Worker]) -> None:
        """A generation's ranks run."""
        ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the job ended."""

    exit_code: int = 0
    """As torch has it: of the first rank that failed; 128 + N for a signal; 0."""
    signal: str | None = None
    """The signal that ended the launcher."""
    error: str | None = None
    """What went wrong, for people, when it was no rank."""


def run_elastic(arguments: Any, observer: Observer, line_prefix: str) -> Outcome:
    """Run the whole job; return how it ended.

    Args:
        arguments: Torchrun's own namespace.
        observer: Follows the agent.
        line_prefix: For streams that torch itself shows (`--tee`), in torch's template words.

    Threads: the main one, since torch handles signals.
    """
    with _signals_raise(), _observed(observer, line_prefix):
        try:
            record(torchrun.run)(arguments)
        except ChildFailedError as error:
            _, failure = error.get_first_failure()
            return Outcome(exit_code=_shell_code(failure.exitcode))
        except SignalException as error:
            return Outcome(exit_code=128 + error.sigval, signal=error.sigval.name)
        except (RuntimeError, OSError, ValueError, AssertionError) as error:  # torch's own: rendezvous, options, spawn
            _logger.debug("the elastic agent failed", exc_info=True)
            return Outcome(exit_code=1, error=f"{type(error).__name__}: {error}")
    return Outcome()


@contextmanager
def _signals_raise() -> Iterator[None]:
    """Until torch takes the signals over, and after it, they end the job in the same way."""
    before = {number: signal.signal(number, _raise) for number in _SIGNALS if signal.getsignal(number) is not None}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _raise(number: int, _frame: FrameType | None) -> None:
    raise SignalException(f"signal {number}", sigval=signal.Signals(number))


@contextmanager
def _observed(observer: Observer, line_prefix: str) -> Iterator[None]:
    class ObservedAgent(LocalElasticAgent):
        """torch's agent, telling the observer what it does."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            if isinstance(kwargs.get("logs_specs"), LogsSpecs):
                kwargs["logs_specs"] = _ObservedLogs(kwargs["logs_specs"], observer)
            kwargs["log_line_prefix_template"] = kwargs.get("log_line_prefix_template") or line_prefix
            self._asked: list[signal.Signals] = []
            super().__init__(*args, **kwargs)

        def _rendezvous(self, worker_group: Any) -> None:
            observer.generation_ended()
            super()._rendezvous(worker_group)
            observer.rendezvoused(worker_group.store, worker_group.group_rank, worker_group.group_world_size)

        def _restart_workers(self, worker_group: Any) -> None:
            observer.generation_ending()
            super()._restart_workers(worker_group)

        def _shutdown(self, death_sig: signal.Signals = signal.SIGTERM, *args: Any, **kwargs: Any) -> None:
            if isinstance(asked := sys.exception(), SignalException):  # else it is the usual end
                self._asked.append(asked.sigval)
                at_once = self._asked.count(signal.SIGINT) > 1
                observer.stopping(asked.sigval.name, at_once=at_once)
                death_sig = signal.SIGKILL if at_once else death_sig
            super()._shutdown(death_sig, *args, **kwargs)

        def _start_workers(self, worker_group: Any) -> dict[int, Any]:
            started: dict[int, Any] = super()._start_workers(worker_group)
            observer.workers_started(_workers(self._pcontext, worker_group, started, observer.generation))
            return started

    original = _LAUNCHER.LocalElasticAgent
    _LAUNCHER.LocalElasticAgent = ObservedAgent
    try:
        yield
    finally:
        _LAUNCHER.LocalElasticAgent = original


class _ObservedLogs(LogsSpecs):
    """The user's own choice of streams, with what would go to the terminal bare going through the observer."""

    def __init__(self, chosen: LogsSpecs, observer: Observer) -> None:
        super().__init__()
        self._chosen = chosen
        self._observer = observer

    @property
    def root_log_dir(self) -> str:
        return self._chosen.root_log_dir

    def reify(self, envs: dict[int, dict[str, str]]) -> Any:
        places = self._chosen.reify(envs)
        extra = self._observer.environment()
        for local_rank, environ in envs.items():
            environ.update(extra)
            for to_stderr, streams in ((False, places.stdouts), (True, places.stderrs)):
                if streams.get(local_rank) == "":
                    streams[local_rank] = self._observer.stream_path(int(environ["RANK"]), to_stderr)
        return places


def _workers(context: Any, group: Any, started: dict[int, Any], generation: int) -> list[Worker]:
    handlers = getattr(context, "subprocess_handlers", {})
    environs = getattr(context, "envs", {})
    workers: list[Worker] = []
    for worker in group.workers:
        environ = environs.get(worker.local_rank, {})
        identity = Identity(
            rank=worker.global_rank,
            local_rank=worker.local_rank,
            world_size=worker.world_size,
            generation=generation,
            node_rank=group.group_rank,
            source="trackside run",
            job=environ.get("TORCHELASTIC_RUN_ID"),
        )
        code = _returncode(handlers.get(worker.local_rank))
        workers.append(Worker(identity=identity, pid=started[worker.local_rank], returncode=code, environ=environ))
    return workers


def _returncode(handler: Any) -> Callable[[], int | None]:
    """What torch has learnt of a process; nothing for one started by multiprocessing (`--run-path`)."""
    process = getattr(handler, "proc", None)
    return lambda: getattr(process, "returncode", None)


def _shell_code(returncode: int) -> int:
    return 128 - returncode if returncode < 0 else returncode or 1
