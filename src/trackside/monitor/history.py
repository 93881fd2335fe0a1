"""This rank's epochs so far: lines on the terminal, CSV, log."""

import csv
import threading
import time
from pathlib import Path

from trackside.monitor import console
from trackside.wire.messages import EpochReport

ETA_EPOCHS = 5
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class History:
    """Keeps every epoch's report. Threads: any."""

    def __init__(self, total: int | None) -> None:
        self.total = total
        self._reports: dict[int, EpochReport] = {}
        self._devices: dict[int, tuple[int | None, int | None, float | None]] = {}
        self._order: list[int] = []
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._first: int | None = None

    def take(self, report: EpochReport) -> None:
        """An epoch is known; a later report of the same epoch amends it."""
        with self._lock:
            if report.epoch not in self._reports:
                self._order.append(report.epoch)
            self._reports[report.epoch] = report
            self._first = report.epoch if self._first is None else min(self._first, report.epoch)

    def reports(self) -> list[EpochReport]:
        """Every epoch, in the order they came."""
        with self._lock:
            return [self._reports[epoch] for epoch in self._order]

    def line(self, report: EpochReport) -> str:
        """The epoch's line with ETA."""
        number = self.ordinal(report.epoch)
        left = self.total - number if self.total else None
        seconds = [r.seconds for r in self.reports() if r.seconds is not None][-ETA_EPOCHS:]
        eta = left * sum(seconds) / len(seconds) if left and left > 0 and seconds else None
        return console.epoch_line(number, self.total, report.metrics, report.seconds, eta)

    def ordinal(self, epoch: int) -> int:
        """Which epoch it is to people: the first is 1, whether the script counts from 0 or from 1."""
        return epoch + 1 if self._first == 0 else epoch

    def end_line(self) -> str:
        """The closing line."""
        reports = self.reports()
        loss = reports[-1].metrics.get("loss") if reports else None
        return console.end_line(time.monotonic() - self._began, loss)

    def write_csv(self, path: Path) -> None:
        """Columns are the union over all epochs, `loss` first; unknown cells are empty. Raises: OSError."""
        reports = self.reports()
        names = console.order_metrics(sorted({name for report in reports for name in report.metrics}))
        resources = ["cpu_pct", "ram_used", "gpu_pct", "vram_used", "vram_total"]
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["epoch", "duration_s", *map(_cell, names), *resources])
            for report in reports:
                values = [report.metrics.get(name, "") for name in names]
                seconds = "" if report.seconds is None else f"{report.seconds:.3f}"
                writer.writerow([report.epoch, seconds, *values, *[""] * len(resources)])

    def write_log(self, path: Path, title: str) -> None:
        """A header, a line an epoch without ETA and resources, a closing total. Raises: OSError."""
        lines = [f"# {title}"]
        for report in self.reports():
            number = self.ordinal(report.epoch)
            lines.append(console.epoch_line(number, self.total, report.metrics, report.seconds, None))
        lines.append(self.end_line())
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _cell(name: str) -> str:
    return "'" + name if name.startswith(_FORMULA) else name
