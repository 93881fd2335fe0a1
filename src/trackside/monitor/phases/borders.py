"""Where a step begins and ends, decided on the training thread by what it does."""

import threading
import weakref
from collections.abc import Callable
from threading import get_ident
from time import monotonic
from typing import Any, Protocol

from trackside.monitor.guard import guarded
from trackside.monitor.intake import INT64
from trackside.monitor.phases import track
from trackside.monitor.phases.cores import LOOK_S
from trackside.monitor.phases.fold import Closing
from trackside.monitor.phases.names import BLURRED, DATA
from trackside.monitor.phases.track import Track
from trackside.monitor.pulse import Pulse, count_samples

SWITCH_AFTER = 10
"""Steps of another optimizer without one of the first, after which that other one counts the steps."""


class ForwardWatch(Protocol):
    """What sees the outermost forward; it has nothing to do while a batch is made."""

    def arm(self) -> None: ...

    def disarm(self) -> None: ...


class _Nobody:
    """Where torch is not there."""

    def arm(self) -> None:
        pass

    def disarm(self) -> None:
        pass


# What happened since a border, one bit each.
EVALUATED = 1  # a forward that no gradient can come from
BACKWARD = 2
OPTIMIZED = 4
OPTIMIZED_INSIDE = 8  # by a hook, while gradients were computed
BLIND = 16  # peers may have been waited for unseen
_TRAINED = BACKWARD | OPTIMIZED


