"""Everything about phases of one process, from the marks to the messages."""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from operator import itemgetter
from types import TracebackType
from typing import Any

from trackside.monitor.guard import guarded
from trackside.monitor.phases import track
from trackside.monitor.phases.borders import Borders
from trackside.monitor.phases.entries import EVERY_S, Entries
from trackside.monitor.phases.fold import Fold
from trackside.monitor.phases.hooks import TorchHooks
from trackside.monitor.phases.logged import LoggedSteps
from trackside.monitor.phases.names import BUILT_IN
from trackside.monitor.phases.track import Track
from trackside.monitor.pulse import OwnWork, Pulse, has_device, has_peers
from trackside.wire.messages import StepTimes

MOST_OWN = 32
"""Phases of the user's own; time in more of them counts for what is around them."""
MOST_CHARACTERS = 64
MOST_SAID = 5_000
"""Calls of `log()` among which borders are looked for at once; beyond, the steps among older ones are not told."""
MOST_WAITING = 20_000
"""Marks that are added up at once."""


class Recorder:
    """Records what a process does in its steps.

    Args:
        warn: Called with (kind, sentence), once a kind, about what the user gave.
        is_on: False records nothing, in a monitor that is inert.
        watches_torch: False changes nothing in torch: only what the script itself says is told apart.

    Threads: `collect` belongs to the send thread, `stop` to any, all else to the user's.
    """

    def __init__(
        self, warn: Callable[[str, str], None] | None = None, *, is_on: bool = True, watches_torch: bool = True
    ) -> None:
        self.pulse = Pulse()
        self.track = Track(is_on=is_on)
        self.borders = Borders(self.track, self.pulse, has_peers, self._has_unseen_device)
        self._hooks = TorchHooks(self.track, self.borders)
        self._warn, self._watches_torch = warn, watches_torch
        self._fold, self._entries = Fold(self.pulse), Entries()
        self._logged = LoggedSteps()
        self._own: set[str] = set()
        self._said: list[Any] = []
        """What was logged, and not looked at for borders yet."""
        self._is_torn = False
        """Whether some of it was let go."""
        self._due_at = 0.0
        self._awaits_span = False
        """Whether a report waits for what was marked."""

    @property
    def doing(self) -> str | None:
        """The phase that the training thread is in."""
        return self.track.doing

    def start(self) -> None:
        """Begin: torch is watched, once it is there."""
        if self._watches_torch:
            self._hooks.install()

    def stop(self) -> None:
        """Put everything back that was changed in torch, and record no more. Idempotent."""
        self._settle()
        self.track.stop()
        self._hooks.remove()
        self.track.cores.close()

    def become_inert(self) -> None:
        """This is a forked child, where no device may be asked for anything."""
        self.track.stop()
        self._hooks.remove()

    @guarded
    def _settle(self) -> None:
        if self.track.is_on and self.borders.is_ours:
            self.track.settle()

    def _has_unseen_device(self) -> bool:
        """At the end of each step: whether a device works on its own and nothing measures it."""
        is_unseen = self.track.clock is None and has_device()
        if is_unseen and self._watches_torch:
            self._hooks.look_for_device()  # from the next step on
        return is_unseen

    # --- the user's thread -------------------------------------------------------------------------------------------

    def enter_loop(self) -> None:
        """A loop over `batches` begins."""
        self.borders.enter_loop()

    def begin_work(self, work: OwnWork) -> None:
        """Own working time is to be measured from here."""
        self.track.put_span(track.SPAN_BEGINS, work)

    def end_work(self, work: OwnWork) -> None:
        """Up to here; it is known when the send thread comes to it, in its next turn."""
        self.track.put_span(track.SPAN_ENDS, work)
        self._awaits_span = True

    def phase(self, name: str) -> AbstractContextManager[None]:
        """A phase of the user's own; nothing in a thread that does not train."""
        known = self._checked(name)
        return _Phase(self.track, known) if known is not None and self.borders.is_ours else nullcontext()

    @guarded
    def _checked(self, name: object) -> str | None:
        if isinstance(name, str) and (name in self._own or name in BUILT_IN):
            return name
        if not isinstance(name, str) or not name.strip() or len(name) > MOST_CHARACTERS:
            self._complain(f"phase({name!r:.80}) is not timed: a name is text of 1 to {MOST_CHARACTERS} characters")
            return None
        if len(self._own) >= MOST_OWN:
            self._complain(f"phase({name!r}) is not timed: there are {MOST_OWN} names already")
            return None
        name = name.encode("utf-8", "replace").decode("utf-8")
        self._own.add(name)
        return name

    def _complain(self, sentence: str) -> None:
        if self._warn is not None:
            self._warn("phase()", sentence)

    # --- the send thread ---------------------------------------------------------------------------------------------

    def collect(self, logged: Sequence[Any] = (), *, flush: bool) -> list[StepTimes]:
        """Add up what was marked, a few times a second; return what there is to send.

        Not in every turn: what a fold costs at all, in cold caches and with the training thread held up, is the same for one
        step and for fifty.

        Args:
            logged: What `log` was called with meanwhile.
            flush: The end: nothing is kept back.
        """
        now = time.monotonic()
        if logged and not self.borders.has_steps:
            self._said += logged
            if len(self._said) > MOST_SAID:  # who logs so fast does not train, and is not to wait for it
                del self._said[:-MOST_SAID]
                self._is_torn = True
        waiting = len(self.track.marks) + len(self._said)
        if now < self._due_at and not flush and not self._awaits_span and waiting < MOST_WAITING:
            return []
        self._due_at, self._awaits_span = now + EVERY_S, False
        wall_clock = time.time() - now
        marks = self.track.take()
        if self._is_torn:
            marks, self._is_torn = [(track.TORN, 0.0, None), *marks], False
        if self._said:
            borders = self._logged.marks(self._said, wall_clock, self.borders.closing_of_logged())
            marks = sorted([*marks, *borders], key=itemgetter(1))
            self._said.clear()
        if marks:
            steps = self._fold.take(marks, wall_clock)
            self.pulse.add_phases([step.seconds for step in steps])
            for step in steps:
                self._entries.add(step, now)
        message = self._entries.message(now, flush=flush)
        return [message] if message is not None else []


class _Phase:
    """One run of a phase of the user's own."""

    __slots__ = ("_before", "_name", "_track")

    def __init__(self, marks: Track, name: str) -> None:
        self._track, self._name = marks, name
        self._before: str | None = None

    def __enter__(self) -> None:
        self._before = self._track.enter(self._name)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._track.leave(self._name, self._before)
