"""The one session of this process that all its `Monitor`s share."""

import atexit
import itertools
import os
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet

from trackside.monitor import console
from trackside.monitor.buffer import MOST_TAKEN, Buffer, packed
from trackside.monitor.encode import Encoder
from trackside.monitor.epochs import ClosedEpoch
from trackside.monitor.facts import host_facts, process_facts
from trackside.monitor.fork import ForkWatch
from trackside.monitor.guard import FAULTS
from trackside.monitor.heir import Heir
from trackside.monitor.identity import LateIdentity
from trackside.monitor.jsontext import to_json_text
from trackside.monitor.link import Link
from trackside.monitor.outbox import undelivered_line
from trackside.monitor.phases.recorder import Recorder
from trackside.monitor.ring import Ring, leave_calls
from trackside.monitor.roles import LAUNCHER_PID, is_disabled, is_helper_process, may_instrument
from trackside.monitor.sampling import Sampling
from trackside.monitor.starter import Starter
from trackside.monitor.stash import Stash
from trackside.wire import messages
from trackside.wire.address import ControllerAddress, parse_address
from trackside.wire.machine import machine_id

if TYPE_CHECKING:
    from trackside.monitor.model.watching import ModelWatch
    from trackside.monitor.report import ReportWatch

FINISH_S = 5.0
"""The longest that `finish` takes, all in all."""
DELIVER_S = 4.0
START_S = 10.0
"""How much longer it takes when the controller is only starting: a script may be over before it listens."""
REPORT_S = 3.0
INTRODUCE_S = 1.0
"""How long an end waits for the sampler to have said what this process runs on: milliseconds, but for a hung driver."""
SPOOL_FOLDER = "spool"
_LOOK_S = 0.02
_MOST_WARNINGS = 1_000


class User(Protocol):
    """A `Monitor`, as its session sees it."""

    def end(self) -> None:
        """The interpreter is ending."""
        ...

    def become_inert(self) -> None:
        """This is a forked child."""
        ...

    @property
    def wants_report(self) -> bool:
        """Whether it copies the report once that is written."""
        ...


