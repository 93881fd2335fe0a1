"""This rank's epochs so far: lines on the terminal, CSV, log."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import msgspec

from trackside.monitor import console
from trackside.wire.messages import EpochReport, ResourceSample

ETA_EPOCHS = 5
MOST_EPOCHS = 20_000
"""Kept at hand; about 1.5 kB each."""
RESOURCE_COLUMNS = ("cpu_pct", "ram_used", "gpu_pct", "vram_used", "vram_total")
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


@dataclass(frozen=True, slots=True)
class Figures:
    """What the hardware did when an epoch ended; None: unknown. Ratios and bytes."""

    cpu: float | None = None
    memory_used: int | None = None
    gpu: float | None = None
    vram_used: int | None = None
    vram_total: int | None = None
    device: int | None = None
    """Index of the rank's GPU, as the driver counts."""

    @classmethod
    def of(cls, sample: ResourceSample | None) -> "Figures":
        """Figures of the latest sample: the host's where this rank samples it, else the rank's own."""
        if sample is None:
            return cls()
        source = sample.host if sample.host is not None else sample.rank
        memory = sample.host.memory_used if sample.host else sample.rank.memory if sample.rank else None
        gpu = sample.rank.gpu if sample.rank is not None else None
        return cls(
            cpu=source.cpu if source is not None else None,
            memory_used=memory,
            gpu=gpu.util if gpu else None,
            vram_used=gpu.memory_used if gpu else None,
            vram_total=gpu.memory_total if gpu else None,
            device=gpu.index if gpu else None,
        )

    def line_part(self) -> str:
        """The end of an epoch's line."""
        if self.device is None:
            return ""
        return console.device_part(self.device, self.vram_used, self.vram_total, self.gpu)

    def cells(self) -> list[str]:
        """Cells of `RESOURCE_COLUMNS`; unknown is empty."""
        ratios = (self.cpu, self.gpu)
        cpu, gpu = ("" if ratio is None else f"{ratio * 100:.1f}" for ratio in ratios)
        memory, used, total = (
            "" if count is None else str(count) for count in (self.memory_used, self.vram_used, self.vram_total)
        )
        return [cpu, memory, gpu, used, total]


class History:
    """Keeps the latest epochs' reports.

    Args:
        total: Epochs the job means to run; None: unknown.
        clock: Monotonic seconds.

    Threads: any.
    """

    def __init__(self, total: int | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.total = total
        self.counts_from_zero = False
        """Whether epoch 0 is the first, so that people are told one more."""
        self._reports: dict[int, EpochReport] = {}
        self._figures: dict[int, Figures] = {}
        self._lock = threading.Lock()
        self._clock = clock
        self._began = clock()
        self._ended: float | None = None

    def close(self) -> None:
        """Training is complete: from now on its time stands still. Idempotent."""
        self._ended = self._clock() if self._ended is None else self._ended

    def take(self, report: EpochReport, figures: Figures) -> tuple[EpochReport, bool]:
        """Keep an epoch.

        A second report of the same epoch amends the first: what it does not say stays as it was.

        Returns:
            The whole report, and whether the epoch is new.
        """
        with self._lock:
            known = self._reports.get(report.epoch)
            if known is not None:
                report = _amended(known, report)
            self.counts_from_zero = self.counts_from_zero or report.epoch == 0
            self._reports[report.epoch] = report
            self._figures.setdefault(report.epoch, figures)
            while len(self._reports) > MOST_EPOCHS:
                oldest = next(iter(self._reports))
                del self._reports[oldest], self._figures[oldest]
            return report, known is None

    def reports(self) -> list[EpochReport]:
        """The epochs at hand, in the order they came."""
        with self._lock:
            return list(self._reports.values())

    def line(self, report: EpochReport) -> str:
        """The epoch's line with ETA and resources."""
        number = self.ordinal(report.epoch)
        eta_s = self._eta_seconds(number)
        device = self._figures.get(report.epoch, Figures()).line_part()
        return console.epoch_line(number, self.total, report.metrics, report.seconds, eta_s, device)

    def _eta_seconds(self, number: int) -> float | None:
        """From the mean of the last epochs of this session; None without a total, a basis, or anything left."""
        seconds = [r.seconds for r in self.reports() if r.seconds is not None][-ETA_EPOCHS:]
        if self.total is None or not seconds or number >= self.total:
            return None
        return (self.total - number) * sum(seconds) / len(seconds)

    def ordinal(self, epoch: int) -> int:
        """Which epoch it is to people: the first is 1, whether the script counts from 0 or from 1."""
        return epoch + 1 if self.counts_from_zero else epoch

    def end_line(self) -> str:
        """The closing line."""
        reports = self.reports()
        loss = reports[-1].metrics.get("loss") if reports else None
        ended = self._clock() if self._ended is None else self._ended
        return console.end_line(ended - self._began, loss)

    def write_csv(self, path: Path) -> None:
        """Columns are the union over all epochs, `loss` first; unknown cells are empty. Raises: OSError."""
        import csv

        reports = self.reports()
        names = console.order_metrics({name for report in reports for name in report.metrics})
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(_Lines(file), lineterminator="\r\n")
            writer.writerow(["epoch", "duration_s", *map(_text_cell, names), *RESOURCE_COLUMNS])
            for report in reports:
                seconds = "" if report.seconds is None else f"{report.seconds:.3f}"
                values = [_number_cell(report.metrics.get(name)) for name in names]
                writer.writerow([report.epoch, seconds, *values, *self._figures.get(report.epoch, Figures()).cells()])

    def write_log(self, path: Path, title: str) -> None:
        """A header, a line an epoch without ETA and resources, a closing total. Raises: OSError."""
        lines = [f"# {console.clean(title)}"]
        for report in self.reports():
            number = self.ordinal(report.epoch)
            lines.append(console.epoch_line(number, self.total, report.metrics, report.seconds, None))
        lines.append(self.end_line())
        path.write_text("\n".join(lines) + "\n", encoding="utf-8", errors="replace")


def _amended(known: EpochReport, new: EpochReport) -> EpochReport:
    return msgspec.structs.replace(
        new,
        metrics={**known.metrics, **new.metrics},
        batches=new.batches or known.batches,
        samples=new.samples if new.samples is not None else known.samples,
        seconds=new.seconds if new.seconds is not None else known.seconds,
        work_seconds=new.work_seconds if new.work_seconds is not None else known.work_seconds,
    )


class _Lines:
    """Where csv writes its rows: only with this line end does it quote a carriage return in a name."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, row: str) -> None:
        self._file.write(row[:-2] + "\n")


def _number_cell(value: float | None) -> str:
    return "" if value is None else repr(value)


def _text_cell(name: str) -> str:
    """A name that no spreadsheet takes for a formula."""
    text = name.encode("utf-8", "replace").decode("utf-8")
    return "'" + text if text.startswith(_FORMULA) else text
