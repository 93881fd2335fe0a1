"""`Monitor`: the whole public surface of a rank."""

import json
import os
import shutil
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from trackside.errors import ArgumentTypeError, UsageError
from trackside.monitor import console
from trackside.monitor.buffer import MAX_CALLS, MAX_VALUES, NO_EPOCH, Buffer, Pending
from trackside.monitor.convert import PLAIN, DeviceScalar, is_device_tensor, to_float
from trackside.monitor.epochs import ClosedEpoch, OpenEpoch
from trackside.monitor.guard import guarded
from trackside.monitor.history import History
from trackside.monitor.model import describe_model
from trackside.monitor.pulse import Pulse, count_samples, thread_cpu_seconds
from trackside.monitor.runtime import Runtime, shared_runtime
from trackside.wire import messages
from trackside.wire.messages import EpochReport, Level

T = TypeVar("T")

_now = time.time
_plain = PLAIN.issuperset
LEVELS = ("info", "warn", "critical")


class Monitor:
    """Reports what this process does; any number of them share one link.

    Args:
        epochs: How many epochs the job means to run; None: unknown.
        steps: How many steps; None: unknown.
        name: Name of the run; before `TRACKSIDE_NAME`, before the script's name.
        config: What belongs to the run: learning rate, batch size, …; anything JSON can hold.
        dir: Folder that holds run folders; before `TRACKSIDE_DIR`, before `runs`.
        resources: False switches hardware sampling off.

    Raises:
        UsageError: a wrong value, or a contradictory environment.
        ArgumentTypeError: a wrong type.

    Threads: every method may be called from any thread. Blocks: never, but `finish` (up to about 5 s).
    After construction nothing raises into the caller.
    """

    def __init__(
        self,
        epochs: int | None = None,
        *,
        steps: int | None = None,
        name: str | None = None,
        config: Mapping[str, Any] | None = None,
        dir: str | os.PathLike[str] | None = None,
        resources: bool = True,
    ) -> None:
        _check_count("epochs", epochs)
        _check_count("steps", steps)
        _check_text("name", name)
        if config is not None and not isinstance(config, Mapping):
            raise ArgumentTypeError(f"config must be a mapping such as a dict, not {type(config).__name__}")
        directory = os.fspath(dir) if dir is not None else None
        self._runtime = shared_runtime(name=name, directory=directory, resources=resources)
        self._epochs_total = epochs
        self._history = History(epochs)
        self._buffer = self._runtime.buffer if self._runtime else Buffer()
        self._pulse = self._runtime.pulse if self._runtime else Pulse()
        self._inert = self._runtime is None
        self._step = 0
        self._in_batches = False
        self._epoch: OpenEpoch | None = None
        self._epoch_number = NO_EPOCH
        self._is_silent = False
        self._is_finished = False
        self._title = name or "trackside"
        self._reported_epochs = 0
        self._save_html_to: Path | None = None
        if self._runtime is not None:
            self._runtime.users += 1
            self._send_plan(epochs, steps, name, config)

    # --- logging -----------------------------------------------------------------------------------------------------

    def log(self, metrics: Mapping[str, Any], step: int | None = None, epoch: int | None = None) -> None:
        """Log any number of values.

        Args:
            metrics: Name to value: Python numbers, numpy scalars, 0-d tensors of any dtype and device, `Decimal`.
            step: None: the batch inside `batches()`, else this monitor's count of calls.
            epoch: None: the epoch that is running.

        Blocks: never; a tensor on a device is read later, when it is ready.
        """
        try:
            runtime = self._runtime
            if runtime is None or runtime.inert:
                return
            if step is None:
                step = self._step
                if not self._in_batches:
                    self._step = step + 1
            if epoch is None:
                epoch = self._epoch_number
            values = metrics.values()
            if not _plain(map(type, values)):
                self._log_converted(metrics, step, epoch)
                return
            buffer = self._buffer
            keys = tuple(metrics)
            with buffer.lock:
                columns = buffer.columns
                value = columns.value
                if len(columns.time) >= MAX_CALLS or len(value) + len(keys) > MAX_VALUES:
                    buffer.dropped_values += len(keys)
                    return
                known = buffer.layouts.get(keys)
                if known is None:
                    _check_names(keys)
                    known = buffer.layout_of(keys)
                before = len(value)
                try:
                    value.extend(values)
                    columns.step.append(step)
                    columns.epoch.append(epoch)
                except BaseException:
                    del value[before:]
                    del columns.step[len(columns.time) :]
                    raise
                columns.layout.append(known)
                columns.time.append(_now())
            self._pulse.step = step
        except Exception as error:  # noqa: BLE001 - the rank's guard
            self._refuse_call(metrics, step, epoch, error)

    def _log_converted(self, metrics: Mapping[str, Any], step: int, epoch: int) -> None:
        """Values that are not all plain: device tensors are kept as they are now, the rest is read at once."""
        now = _now()
        kept: dict[str, Any] = {}
        for key, value in metrics.items():
            name = str(key) or "unnamed"
            if is_device_tensor(value):
                kept[name] = DeviceScalar(value) if value.numel() == 1 else f"tensor of shape {tuple(value.shape)}"
                continue
            try:
                kept[name] = to_float(value)
            except Exception:  # noqa: BLE001 - the rank's guard: the send thread refuses it by name
                kept[name] = _described(value)
        self._buffer.put_pending(Pending(now, int(step), int(epoch), kept))
        self._pulse.step = int(step)

    @guarded
    def _refuse_call(self, metrics: Any, step: Any, epoch: Any, error: Exception) -> None:
        """A call that could not be taken as it was: what can be saved of it is."""
        runtime = self._runtime
        if runtime is None:
            return
        if isinstance(metrics, Mapping) and _is_int(step) and _is_int(epoch):
            self._log_converted(metrics, int(step), int(epoch))
            return
        text = f"log() was not taken: {error}; it takes a mapping of names to numbers, and whole numbers for step and epoch"
        runtime.warn_once("log", text)

    @guarded
    def event(self, title: str, text: str = "", level: Level = "info") -> None:
        """Say that something happened; shown under Events, and printed. `level`: info, warn or critical."""
        if self._runtime is not None and not self._runtime.inert:
            chosen: Level = level if level in LEVELS else "info"
            self._runtime.send(messages.UserEvent(time=_now(), title=str(title), text=str(text), level=chosen))

    # --- loops -------------------------------------------------------------------------------------------------------

    def epochs(self, count: int | None = None) -> Iterator[int]:
        """Yield 0, 1, …: each epoch is timed and reported when it ends. `count`: None: the constructor's, else endless."""
        total = count if count is not None else self._epochs_total
        number = 0
        while total is None or number < total:
            with self.epoch(number):
                yield number
            number += 1

    def epoch(self, number: int) -> AbstractContextManager[int]:
        """`with mon.epoch(7):` times and reports one epoch."""
        return self._epoch_context(number)

    @contextmanager
    def _epoch_context(self, number: int) -> Iterator[int]:
        self._open_epoch(number)
        try:
            yield number
        finally:
            self._close_epoch()

    @guarded
    def _open_epoch(self, number: int) -> None:
        pulse = self._pulse
        self._epoch = OpenEpoch(int(number), pulse.batches, pulse.samples, pulse.work_seconds)
        self._epoch_number = pulse.epoch = int(number)

    @guarded
    def _close_epoch(self) -> None:
        epoch, self._epoch = self._epoch, None
        self._epoch_number = NO_EPOCH
        if epoch is None or self._runtime is None or self._runtime.inert:
            return
        pulse = self._pulse
        batches = pulse.batches - epoch.batches_before
        counted = None if pulse.samples is None else pulse.samples - (epoch.samples_before or 0)
        self._report(
            ClosedEpoch(
                epoch=epoch.epoch,
                given=epoch.given,
                batches=batches,
                samples=epoch.samples if epoch.samples is not None else counted,
                seconds=epoch.seconds if epoch.seconds is not None else time.monotonic() - epoch.began,
                work_seconds=pulse.work_seconds - epoch.work_before if batches and pulse.own_known else None,
                ended_at=_now(),
                told=self._tell,
            )
        )

    def _report(self, closed: ClosedEpoch) -> None:
        if self._runtime is not None:
            self._reported_epochs += 1
            self._runtime.close_epoch(closed)

    def _tell(self, report: EpochReport) -> None:
        """On the send thread: keep the epoch, and print its line on the primary rank."""
        self._history.take(report)
        if self._runtime is not None and self._runtime.is_primary:
            console.say(self._history.line(report))

    def batches(self, loader: Iterable[T]) -> Iterator[T]:
        """Yield the loader's batches: data wait and step are timed, samples counted, the step number advanced."""
        pulse = self._pulse
        iterator = iter(loader)
        self._in_batches = True
        try:
            while True:
                pulse.phase = "data"
                asked = time.monotonic()
                try:
                    batch = next(iterator)
                except StopIteration:
                    return
                began, cpu = time.monotonic(), thread_cpu_seconds()
                pulse.phase, pulse.step = "step", self._step
                yield batch
                self._end_step(asked, began, cpu, batch)
        finally:
            self._in_batches = False
            pulse.phase = None

    @guarded
    def _end_step(self, asked: float, began: float, cpu: float, batch: object) -> None:
        self._step += 1
        spent = thread_cpu_seconds() - cpu
        self._pulse.add_step(began - asked, time.monotonic() - began, spent, count_samples(batch))

    @guarded
    def log_epoch(
        self, epoch: int, metrics: Mapping[str, Any], seconds: float | None = None, samples: int | None = None
    ) -> None:
        """Log values of a whole epoch, such as a validation accuracy; they also appear as points at the present step."""
        self.log(metrics, step=max(0, self._step - 1), epoch=epoch)
        given = {}
        for name, value in metrics.items():
            try:
                given[str(name)] = to_float(value)
            except (TypeError, ValueError):
                continue
        if self._epoch is not None and self._epoch.epoch == epoch:
            self._epoch.given.update(given)
            self._epoch.seconds = seconds if seconds is not None else self._epoch.seconds
            self._epoch.samples = samples if samples is not None else self._epoch.samples
            return
        self._pulse.epoch = int(epoch)
        self._report(ClosedEpoch(int(epoch), given, 0, samples, seconds, None, ended_at=_now(), told=self._tell))

    # --- what the run is ---------------------------------------------------------------------------------------------

    def serve(self, port: int | None = None) -> None:
        """Wish for a live page.

        Args:
            port: None: `TRACKSIDE_PORT`, else 7117 or the next free one.

        Raises:
            ArgumentTypeError, UsageError: not a port.
        """
        if port is not None and (isinstance(port, bool) or not isinstance(port, int)):
            raise ArgumentTypeError(f"port must be a whole number, not {type(port).__name__}")
        if port is not None and not 0 <= port < 65536:
            raise UsageError(f"port {port} is none; a port is from 1 to 65535")
        self._send(messages.PortWish(port=port))

    @guarded
    def watch(self, model: Any) -> None:
        """Tell the page which model this is: label, structural hash, parameter counts. The model is not changed."""
        label, digest, counts = describe_model(model)
        self._send(messages.SetGraph(label=label, hash=digest))
        self._send(messages.SetMetadata(watched=counts))

    @guarded
    def set_metadata(self, metadata: Any) -> None:
        """What belongs to the run; anything JSON can hold, or JSON text. The last write wins."""
        text = metadata if isinstance(metadata, str) else json.dumps(metadata, default=str)
        self._send(messages.SetMetadata(text=text))

    @guarded
    def set_svg(self, svg: str, label: str | None = None, hash: str | None = None) -> None:
        """A drawing of the model; the first one of the job is shown."""
        self._send(messages.SetGraph(svg=str(svg), label=label, hash=hash))

    @guarded
    def set_identity(self, label: str, hash: str) -> None:
        """Name and structural hash of the model."""
        self._send(messages.SetGraph(label=str(label), hash=str(hash)))

    def _send(self, message: messages.Upward) -> None:
        if self._runtime is not None and not self._runtime.inert:
            self._runtime.send(message)

    @guarded
    def _send_plan(
        self, epochs: int | None, steps: int | None, name: str | None, config: Mapping[str, Any] | None
    ) -> None:
        text = json.dumps(dict(config), default=str) if config is not None else None
        self._send(messages.SetPlan(epochs=epochs, steps=steps, name=name, config=text))

    # --- afterwards --------------------------------------------------------------------------------------------------

    @guarded
    def history(self) -> list[dict[str, Any]]:
        """This rank's epochs: `epoch`, `seconds`, `samples`, and `metrics` by name."""
        self._settle_epochs()
        return [
            {"epoch": r.epoch, "seconds": r.seconds, "samples": r.samples, "metrics": dict(r.metrics)}
            for r in self._history.reports()
        ]

    @guarded
    def export_csv(self, path: str | os.PathLike[str]) -> None:
        """Write this rank's epochs as CSV; an unwritable path is a warning."""
        self._settle_epochs()
        self._write(Path(path), self._history.write_csv)

    @guarded
    def write_log(self, path: str | os.PathLike[str]) -> None:
        """Write this rank's epoch lines as text; an unwritable path is a warning."""
        self._settle_epochs()
        self._write(Path(path), lambda target: self._history.write_log(target, self._title))

    @guarded
    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Keep a copy of the report at `path`, made when the run has ended (on the controller's host)."""
        self._save_html_to = Path(path).absolute()

    def silent_summary(self) -> None:
        """Print no closing line."""
        self._is_silent = True

    def finish(self) -> None:
        """Deliver everything and end. Idempotent. Blocks: up to about 5 s, and says what could not be delivered."""
        if self._is_finished:
            return
        self._is_finished = True
        self._finish()

    @guarded
    def _finish(self) -> None:
        runtime = self._runtime
        if runtime is None or runtime.inert:
            return
        if self._epoch is not None:
            self._close_epoch()
        runtime.users -= 1
        if runtime.users > 0:
            return
        runtime.finish()
        if runtime.is_primary and not self._is_silent and self._history.reports():
            console.say(self._history.end_line())
        if self._save_html_to is not None:
            self._copy_report(runtime, self._save_html_to)

    def _copy_report(self, runtime: Runtime, target: Path) -> None:
        if runtime.directory is None:
            console.say(f"  trackside: no report at {target}: there was no controller")
            return
        report = Path(runtime.directory) / "report.html"
        deadline = time.monotonic() + 5.0
        while not report.is_file() and time.monotonic() < deadline:
            time.sleep(0.05)
        if report.is_file():
            self._write(target, lambda path: shutil.copyfile(report, path))
        else:
            console.say(f"  trackside: the report is not written yet; it will be {report}")

    def _write(self, path: Path, write: Any) -> None:
        try:
            write(path)
        except OSError as error:
            console.say(f"  trackside: {path} was not written: {error.strerror}")

    def _settle_epochs(self) -> None:
        """Wait for the send thread to have seen all closed epochs. Blocks: up to a second."""
        deadline = time.monotonic() + 1.0
        while len(self._history.reports()) < self._reported_epochs and time.monotonic() < deadline:
            if threading.current_thread().name == "trackside-send":
                return
            time.sleep(0.005)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and self._runtime is not None and not issubclass(kind, SystemExit):
            self._runtime.failed = True
        self.finish()

    def __reduce__(self) -> tuple[Any, ...]:
        """In another process a monitor is a stranger and does nothing."""
        return (_inert_monitor, ())


def _inert_monitor() -> Monitor:
    monitor = Monitor.__new__(Monitor)
    monitor.__dict__.update(
        _runtime=None,
        _epochs_total=None,
        _history=History(None),
        _buffer=Buffer(),
        _pulse=Pulse(),
        _inert=True,
        _step=0,
        _in_batches=False,
        _epoch=None,
        _epoch_number=NO_EPOCH,
        _is_silent=True,
        _is_finished=True,
        _title="trackside",
        _reported_epochs=0,
        _save_html_to=None,
    )
    return monitor


def _check_count(name: str, value: object) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise ArgumentTypeError(f"{name} must be a whole number or None, not {value!r}")
    if value < 1:
        raise UsageError(f"{name}={value} is too small; it must be 1 or more, or None when unknown")


def _check_text(name: str, value: object) -> None:
    if value is not None and not isinstance(value, str):
        raise ArgumentTypeError(f"{name} must be text, not {type(value).__name__}")
    if value == "":
        raise UsageError(f"{name} is empty; leave it out, or give it a word")


def _check_names(keys: tuple[Any, ...]) -> None:
    for key in keys:
        if type(key) is not str or not key:
            raise TypeError(f"the name {key!r} is no text")


def _is_int(value: object) -> bool:
    try:
        return int(value) == value  # type: ignore[call-overload, no-any-return]
    except (TypeError, ValueError, OverflowError):
        return False


def _described(value: object) -> str:
    try:
        text = f"{type(value).__name__} {value!r}"
    except Exception:  # noqa: BLE001 - the rank's guard: a user's __repr__ may do anything
        text = type(value).__name__
    return text if len(text) <= 80 else text[:77] + "..."