class Runtime:
    """Link, buffer, stash and sampling of one process. It is the link's `Feed`.

    Threads: public methods may be called from any; the `Feed` methods belong to the send thread.
    """

    def __init__(self, environ: Mapping[str, str], *, name: str | None, directory: str | None, resources: bool) -> None:
        self._who = LateIdentity(environ)
        if given := environ.get("TRACKSIDE_CONTROLLER", "").strip():
            parse_address(given)
        self.buffer = Buffer()
        self.stash = Stash()
        self.recorder = Recorder(self.warn_once, watches_torch=may_instrument(environ))
        self.users: WeakSet[User] = WeakSet()
        self.is_over = False
        """Whether it has finished, or is that of a parent process."""
        self.failed = False
        """Whether the user's code left a `with Monitor()` by an exception."""
        self.directory: str | None = None
        """The run folder, on the controller's host, once it is known."""
        self._is_launched = LAUNCHER_PID in environ
        self._is_controller_here = False
        self._began = time.monotonic()
        self._finishing = threading.Lock()
        self._warned: set[str] = set()
        self._faults_told = self._lost_values = 0
        self._url_line: str | None = None
        self._is_report_said = False
        self._ended_by: str | None = None
        self._is_leaving = False
        self._plan = messages.SetPlan()
        self._config: dict[str, Any] = {}
        self._encoder = Encoder(self.refuse, self.complain)
        self._starter = Starter(self.identity, name, directory, environ, self._warn)
        self._link = Link(
            "rank",
            self.identity,
            lambda: (host_facts(), process_facts()),
            self,
            resources=resources,
            dropped=self._lost,
        )
        self._environ, self._wants_samples = environ, resources
        self._sampling: Sampling | None = None
        self._is_settled = self._is_ending = False
        self.is_behind = False
        self._watched: ModelWatch | None = None
        self._heir: Heir | None = None
        self._ring = Ring(self._link.session, self.buffer)
        self._pid = os.getpid()

    def start(self) -> None:
        """Begin: the send thread, and the sampler's. Where no thread can be had, nothing has begun."""
        if not self._who.is_held:
            self._settle()
        self._ring.turn(0, 1)  # now: this process may be killed in a moment
        try:
            self._link.start()
        except (OSError, RuntimeError):
            self._ring.close()
            self.stop_sampling()
            raise
        atexit.register(self.finish_at_exit)
        self._register_with_multiprocessing()
        self.recorder.start()

    # --- for monitors ------------------------------------------------------------------------------------------------

    def send(self, message: messages.Upward) -> None:
        """Send a message, or stash it while the link is not up. Blocks: never."""
        if self._link.connected.is_set() or not self.stash.put(message):
            self._link.send(message)

    def watch(self, model: object) -> None:
        """Watch a model; the one before is let go.

        Raises:
            TypeError: not a module.
        """
        torch = sys.modules.get("torch")
        if torch is None or not isinstance(model, torch.nn.Module):
            raise TypeError(f"watch() takes a torch.nn.Module, not {type(model).__name__}")
        from trackside.monitor.model.watching import ModelWatch

        if self._watched is not None:
            if self._watched.is_of(model):
                return
            self._send_all(self._watched.close())
        self._watched = watched = ModelWatch(model, self.identity.world_size)
        self._send_all(watched.due(time.monotonic()))
        watched.start()

    def _send_all(self, described: Iterable[messages.Upward]) -> None:
        for message in described:
            self.send(message)

    def plan(self, plan: messages.SetPlan, config: Mapping[str, Any] | None) -> None:
        """Say how long the job means to run and what belongs to it; what was said before stays as it is."""
        known = self._plan
        self._config = {**(config or {}), **self._config}
        merged = messages.SetPlan(
            epochs=known.epochs if known.epochs is not None else plan.epochs,
            steps=known.steps if known.steps is not None else plan.steps,
            name=known.name or plan.name,
            project=known.project or plan.project,
            config=to_json_text(self._config) if self._config else None,
        )
        if merged != known:
            self._plan = merged
            self._link.send(merged)

    def stop_sampling(self) -> None:
        """A `Monitor` wants no hardware sampled, in a session that began without one."""
        self._wants_samples = False
        if self._sampling is not None:
            self._sampling.stop()

    def close_epoch(self, closed: ClosedEpoch) -> None:
        """Report an epoch once all values logged before are encoded."""
        self.buffer.put_mark(closed)

    @property
    def samples_host(self) -> bool:
        """Whether this process samples its host."""
        return self._link.samples_host

    @property
    def identity(self) -> messages.Identity:
        """Who this process is, as far as it is known."""
        return self._who.identity

    @property
    def is_primary(self) -> bool:
        """Whether this process prints the job's lines."""
        return self.identity.rank == 0

    @property
    def latest_sample(self) -> messages.ResourceSample | None:
        """What the hardware did last; None: unknown."""
        return self._sampling.latest if self._sampling is not None else None

    @property
    def report_path(self) -> Path | None:
        """Where the report is, or will be, on this machine; None: on another one, or nowhere."""
        return Path(self.directory) / "report.html" if self.directory and self._is_controller_here else None

    def refuse(self, name: str, reason: str) -> None:
        """Say once per name that a value is not taken, here and on the page."""
        self.warn_once(name, f"{name!r} was not taken: {reason}")

    def complain(self, reason: str) -> None:
        """Say once that a call of `log` was not taken at all."""
        self.warn_once("log()", f"log() was not taken: {reason}")

    def warn_once(self, kind: str, text: str) -> None:
        """Say something about the user's calls, once a kind, here and on the page."""
        if kind in self._warned or len(self._warned) >= _MOST_WARNINGS:
            return
        self._warned.add(kind)
        where = "" if self.identity.world_size == 1 else f"  [rank {self.identity.rank}]"
        console.say(f"  trackside: {console.clean(text)}{where}")
        self._notice("value refused", text)

    # --- the end -----------------------------------------------------------------------------------------------------

    def finish(self, *, clean: bool = True) -> float:
        """Deliver what is left and let the link go.

        Idempotent. Blocks: up to about 4 s, and 10 s more where the controller is only starting.

        Returns:
            Seconds that are left of the longest time an end may take.
        """
        # Not waited for: a signal handler may end what it interrupts in the middle of ending.
        if self.is_over or self.is_foreign or not self._finishing.acquire(blocking=False):
            return 0.0
        self._is_ending = True
        self.recorder.stop()
        if self._sampling is not None:
            self._sampling.stop()
            self._sampling.settle(INTRODUCE_S)
        self._wait_for_start()
        deadline = time.monotonic() + FINISH_S
        if self._watched is not None:
            self._send_all(self._watched.close())
        goodbye = messages.Goodbye(
            time=time.time(),
            clean=clean and not self.failed,
            dropped_points=self.dropped_points,
            signal=self._ended_by,
            leaving=self._is_leaving,
        )
        delivered = self._link.close(DELIVER_S, goodbye)
        if self._link.has_ended:
            self._ring.close()
        self.is_over = True
        self._starter.forget()
        atexit.unregister(self.finish_at_exit)
        self._starter.leave()
        if not delivered:
            console.say(undelivered_line(self._link.undelivered_frames, self._link.undelivered))
        return max(0.0, deadline - time.monotonic())

    def _wait_for_start(self) -> None:
        deadline = time.monotonic() + START_S
        while self._link.is_looking and time.monotonic() < deadline:
            time.sleep(_LOOK_S)

    def finish_at_exit(self) -> None:
        """The interpreter is ending, or a `multiprocessing` child is."""
        if self.is_over or self.is_foreign:
            return
        clean = not _ends_badly()
        self._ended_by = None if clean or getattr(sys, "last_type", None) is not KeyboardInterrupt else "SIGINT"
        self.failed = self.failed or not clean
        users = list(self.users)
        # The report then waits for the exit code, and nobody here may wait for the report.
        self._is_leaving = not any(user.wants_report for user in users)
        for user in users:
            user.end()
        self.say_report(self.finish(clean=clean))
        self._starter.release()

    def wait_for_report(self, seconds: float) -> bool:
        """Whether the controller has written the report. Blocks: up to `seconds`, and one more where its disk hangs."""
        report = self.report_path
        return report is not None and self._watch_report(report).wait(seconds)

    def _watch_report(self, report: Path) -> "ReportWatch":
        from trackside.monitor.report import ReportWatch

        return ReportWatch(report, self._starter)

    def say_report(self, seconds: float) -> None:
        """In a run of our own, say once where the report is: nobody else does. Blocks: up to `seconds`."""
        report = self.report_path
        if not self._starter.is_ours or report is None or self._is_report_said:
            return
        self._is_report_said = True
        is_alone = self.identity.world_size == 1
        watch = self._watch_report(report)
        is_there = not self._is_leaving and watch.wait(min(seconds, REPORT_S) if is_alone else 0.0)
        watch.say(is_there, "being written" if is_alone else "written when the last rank has ended")

    def has_left(self) -> bool:
        """Whether nothing of it is left, its controller included."""
        return self._starter.has_ended()

    def become_inert(self) -> None:
        """This is a forked child: no thread of ours runs here."""
        self.is_over = True
        self.recorder.become_inert()
        if self._watched is not None:
            self._watched.become_inert()

    @property
    def is_foreign(self) -> bool:
        """Whether it belongs to the process that this one was forked from."""
        return os.getpid() != self._pid

    @property
    def dropped_points(self) -> int:
        """Values that `log()` accepted and that are lost, or that it had no place for."""
        return self.buffer.dropped_values + self._encoder.lost_values + self._lost_values

    def _register_with_multiprocessing(self) -> None:
        """`atexit` does not run in a `multiprocessing.Process`; its own finalizers do."""
        util = sys.modules.get("multiprocessing.util")
        process = sys.modules.get("multiprocessing.process")
        if util is not None and process is not None and process.parent_process() is not None:
            util.Finalize(None, self.finish_at_exit, exitpriority=10)

    # --- Feed: on the send thread ------------------------------------------------------------------------------------

    def locate(self) -> ControllerAddress | None:
        """Where the controller is."""
        self._look_who()
        if not self._is_settled:
            return None
        address = self._starter.locate()
        if self._starter.gave_up:
            self._ring.close()
            self._link.give_up()
        return address

    def collect(self, *, flush: bool) -> Iterable[messages.Upward]:
        """What was logged since the last turn, the epochs that ended meanwhile, and what the steps took."""
        if flush:
            self._look_who()  # for the last time: the hello that says it comes before the farewell
        if not self._is_settled and not flush:  # whose values, and who prints, is not known yet
            return ()
        described = self.stash.drain() if flush or self._link.connected.is_set() else []
        logged = self.buffer.take(MOST_TAKEN)
        self.is_behind = len(logged) == MOST_TAKEN and bool(self.buffer.calls)
        flush = flush and not self.is_behind
        times = self.recorder.collect(logged, flush=flush)  # after `take`: an epoch among it finds its work added up
        if not described and not logged and self._encoder.is_empty:
            return times
        return itertools.chain(described, self._encoder.encode(logged, flush=flush), times)

    def leave(self, folder: Path, next_seq: int) -> list[Path]:
        """What was logged and not encoded, as it is: that takes no time, and the end has none."""
        calls, lost = packed(self.buffer.take())
        self._lost_values += lost
        return (
            [leave_calls(folder, self._link.session, calls, self._encoder.numbers.through, next_seq)] if calls else []
        )

    def kept(self, next_seq: int) -> None:
        """All that was taken from the buffer outlives this process; so shall what comes."""
        self._ring.turn(self._encoder.numbers.through, next_seq)

    def heartbeat(self) -> messages.Heartbeat:
        """The present totals."""
        pulse = self.recorder.pulse
        wall_s, own_s = pulse.step_means()
        return messages.Heartbeat(
            sent_at=time.time(),
            uptime_seconds=time.monotonic() - self._began,
            step=pulse.known_step,
            epoch=pulse.epoch,
            phase=self.recorder.doing,
            batches=pulse.batches,
            samples=pulse.samples,
            phases=dict(pulse.phases),
            step_seconds=wall_s,
            own_step_seconds=own_s,
            buffered_points=len(self.buffer.calls) + self._link.pending_frames,
            dropped_points=self.dropped_points,
            clock_offset=self._link.offset.offset,
            round_trip=self._link.offset.round_trip,
        )

    def received(self, message: messages.Downward) -> None:
        """The controller's word."""
        if isinstance(message, messages.Welcome):
            self.directory = os.fsdecode(message.directory.encode("utf-8", "surrogateescape"))
            self._is_controller_here = message.machine_id == machine_id()
            if self._is_controller_here:
                self._link.spool_folder = Path(self.directory) / SPOOL_FOLDER
            elif self._heir is None:
                self._heir = Heir(message.run, self._link.send)
                self._heir.inherit()
            if self.is_primary and not self._is_launched:
                is_told = self._url_line is not None or self.stash.wants_page or not self._is_controller_here
                self._say_line(message.url_line or ("" if is_told else console.page_hint(message.directory)))
        elif isinstance(message, messages.Say):
            self._say_line(message.line)
        elif isinstance(message, messages.Refused):
            self._warn(f"the controller refused this rank: {message.reason}; training goes on without it")

    def turned(self) -> None:
        """Chores."""
        self._look_who()
        self.buffer.heed_clock(time.time())
        if self._heir is not None:
            self._heir.turned(*self._link.waiting_seqs)
        self._starter.check()
        if self._watched is not None:
            self._send_all(self._watched.due(time.monotonic()))
        if len(FAULTS.counts) > self._faults_told:
            kinds = list(FAULTS.counts)[self._faults_told :]
            self._faults_told += len(kinds)
            for kind in kinds:
                self._notice("monitor fault", f"a fault of Trackside's own, training is not touched: {kind}")

    def _look_who(self) -> None:
        """See whether this process has been told who it is."""
        if self._is_ending:
            self._who.release()
        is_news = self._who.look()
        if is_news:
            self._starter.identity = self._link.identity = self.identity
        if not self._is_settled:
            if not self._who.is_held:
                self._settle()
        elif is_news:
            self._become_rank()

    def _settle(self) -> None:
        """From now on this process acts as who it is, or as a single one."""
        self._is_settled = True
        if self._who.problem is not None:
            self._warn(f"{self._who.problem}; it is taken for a single process")
        self._sample_anew()

    def _sample_anew(self) -> None:
        """Sample as who this process is now: which device is its own depends on it."""
        if self._sampling is not None:
            self._sampling.stop()
        if self._wants_samples and not self._is_ending:
            self._sampling = Sampling(self._environ, self.identity, self)
            self._sampling.start()

    def _become_rank(self) -> None:
        """What began as a single process is a rank: the controller is told, and others can find it."""
        self._link.greet_again()
        self._starter.publish()
        self._sample_anew()
        if self._starter.is_ours and self.identity.rank:
            console.say(
                f"  trackside: this process turned out to be rank {self.identity.rank} of {self.identity.world_size} after its "
                "own run had begun, which is shown apart; begin the process group before the Monitor, or launch with "
                "`trackside run`"
            )

    def _say_line(self, line: str) -> None:
        """Print a line of the controller's; the page's address comes with each welcome too, and is said once."""
        if line in ("", self._url_line):
            return
        self._url_line = line if "://" in line else self._url_line or ""
        console.say(console.clean(line))

    def _notice(self, about: str, text: str) -> None:
        whole = text.encode("utf-8", "replace").decode("utf-8")
        self._link.send(messages.Notice(time=time.time(), about=about, text=whole))

    def _warn(self, text: str) -> None:
        if self.is_primary or self.identity.local_rank == 0:
            console.say(f"  trackside: {console.clean(text)}")

    def _lost(self, message: messages.Upward) -> None:
        """A message found no place: its values are counted, its names are sent again."""
        if isinstance(message, messages.Points):
            self._lost_values += len(message.value) // 8
            self._encoder.announce_again(message.defs)
        elif not isinstance(message, messages.Notice):
            self._notice("message not sent", f"a message of kind {message.__struct_config__.tag!r} could not be sent")