class Borders:
    """Delimits steps: by `Monitor.batches`, else by the optimizer.

    A batch that is only evaluated is no step once anything has been trained. A loader of torch's that is read in a bare
    loop begins a step, and its end ends the loop: what lies between two epochs is no step's.

    Most of what a hook costs is meeting code and memory that the step has driven out of the caches. So little of either is
    met here, and what changes rarely (peers, a device, the scheduler's counts) is looked at twenty times a second at most.

    Args:
        marks: Takes the marks.
        pulse: Takes counts.
        has_peers: Whether other ranks may be waited for.
        has_unseen_device: Whether a device works on its own, and nothing measures it.

    Threads: the training thread, which is the main one until another one reads `batches` or steps an optimizer.
    """

    def __init__(
        self, marks: Track, pulse: Pulse, has_peers: Callable[[], bool], has_unseen_device: Callable[[], bool]
    ) -> None:
        self.owner = threading.main_thread().ident
        self.is_owner_known = False
        """Whether a thread has shown that it trains."""
        self.watch: ForwardWatch = _Nobody()
        self.sees_waits = False
        """Whether waits for peers are seen."""
        self.is_asking = False
        """Whether a batch is being made."""
        self._track, self._pulse = marks, pulse
        self._has_peers, self._has_unseen_device = has_peers, has_unseen_device
        self.sees_peers = False
        """Whether there were peers when that was last looked at."""
        self._sees_unmeasured = False
        """The same of a device that nothing measures."""
        self.look_at = float("-inf")
        """When that is to be looked at again, by the monotonic clock."""
        self.seen = 0
        """What has happened since the last border, or since a loader of torch's was last asked."""
        self.is_looping = False
        """Whether this is inside of a loop over `batches`."""
        self.is_outside = True
        """Whether no step is open that what happens now could belong to."""
        self._earlier = 0
        """What happened in the same step before the loader was asked."""
        self._loops: list[tuple[int, int]] = []
        """Both, of what is around each of the loops that are nested."""
        self._is_kept = False
        self._is_open = False
        self._has_trained = False
        self._samples: int | None = None
        self._samples_kept: int | None = None
        self._has_fetched = False
        self._before: str | None = None
        self._first: tuple[int | None, weakref.ref[Any] | None] = (None, None)
        self._others: dict[int, int] = {}
        self._step = -1
        self.has_steps = False
        """Whether steps are known without looking at what is logged."""

    @property
    def is_ours(self) -> bool:
        """Whether this is the training thread."""
        return get_ident() == self.owner

    def look_around(self, now: float) -> None:
        """Ask whether there are peers, and a device."""
        self.look_at = now + LOOK_S
        self.sees_peers, self._sees_unmeasured = self._has_peers(), self._has_unseen_device()

    def _begin_anew(self) -> int:
        """Nothing has happened yet; return what had."""
        seen, self.seen, self._earlier = self.seen | self._earlier, 0, 0
        if seen & _TRAINED:
            self._has_trained = True
        return seen

    # --- Monitor.batches ---------------------------------------------------------------------------------------------

    def enter_loop(self) -> None:
        """A loop over `batches` begins, perhaps inside another."""
        self.owner, self.is_owner_known = get_ident(), True
        self.has_steps = True
        if not self._loops:
            self._drop()
        elif (self.seen | self._earlier) & _TRAINED:
            self._has_trained = True
        self._track.turn_cores(monotonic())
        self._loops.append((self._earlier, self.seen))
        self._earlier, self.seen = 0, 0
        self.is_outside, self.is_looping = False, True
        self._track.put(track.PUSH)

    def leave_loop(self) -> None:
        """It has ended, at whatever place."""
        self._stop_asking()
        self._earlier, self.seen = self._loops.pop()
        self.is_looping = bool(self._loops)
        self.is_outside = not self.is_looping and not self._is_open
        self._track.put(track.POP)
        self._track.rest(in_step=BLURRED if self._loops else None)

    # One function each, for what they call would be met in cold caches; see above.

    def ask(self) -> None:
        """The loop wants its next batch: a step begins."""
        self.seen = self._earlier = 0
        self._is_kept, self.is_asking = False, True
        self.watch.disarm()
        marks = self._track
        marks.doing = DATA
        marks.append((track.OPEN, monotonic(), DATA))

    def got(self) -> None:
        """The batch is there."""
        self.is_asking = False
        self.watch.arm()
        marks = self._track
        marks.append((track.LEAVE, monotonic(), DATA))
        marks.doing = BLURRED

    @guarded
    def close_batch(self, step: int, batch: object) -> None:
        """The loop is through with its batch."""
        samples = count_samples(batch)
        now, seen, cores = monotonic(), self.seen | self._earlier, self._track.cores
        if cores.is_looking or now >= cores.look_at:
            self._turn(now)
        if seen & _TRAINED:
            self._has_trained = True
        elif seen & EVALUATED and self._has_trained:
            self._track.append((track.DROP, now, None))
            return
        pulse = self._pulse
        pulse.batches += 1
        if samples is not None:
            pulse.samples = (pulse.samples or 0) + samples
        self._step = step
        self._track.append((track.CLOSE, now, self._closing(step, samples, seen)))

    def _turn(self, now: float) -> None:
        """A step ends, and another may begin: the rarer looks."""
        if now >= self.look_at:
            self.look_around(now)
        self._track.turn_cores(now)

    def _stop_asking(self) -> None:
        if self.is_asking:
            self.is_asking = False
            self.watch.arm()

    # --- a loader of torch's in a bare loop ---------------------------------------------------------------------------

    def fetch(self) -> None:
        """A loader is asked for its next batch."""
        self._settle_evaluation()
        if self.is_outside:
            self.open()
        self._track.put(track.KEEP)
        self._is_kept, self._samples_kept = True, self._samples
        self._earlier, self.seen = self._earlier | self.seen, 0
        self._has_fetched = False
        self.is_asking = True
        self.watch.disarm()
        self._before = self._track.enter(DATA)

    def fetched(self, batch: Any) -> Any:
        """The batch is there; it is returned."""
        self._has_fetched = True
        count = count_samples(batch)
        if count is not None:
            self._samples = (self._samples or 0) + count
        return batch

    def fetch_ended(self) -> None:
        """The call has returned, or raised: most often since there are no more batches."""
        self._stop_asking()
        self._track.leave(DATA, self._before)
        if self._has_fetched:
            return
        self._is_kept = False
        if not self._loops and not (self.seen | self._earlier) & _TRAINED:
            self._drop()

    def _settle_evaluation(self) -> None:
        """Take out of the step what was done since the last fetch, if that was evaluation only."""
        has_trained = self._has_trained or self._earlier & _TRAINED
        if self._is_kept and has_trained and self.seen & EVALUATED and not self.seen & _TRAINED:
            self._track.note_cores()
            self._track.put(track.UNDO)
            self._samples = self._samples_kept
        self._is_kept = False

    # --- what torch does ---------------------------------------------------------------------------------------------

    def open(self) -> None:
        """A step begins with what happens now."""
        self._is_open, self.is_outside = True, False
        self._track.put(track.OPEN)

    def close_inside(self) -> None:
        """Gradients are there, and an optimizer has stepped while they were computed."""
        self.seen &= ~OPTIMIZED_INSIDE
        if not self._loops:
            self._close_cycle()

    def adopt_thread(self) -> bool:
        """An optimizer steps in this thread; whether it is the training thread, which the first to do so becomes."""
        if not self.is_owner_known:
            self.owner, self.is_owner_known = get_ident(), True
        return self.is_ours

    def optimized(self, optimizer: Any) -> None:
        """An optimizer has stepped, outside of any loop, and not while gradients were computed."""
        self.seen |= OPTIMIZED
        if self._counts(id(optimizer), optimizer):
            self._close_cycle()

    def skipped(self, key: int) -> None:
        """A step of the optimizer with this `id` was left out, for its gradients were not finite."""
        self.seen |= OPTIMIZED
        if not self._loops and self._counts(key, None):
            self._close_cycle()

    def _counts(self, key: int, optimizer: Any) -> bool:
        """Whether this optimizer counts the steps: the first of a cycle of several does, as long as it is there."""
        first, known = self._first
        is_gone = known is not None and known() is None
        if first is not None and first != key and not is_gone:
            steps = self._others[key] = self._others.get(key, 0) + 1
            if steps < SWITCH_AFTER:
                return False
        if first != key or (optimizer is not None and (known is None or is_gone)):
            self._first = (key, None if optimizer is None else weakref.ref(optimizer))
        if self._others:
            self._others.clear()
        return True

    # --- steps -------------------------------------------------------------------------------------------------------

    def _drop(self) -> None:
        if self._is_open:
            self._is_open, self.is_outside = False, not self._loops
            self._track.turn_cores(monotonic())
            self._track.put(track.DROP)
        self._samples = None
        self._is_kept = False
        self._begin_anew()

    def _close_cycle(self) -> None:
        self.has_steps = True
        logged = self._pulse.step
        if type(logged) is not int or not -INT64 <= logged < INT64:
            logged = self._pulse.known_step
        step = self._step + 1 if logged is None else max(self._step + 1, logged)
        samples, self._samples = self._samples, None
        self._pulse.batches += 1
        if samples is not None:
            self._pulse.samples = (self._pulse.samples or 0) + samples
        if logged is None or logged == self._step:
            self._pulse.step = step
        self._step = step
        now, cores = monotonic(), self._track.cores
        if cores.is_looking or now >= cores.look_at:
            self._turn(now)
        self._track.append((track.CLOSE, now, self._closing(step, samples, self._begin_anew())))
        self._track.append((track.OPEN, now, None))
        self._is_open, self.is_outside, self._is_kept = True, False, False

    def closing_of_logged(self) -> Closing:
        """What is known of a step that only a call of `log` delimits. Threads: any."""
        has_peers = self._has_peers()
        return Closing(step=0, has_peers=has_peers, knows_own=not has_peers and not self._has_unseen_device())

    def _closing(self, step: int, samples: int | None, seen: int) -> tuple[int, int | None, bool, bool]:
        """A `Closing`."""
        has_peers, knows_own = self.sees_peers, not self._sees_unmeasured
        if self._sees_unmeasured:
            self._sees_unmeasured = self._track.clock is None  # it may be measured from the next step on
        if has_peers and (seen & BLIND or not self.sees_waits or seen & _TRAINED == OPTIMIZED):
            knows_own = False
        return step, samples, has_peers, knows_own
