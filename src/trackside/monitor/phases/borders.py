"""Where a step begins and ends, decided on the training thread by what it does."""

import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from trackside.monitor.phases import track
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


@dataclass(slots=True)
class _Seen:
    """What happened since a border."""

    has_evaluated: bool = False
    """A forward that no gradient can come from."""
    has_backward: bool = False
    has_optimized: bool = False
    is_blind: bool = False
    """Peers may have been waited for unseen."""

    @property
    def is_training(self) -> bool:
        return self.has_backward or self.has_optimized


class Borders:
    """Delimits steps: by `Monitor.batches`, else by the optimizer.

    A batch that is only evaluated is no step once anything has been trained. A loader of torch's that is read in a bare
    loop begins a step, and its end ends the loop: what lies between two epochs is no step's.

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
        self.watch: ForwardWatch = _Nobody()
        self.sees_waits = False
        """Whether waits for peers are seen."""
        self.is_asking = False
        """Whether a batch is being made."""
        self._track, self._pulse = marks, pulse
        self._has_peers, self._has_unseen_device = has_peers, has_unseen_device
        self._loops: list[_Seen] = []
        self._cycle = _Seen()
        self._since_fetch = _Seen()
        self._is_kept = False
        self._is_open = False
        self._has_trained = False
        self._samples: int | None = None
        self._samples_kept: int | None = None
        self._has_fetched = False
        self._before: str | None = None
        self._first: tuple[int | None, weakref.ref[Any] | None] = (None, None)
        self._others: dict[int, int] = {}
        self._is_owner_known = False
        self._step = -1
        self._has_stepped_inside = False
        self.has_steps = False
        """Whether steps are known without looking at what is logged."""

    @property
    def is_ours(self) -> bool:
        """Whether this is the training thread."""
        return threading.get_ident() == self.owner

    @property
    def _seen(self) -> _Seen:
        return self._loops[-1] if self._loops else self._cycle

    # --- Monitor.batches ---------------------------------------------------------------------------------------------

    def enter_loop(self) -> None:
        """A loop over `batches` begins, perhaps inside another."""
        self.owner, self._is_owner_known = threading.get_ident(), True
        self.has_steps = True
        if not self._loops:
            self._drop()
        self._track.turn_cores()
        self._loops.append(_Seen())
        self._track.put(track.PUSH)

    def leave_loop(self) -> None:
        """It has ended, at whatever place."""
        self._stop_asking()
        self._loops.pop()
        self._track.put(track.POP)
        self._track.rest(in_step=BLURRED if self._loops else None)

    def ask(self) -> None:
        """The loop wants its next batch: a step begins."""
        self._loops[-1] = _Seen()
        self._is_kept = False
        self.is_asking = True
        self.watch.disarm()
        self._track.put(track.OPEN)
        self._track.enter(DATA)

    def got(self) -> None:
        """The batch is there."""
        self._stop_asking()
        self._track.leave(DATA, BLURRED)

    def close_batch(self, step: int, samples: int | None) -> None:
        """The loop is through with its batch."""
        seen = self._loops[-1]
        self._track.turn_cores()
        if seen.has_evaluated and not seen.is_training and self._has_trained:
            self._track.put(track.DROP)
            return
        self._count(samples)
        self._step = step
        self._track.put(track.CLOSE, self._closing(step, samples, seen))

    def _stop_asking(self) -> None:
        if self.is_asking:
            self.is_asking = False
            self.watch.arm()

    # --- a loader of torch's in a bare loop ---------------------------------------------------------------------------

    def fetch(self) -> None:
        """A loader is asked for its next batch."""
        self._settle_evaluation()
        self._open()
        self._track.put(track.KEEP)
        self._is_kept, self._samples_kept = True, self._samples
        self._since_fetch = _Seen()
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
        if not self._loops and not self._cycle.is_training:
            self._drop()

    def _settle_evaluation(self) -> None:
        """Take out of the step what was done since the last fetch, if that was evaluation only."""
        since = self._since_fetch
        if self._is_kept and since.has_evaluated and not since.is_training and self._has_trained:
            self._track.note_cores()
            self._track.put(track.UNDO)
            self._samples = self._samples_kept
        self._is_kept = False

    # --- what torch does ---------------------------------------------------------------------------------------------

    def begin_forward(self) -> None:
        """The outermost module is called."""
        self._open()

    def end_forward(self, *, is_evaluation: bool) -> None:
        """It has returned, or raised."""
        if is_evaluation:
            self._seen.has_evaluated = self._since_fetch.has_evaluated = True

    def begin_backward(self, *, is_blind: bool) -> None:
        """Gradients are computed."""
        if self.is_asking:  # the end of a `__next__` that is kept, and not thrown away, was not said
            self.fetch_ended()
        self._open()
        if is_blind:
            self._seen.is_blind = True

    def end_backward(self) -> None:
        """They are there, or the attempt has raised."""
        self._seen.has_backward = self._since_fetch.has_backward = self._has_trained = True
        if self._has_stepped_inside:
            self._has_stepped_inside = False
            if not self._loops:
                self._close_cycle()

    def adopt_thread(self) -> bool:
        """An optimizer steps in this thread; whether it is the training thread, which the first to do so becomes."""
        if not self.is_ours and not self._is_owner_known:
            self.owner = threading.get_ident()
        self._is_owner_known = True
        return self.is_ours

    def optimized(self, optimizer: Any, *, in_backward: bool = False) -> None:
        """An optimizer has stepped."""
        self._step_of(id(optimizer), weakref.ref(optimizer), in_backward=in_backward)

    def skipped(self, key: int) -> None:
        """A step of the optimizer with this `id` was left out, for its gradients were not finite."""
        self._step_of(key, None, in_backward=False)

    def _step_of(self, key: int, optimizer: "weakref.ref[Any] | None", *, in_backward: bool) -> None:
        self._seen.has_optimized = self._since_fetch.has_optimized = self._has_trained = True
        if in_backward:
            self._has_stepped_inside = True
        elif not self._loops and self._counts(key, optimizer):
            self._close_cycle()

    def _counts(self, key: int, optimizer: "weakref.ref[Any] | None") -> bool:
        """Whether this optimizer counts the steps: the first of a cycle of several does, as long as it is there."""
        first, known = self._first
        is_gone = known is not None and known() is None
        if first is not None and first != key and not is_gone:
            steps = self._others[key] = self._others.get(key, 0) + 1
            if steps < SWITCH_AFTER:
                return False
        if first != key or optimizer is not None:
            self._first = (key, optimizer)
        self._others.clear()
        return True

    # --- steps -------------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        if not self._loops and not self._is_open:
            self._is_open = True
            self._track.put(track.OPEN)

    def _drop(self) -> None:
        if self._is_open:
            self._is_open = False
            self._track.turn_cores()
            self._track.put(track.DROP)
        self._cycle, self._samples = _Seen(), None
        self._is_kept = False

    def _close_cycle(self) -> None:
        self.has_steps = True
        logged = self._pulse.known_step
        step = self._step + 1 if logged is None else max(self._step + 1, logged)
        samples, self._samples = self._samples, None
        self._count(samples)
        if logged is None or logged == self._step:
            self._pulse.step = step
        self._step = step
        self._track.turn_cores()
        self._track.put(track.CLOSE, self._closing(step, samples, self._cycle))
        self._track.put(track.OPEN)
        self._is_open, self._is_kept = True, False
        self._cycle, self._since_fetch = _Seen(), _Seen()

    def _count(self, samples: int | None) -> None:
        self._pulse.batches += 1
        if samples is not None:
            self._pulse.samples = (self._pulse.samples or 0) + samples

    def closing_of_logged(self) -> Closing:
        """What is known of a step that only a call of `log` delimits. Threads: any."""
        has_peers = self._has_peers()
        return Closing(step=0, has_peers=has_peers, knows_own=not has_peers and not self._has_unseen_device())

    def _closing(self, step: int, samples: int | None, seen: _Seen) -> Closing:
        has_peers = self._has_peers()
        is_blind = seen.is_blind or not self.sees_waits or (seen.has_optimized and not seen.has_backward)
        knows_own = not (has_peers and is_blind) and not self._has_unseen_device()
        return Closing(step=step, samples=samples, has_peers=has_peers, knows_own=knows_own)