def _ends_badly() -> bool:
    """Whether the interpreter or a `multiprocessing` child is ending with an exception that nobody caught."""
    error = sys.exc_info()[1]
    if isinstance(error, SystemExit):
        return error.code not in (None, 0)
    if error is not None:
        return True
    return getattr(sys, "last_type", None) is not None and not hasattr(sys, "ps1")


class _Process:
    """What this process has of us: at most one session at a time, whatever the user makes."""

    def __init__(self) -> None:
        self.current: Runtime | None = None
        self.leaving: list[Runtime] = []
        """Finished sessions whose controllers are still writing their reports; asked, so that no zombie stays."""
        self.making = threading.RLock()
        self.forks = ForkWatch()


_process = _Process()


def join_runtime(user: User, *, name: str | None, directory: str | None, resources: bool) -> Runtime | None:
    """The process's session, made for its first user; None where everything is inert.

    Raises:
        UsageError: a contradictory environment or a damaged address.
    """
    if is_disabled(os.environ) or is_helper_process():
        return None
    with _process.making:
        current = _process.current
        if current is not None and current.is_over and current.is_foreign:
            return None
        if current is None or current.is_over:
            _process.leaving = [old for old in [*_process.leaving, current] if old is not None and not old.has_left()]
            current = Runtime(dict(os.environ), name=name, directory=directory, resources=resources)
            current.start()
            _process.current = current
            _process.forks.add(current)
        if not resources:
            current.stop_sampling()
        current.users.add(user)
        _process.forks.add(user)
        return current
