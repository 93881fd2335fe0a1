"""Watches one model: describes it at once, records its first forward, measures a few of the later ones."""

import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import torch
from torch import nn

from trackside.monitor.guard import ask, quietly
from trackside.monitor.model.clock import DeviceClock, HostClock
from trackside.monitor.model.hooks import After, Before, Hooked
from trackside.monitor.model.means import Means
from trackside.monitor.model.outline import Outline, outline
from trackside.monitor.model.recording import Recording
from trackside.monitor.model.sampling import PassSampler
from trackside.monitor.model.tensors import tensors_in
from trackside.monitor.model.timing import MeasuredPass
from trackside.monitor.model.tree import FUSED, look_through
from trackside.wire import messages

MOST_FAILURES = 5
"""Passes that may end by an exception before recording is given up."""
MOST_PENDING = 4
PATIENCE = 16
"""Passes that a measured one waits for its backward."""
PAUSE_S = 5.0
RANKS_AT_ONCE = 16
"""More ranks than this say their times less often, so that the controller hears about as much from all of them."""
LONGEST_PAUSE_S = 300.0

NOT_YET = "No forward pass has been seen yet; this is the module tree."
IS_COMPILED = "The model is compiled as a whole, so its modules do not run one by one; this is the module tree."
IS_FUSED = "A hook on a lone nn.TransformerEncoderLayer would change its arithmetic; this is the module tree."
GAVE_UP = "No forward pass came to its end; this is the module tree."
WITHOUT_GRAD = "Recorded without gradients: tensors are followed only where modules hand them on as they are."
HAS_COMPILED = "What is compiled is shown from outside."
HAS_FUSED = "Transformer layers in evaluation are shown from outside: hooks would change their arithmetic."
FOLDED = "The model is too large to show every module."


@dataclass(slots=True)
class _Pass:
    """A pass that is running with hooks on."""

    recording: Recording | None
    measured: MeasuredPass | None
    place: dict[int, int]
    """Node by the identity of the module that is hooked."""
    asked: frozenset[int]
    is_whole: bool
    """Whether nothing had to be left out that another pass would show."""
    began: float
    install_s: float = 0.0
    hooked: Hooked = field(default_factory=Hooked)
    thread: int = field(default_factory=threading.get_ident)
    error: BaseException | None = field(default_factory=sys.exception)
    """What was being handled when it began; anything else at its end is its own."""


