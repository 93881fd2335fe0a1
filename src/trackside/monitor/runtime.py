"""The one session of this process that all its `Monitor`s share."""

import atexit
import logging
import os
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from trackside.monitor import console
from trackside.monitor.buffer import Buffer
from trackside.monitor.encode import Encoder
from trackside.monitor.epochs import ClosedEpoch
from trackside.monitor.facts import host_facts, machine_id, process_facts
from trackside.monitor.guard import note_fault
from trackside.monitor.link import Link
from trackside.monitor.pulse import Pulse
from trackside.monitor.roles import find_identity, is_disabled
from trackside.monitor.sampling import Sampling
from trackside.monitor.starter import Starter
from trackside.monitor.stash import Stash
from trackside.wire import messages
from trackside.wire.address import ControllerAddress, parse_address
from trackside.wire.spool import SUFFIX

logger = logging.getLogger("trackside.monitor")

FLUSH_SECONDS = 5.0


class Runtime:
    """Link, buffer, stash and sampling of one process. It is the link's `Feed`.

    Threads: public methods may be called from any; the `Feed` methods belong to the send thread.
    """

    def __init__(self, environ: Mapping[str, str], *, name: str | None, directory: str | None, resources: bool) -> None:
        self.identity = find_identity(environ)
        if given := environ.get("TRACKSIDE_CONTROLLER", "").strip():
            parse_address(given)
        self.buffer = Buffer()
        self.stash = Stash()
        self.pulse = Pulse()
        self.inert = False
        self.finished = False
        self.failed = False
        """Whether the user's code left a `with Monitor()` by an exception."""
        self.users = 0
        self.directory: str | None = None
        self._began = time.monotonic()
        self._stashing = True
        self._closed_epochs: list[ClosedEpoch] = []
        self._epoch_lock = threading.Lock()
        self._encoder = Encoder(self.buffer, self._refuse)
        self._starter = Starter(self.identity, name, directory, self._warn, environ, lambda: self.finished)
        self._link = Link("rank", self.identity, lambda: (host_facts(), process_facts()), self, resources=resources)
        self._sampling = Sampling(environ, self.identity, self) if resources else None
        self._warned: set[str] = set()
        self._pid = os.getpid()

    def start(self) -> None:
        """Begin: the send thread, and the sampler's."""
        os.register_at_fork(after_in_child=self._become_inert)
        atexit.register(self.finish)
        self._register_with_multiprocessing()
        self._link.start()
        if self._sampling is not None:
            self._sampling.start()

    # --- for monitors ------------------------------------------------------------------------------------------------

    def send(self, message: messages.Upward) -> None:
        """Send a message, or stash it while the link is not up."""
        if self.finished or (self._stashing and self.stash.put(message)):
            return
        self._link.send(message)

    def close_epoch(self, closed: ClosedEpoch) -> None:
        """Report an epoch once all values logged before are encoded."""
        with self._epoch_lock:
            self._closed_epochs.append(closed)

    @property
    def samples_host(self) -> bool:
        """Whether this process samples its host."""
        return self._link.samples_host

    @property
    def is_primary(self) -> bool:
        """Whether this process prints the job's lines."""
        return self.identity.rank == 0

    def wait_connected(self, seconds: float) -> bool:
        """Wait for the link. Blocks: up to `seconds`."""
        return self._link.connected.wait(seconds)

    def finish(self) -> None:
        """Deliver what is left and let the link go. Idempotent. Blocks: at most about 5 s."""
        if self.finished or self.inert or os.getpid() != self._pid:
            return
        self.finished = True
        if self._sampling is not None:
            self._sampling.stop()
        self._link.send(
            messages.Goodbye(
                time=time.time(), clean=not (self.failed or _raised()), dropped_points=self.buffer.dropped_values
            )
        )
        delivered = self._link.close(FLUSH_SECONDS)
        self._starter.forget()
        if not delivered and self._link.undelivered is not None:
            console.say(
                f"  trackside: {self._link.undelivered_frames} messages were not delivered; they lie in "
                f"{self._link.undelivered}"
            )

    # --- Feed: on the send thread ------------------------------------------------------------------------------------

    def locate(self) -> ControllerAddress | None:
        """Where the controller is."""
        return self._starter.locate()

    def collect(self, *, flush: bool) -> Iterable[messages.Upward]:
        """What was logged since the last turn, then the epochs that are closed by it."""
        with self._epoch_lock:
            closed, self._closed_epochs = self._closed_epochs, []
        columns = self.buffer.swap()
        try:
            yield from self._encoder.encode(columns, flush=flush)
        except (ValueError, TypeError, IndexError) as error:
            note_fault("encode", error)
        for epoch in closed:
            yield epoch.report(self._encoder.means.take(epoch.epoch))

    def heartbeat(self) -> messages.Heartbeat:
        """The present totals."""
        pulse = self.pulse
        wall, own = pulse.step_means()
        return messages.Heartbeat(
            sent_at=time.time(),
            uptime_seconds=time.monotonic() - self._began,
            step=pulse.step,
            epoch=pulse.epoch,
            phase=pulse.phase,
            batches=pulse.batches,
            samples=pulse.samples,
            phases=dict(pulse.phases),
            step_seconds=wall,
            own_step_seconds=own,
            buffered_points=self._link.pending_frames,
            dropped_points=self.buffer.dropped_values,
            clock_offset=self._link.offset.offset,
            round_trip=self._link.offset.round_trip,
        )

    def received(self, message: messages.Downward) -> None:
        """The controller's word."""
        if isinstance(message, messages.Welcome):
            self._be_welcome(message)
        elif isinstance(message, messages.Say):
            console.say(console.clean(message.line))
        elif isinstance(message, messages.Refused):
            self._warn(f"the controller refused this rank: {message.reason}; training goes on without it")

    def turned(self) -> None:
        """Chores."""
        self._starter.check()
        if self._pid != os.getpid():
            self.inert = True

    def _be_welcome(self, welcome: messages.Welcome) -> None:
        self.directory = welcome.directory
        if welcome.machine_id == machine_id():
            self._link.keep_spool_in(Path(welcome.directory) / SUFFIX.strip("."))
        if not self._stashing:
            return
        self._stashing = False
        for message in self.stash.drain():
            self._link.send(message)

    def warn_once(self, kind: str, text: str) -> None:
        """Say something about the user's calls, once a kind, here and on the page."""
        if kind not in self._warned:
            self._warned.add(kind)
            console.say(f"  trackside: {console.clean(text)}  [rank {self.identity.rank}]")
            self._link.send(messages.Notice(time=time.time(), about="value refused", text=text))

    # --- warnings ----------------------------------------------------------------------------------------------------

    def _warn(self, text: str) -> None:
        if self.is_primary or self.identity.local_rank == 0:
            console.say(f"  trackside: {console.clean(text)}")

    def _refuse(self, name: str, reason: str) -> None:
        text = f"{name!r}: {reason}"
        console.say(f"  trackside: {console.clean(text)}" + (f"  [rank {self.identity.rank}]"))
        self._link.send(messages.Notice(time=time.time(), about="value refused", text=text))

    # --- forks and ends ----------------------------------------------------------------------------------------------

    def _become_inert(self) -> None:
        """In a forked child: nothing of ours runs, nothing is sent, no lock is held."""
        self.inert = True
        self.buffer.renew_lock()
        self._epoch_lock = threading.Lock()

    def _register_with_multiprocessing(self) -> None:
        """`atexit` does not run in a `multiprocessing.Process`; its own finalizers do."""
        util = sys.modules.get("multiprocessing.util")
        process = sys.modules.get("multiprocessing.process")
        if util is not None and process is not None and process.parent_process() is not None:
            util.Finalize(None, self.finish, exitpriority=10)


def _raised() -> bool:
    """Whether the interpreter is ending with an exception nobody caught."""
    return getattr(sys, "last_type", None) is not None and not hasattr(sys, "ps1")


_current: Runtime | None = None
"""The process's session: there is one link per process, whatever the user makes."""
_making = threading.Lock()


def shared_runtime(*, name: str | None, directory: str | None, resources: bool) -> Runtime | None:
    """The process's session, made by the first caller; None where everything is inert.

    Raises:
        UsageError: a contradictory environment or a damaged address.
    """
    global _current
    if is_disabled(os.environ) or _is_helper_process():
        return None
    with _making:
        if _current is None or _current.finished or _current.inert:
            if _current is not None and _current.inert:
                return None
            _current = Runtime(os.environ, name=name, directory=directory, resources=resources)
            _current.start()
        return _current


def _is_helper_process() -> bool:
    """Whether this is a data-loading worker, or a child that only imports the user's script to find a function."""
    worker = sys.modules.get("torch.utils.data._utils.worker")
    if worker is not None and worker.get_worker_info() is not None:
        return True
    process = sys.modules.get("multiprocessing.process")
    return process is not None and bool(getattr(process.current_process(), "_inheriting", False))