class ModelWatch:
    """One model. What it learns waits in it until the send thread asks for it.

    Args:
        model: a module, wrapped or not.
        world_size: of the job.

    Threads: made and closed by the user's; hooks run on whatever thread runs the model; `due` is the send thread's.
    """

    def __init__(self, model: nn.Module, world_size: int = 1) -> None:
        self._outline = outline(model)
        root = self._outline.hooked[0]
        self._root: Callable[[], nn.Module | None] = root if root is not None else weakref.ref(model)
        self._trigger = Hooked()
        self._enter, self._leave = Before(self._entered), After(self._left)
        self._leave_root = After(self._left_root)
        self._active: _Pass | None = None
        self._pending: deque[tuple[MeasuredPass, int]] = deque()
        self._is_over = self._is_quiet = False
        self._is_recorded = self._is_whole = self._has_grad = False
        self._failures = self._passes = 0
        self._sampler = PassSampler()
        self._means = Means(len(self._outline.nodes))
        self._told_passes = 0
        self._tell_at = 0.0
        self._pause_s = min(LONGEST_PAUSE_S, PAUSE_S * max(1.0, world_size / RANKS_AT_ONCE))
        self._outgoing: deque[Callable[[], messages.Upward]] = deque()
        self._describe()

    def start(self) -> None:
        """Begin to wait for the first pass."""
        root = self._root()
        if root is not None and not self._outline.is_compiled and not self._outline.is_fused:
            self._trigger.before(root, Before(self._pass_begins))

    def is_of(self, model: object) -> bool:
        """Whether it watches this very module, however it is wrapped."""
        return isinstance(model, nn.Module) and self._root() is look_through(model)[0]

    def due(self, now: float) -> list[messages.Upward]:
        """What is to be sent by now (monotonic)."""
        out: list[messages.Upward] = []
        while self._outgoing:
            out.append(self._outgoing.popleft()())
        if self._means.passes != self._told_passes and now >= self._tell_at:
            self._told_passes, self._tell_at = self._means.passes, now + self._pause_s
            out.append(self._means.message(self._outline.hash))
        return out

    def close(self) -> list[messages.Upward]:
        """Take every hook off and return what is still to be sent. Idempotent."""
        self._is_over = True
        active, self._active = self._active, None
        if active is not None:
            active.hooked.remove()
        if self._passes or "torch._dynamo" not in sys.modules:
            # What a compiler has inlined into a model stays: taking it off would compile the model once more.
            self._trigger.remove()
        quietly(self._settle, True)
        self._tell_at = 0.0
        return self.due(0.0)

    def become_inert(self) -> None:
        """This is a forked child: the hooks stay and do nothing."""
        self._is_over = True

    # --- what is said ------------------------------------------------------------------------------------------------

    def _describe(self) -> None:
        known = self._outline
        note = IS_COMPILED if known.is_compiled else IS_FUSED if known.is_fused else NOT_YET
        self._say_tree(note)
        self._outgoing.append(lambda: messages.SetMetadata(watched=known.watched))

    def _say_tree(self, note: str) -> None:
        known = self._outline
        note = f"{note} {FOLDED}" if known.leaves_out else note
        self._outgoing.append(lambda: _graph_message(known, known.document(note)))

    def _say_recording(self, ended: _Pass, recording: Recording) -> None:
        known = self._outline
        parts = (
            (not recording.with_grad, WITHOUT_GRAD),
            (known.has_compiled, HAS_COMPILED),
            (not ended.is_whole and recording.with_grad, HAS_FUSED),
            (known.leaves_out, FOLDED),
        )
        note = " ".join(text for applies, text in parts if applies) or None
        self._outgoing.append(lambda: _graph_message(known, known.document(note, recording, ended.asked)))

    # --- passes ------------------------------------------------------------------------------------------------------

    def _pass_begins(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        """Before each forward of the model: nearly always nothing is to be done, and that is found out first."""
        self._passes = number = self._passes + 1
        if self._is_quiet and (number < self._sampler.next_pass or time.thread_time() < self._sampler.next_at):
            return
        if not self._is_over:
            quietly(self._begin, module, args, kwargs)

    def _begin(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        active = self._active
        if active is not None:
            if active.thread == threading.get_ident():
                self._give_up(active)  # it was left by what no hook sees, such as an interrupt
            return
        if module is not self._root():
            return
        has_grad = torch.is_grad_enabled()
        self._has_grad = self._has_grad or has_grad
        if self._pending and not _is_captured():
            asked = time.thread_time()
            self._settle(False)
            self._sampler.add(time.thread_time() - asked)
        records = self._wants_recording(module, has_grad=has_grad)
        is_due = (
            self._is_recorded and has_grad == self._has_grad and self._sampler.is_due(self._passes, time.thread_time())
        )
        if (records or is_due) and not _is_no_pass(args, kwargs):
            self._start(module, args, kwargs, records=records)
        self._is_quiet = self._is_whole and self._active is None and not self._pending

    def _wants_recording(self, module: nn.Module, *, has_grad: bool) -> bool:
        """The first pass of all; once more when that one was without gradients or in evaluation and left things out."""
        if self._failures >= MOST_FAILURES:
            return False
        return not self._is_recorded or (not self._is_whole and has_grad and module.training)

    def _start(self, module: nn.Module, args: Any, kwargs: Any, *, records: bool) -> None:
        began = time.thread_time()
        on_device = _is_on_cuda(module)
        if records:
            self._look_again(module)
        recording = measured = None
        if records:
            recording = Recording(self._outline.folding.end, tensors_in(args, kwargs), on_device=on_device)
        else:
            measured = MeasuredPass(DeviceClock() if on_device else HostClock())
        modules, is_whole = self._to_hook()
        active = _Pass(
            recording,
            measured,
            {id(each): node for node, each in modules.items()},
            frozenset(modules),
            is_whole and torch.is_grad_enabled(),
            began,
        )
        self._active = active
        for node, each in modules.items():
            if node:
                active.hooked.before(each, self._enter)
                active.hooked.after(each, self._leave)
        active.hooked.after(module, self._leave_root, always=True)
        active.install_s = time.thread_time() - began
        self._entered(module, args, kwargs)

    def _look_again(self, module: nn.Module) -> None:
        """The model may have been wrapped, sharded or changed since it was first looked at."""
        before = self._outline
        self._outline = outline(module, before.hash)
        self._means = Means(len(self._outline.nodes))
        self._told_passes = 0

    def _to_hook(self) -> tuple[dict[int, nn.Module], bool]:
        """Modules by node, and whether nothing had to be left out."""
        folding, found, is_whole = self._outline.folding, dict[int, nn.Module](), True
        skip_to = 0
        for node, reference in enumerate(self._outline.hooked):
            module = reference() if reference is not None else None
            if node < skip_to or module is None:
                continue
            if isinstance(module, FUSED) and not module.training:
                is_whole, skip_to = False, folding.end[node]
                continue
            found[node] = module
        return found, is_whole

    def _entered(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        active = self._active
        if active is None or active.thread != threading.get_ident():
            return
        node = active.place.get(id(module))
        if node is not None and not quietly((active.recording or active.measured).enter, node, args, kwargs):  # type: ignore[union-attr]
            self._give_up(active)

    def _left(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        active = self._active
        if active is None or active.thread != threading.get_ident():
            return
        node = active.place.get(id(module))
        if node is not None and not quietly((active.recording or active.measured).leave, node, output):  # type: ignore[union-attr]
            self._give_up(active)

    def _left_root(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        """The pass is over, by an exception perhaps."""
        active = self._active
        if active is None or active.thread != threading.get_ident():
            return
        if sys.exception() is not active.error:
            self._give_up(active)
            return
        self._left(module, args, kwargs, output)
        if self._active is active:
            self._active = None
            quietly(self._end, active)

    def _end(self, active: _Pass) -> None:
        asked = time.thread_time()
        active.hooked.remove()
        recording, measured = active.recording, active.measured
        if recording is not None:
            recording.close()
            self._finish_lazy()
            self._is_recorded, self._is_whole = True, active.is_whole or self._is_recorded
            self._say_recording(active, recording)
            self._sampler = PassSampler(self._passes)
        elif measured is not None:
            measured.end_forward()
            self._pending.append((measured, self._passes))
            cost_s = active.install_s + measured.spent_s + time.thread_time() - asked
            self._sampler.note(cost_s, self._passes, time.thread_time())

    def _finish_lazy(self) -> None:
        """Lazy modules have their shapes now, and the model its hash."""
        root = self._root()
        if not self._outline.is_lazy or root is None:
            return
        self._outline = known = outline(root)
        self._outgoing.append(lambda: messages.SetMetadata(watched=known.watched))

    def _give_up(self, active: _Pass) -> None:
        """Of this pass; the next one may go better."""
        self._active = None
        active.hooked.remove()
        if active.recording is None:
            self._sampler.note(time.thread_time() - active.began, self._passes, time.thread_time())
            return
        active.recording.close()
        self._failures += 1
        if self._failures == MOST_FAILURES and not self._is_recorded:
            self._say_tree(GAVE_UP)

    def _settle(self, is_last: bool) -> None:
        """Take in the measured passes whose backward has come, without waiting for any."""
        while self._pending:
            measured, number = self._pending[0]
            is_late = is_last or self._passes - number >= PATIENCE or len(self._pending) > MOST_PENDING
            if measured.waits_for_backward and not measured.has_backward and not is_late:
                return
            if not measured.is_ready():
                if is_late:
                    self._pending.popleft()
                    continue
                return
            self._pending.popleft()
            self._means.take(measured.settle(), on_device=measured.on_device)


def _graph_message(known: Outline, graph: bytes) -> messages.SetGraph:
    return messages.SetGraph(graph=msgspec.Raw(graph), label=known.label, hash=known.hash)


def _is_no_pass(args: Any, kwargs: Any) -> bool:
    """Whether the model is only being looked at, by a tracer or with tensors that hold nothing."""
    if torch.jit.is_tracing():  # type: ignore[attr-defined,no-untyped-call]
        return True
    if _is_captured():
        return True
    given = tensors_in(args, kwargs)
    return any(type(tensor).__name__ == "FakeTensor" or tensor.device.type == "meta" for tensor in given[:4])


def _is_captured() -> bool:
    """Whether the device's work is being written into a graph, which no event may be asked about meanwhile."""
    is_started = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return bool(is_started and torch.cuda.is_current_stream_capturing())


def _is_on_cuda(module: nn.Module) -> bool:
    first = ask(lambda: next(module.parameters(), None))
    return first is not None and bool(first.device.type == "cuda")
