"""A rank's own epochs: amended, timed, exported."""

import csv
import math
from pathlib import Path

import pytest

from trackside.monitor.history import MOST_EPOCHS, Figures, History
from trackside.wire.messages import EpochReport, GpuSample, HostSample, RankSample, ResourceSample


def report(epoch: int, seconds: float | None = None, **metrics: float) -> EpochReport:
    return EpochReport(epoch=epoch, metrics=metrics, seconds=seconds)


def test_a_later_report_amends_and_what_it_does_not_say_stays() -> None:
    history = History(2)
    first = EpochReport(epoch=0, metrics={"loss": 1.0}, batches=5, samples=20, seconds=2.0, work_seconds=1.0)
    assert history.take(first, Figures()) == (first, True)
    whole, is_new = history.take(report(0, val_acc=0.5), Figures())
    assert not is_new
    assert whole == EpochReport(
        epoch=0, metrics={"loss": 1.0, "val_acc": 0.5}, batches=5, samples=20, seconds=2.0, work_seconds=1.0
    )
    assert history.reports() == [whole]


def test_epochs_without_end_are_kept_up_to_a_bound(tmp_path: Path) -> None:
    history = History(None)
    for epoch in range(MOST_EPOCHS + 5):
        history.take(report(epoch, loss=1.0), Figures())
    assert [kept.epoch for kept in history.reports()] == list(range(5, MOST_EPOCHS + 5))
    history.write_csv(tmp_path / "epochs.csv")
    assert len((tmp_path / "epochs.csv").read_text().splitlines()) == MOST_EPOCHS + 1


def test_b46_eta_is_from_the_last_five_epochs_of_this_session() -> None:
    history = History(20)
    for epoch in range(10, 17):
        whole, _ = history.take(report(epoch, 100.0 if epoch < 12 else 2.0, loss=1.0), Figures())
    history.counts_from_zero = True
    assert history.line(whole) == "  epoch 17/20  loss=1.0000  [2.0s  ETA 6.0s]"


def test_b46_eta_is_unknown_without_a_basis_and_absent_at_the_end() -> None:
    history = History(2)
    whole, _ = history.take(report(0, None, loss=1.0), Figures())
    assert history.line(whole) == "  epoch 1/2  loss=1.0000"
    whole, _ = history.take(report(1, 0.5, loss=1.0), Figures())
    assert history.line(whole) == "  epoch 2/2  loss=1.0000  [500ms]"
    endless = History(None)
    whole, _ = endless.take(report(1, 0.5), Figures())
    assert endless.line(whole) == "  epoch 1  [500ms]"


SAMPLE = ResourceSample(
    time=0.0,
    interval_seconds=2.0,
    host=HostSample(cpu=0.5, memory_used=1000),
    rank=RankSample(cpu=0.1, memory=10, gpu=GpuSample(index=1, util=0.25, memory_used=20, memory_total=40)),
)


def test_figures_are_the_hosts_where_it_is_sampled_and_unknown_is_none() -> None:
    assert Figures.of(SAMPLE) == Figures(cpu=0.5, memory_used=1000, gpu=0.25, vram_used=20, vram_total=40, device=1)
    alone = ResourceSample(time=0.0, interval_seconds=2.0, rank=RankSample(cpu=0.1, memory=10))
    assert Figures.of(alone) == Figures(cpu=0.1, memory_used=10)
    assert Figures.of(None) == Figures()


def test_b48_csv_columns_are_the_union_and_rows_never_shift(tmp_path: Path) -> None:
    history = History(3)
    history.take(report(0, 1.5, loss=0.5), Figures.of(SAMPLE))
    history.take(report(1, None, acc=math.nan, loss=0.25, **{'=cmd("x")': 1.0}), Figures())
    path = tmp_path / "epochs.csv"
    history.write_csv(path)
    with path.open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows == [
        [
            "epoch",
            "duration_s",
            "loss",
            '\'=cmd("x")',
            "acc",
            "cpu_pct",
            "ram_used",
            "gpu_pct",
            "vram_used",
            "vram_total",
        ],
        ["0", "1.500", "0.5", "", "", "50.0", "1000", "25.0", "20", "40"],
        ["1", "", "0.25", "1.0", "nan", "", "", "", "", ""],
    ]


def test_b49_log_has_a_header_a_line_an_epoch_and_a_total(tmp_path: Path) -> None:
    now = 100.0
    history = History(2, clock=lambda: now)
    history.take(report(0, 1.5, loss=0.5), Figures.of(SAMPLE))
    history.take(report(1, 1.0, loss=0.25), Figures())
    now = 102.8
    history.write_log(tmp_path / "epochs.log", "my run")
    assert (tmp_path / "epochs.log").read_text().splitlines() == [
        "# my run",
        "  epoch 1/2  loss=0.5000  [1.5s]",
        "  epoch 2/2  loss=0.2500  [1.0s]",
        "  training complete in 2.8s  | loss: 0.2500",
    ]


def test_b48_every_row_is_as_wide_as_the_header_whatever_an_epoch_has(tmp_path: Path) -> None:
    history = History(None)
    history.take(report(3, 2.0, late=1.0), Figures(cpu=0.25))
    history.take(report(4), Figures())
    history.take(report(5, 0.1234, loss=-0.0, **{"a,b": 1e-300, 'q"x': math.inf, "zwei\nZeilen": 2.0}), Figures())
    history.take(report(3, None, loss=7.0), Figures(cpu=0.75))
    path = tmp_path / "epochs.csv"
    history.write_csv(path)
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    names = ["epoch", "duration_s", "loss", "a,b", "late", 'q"x', "zwei\nZeilen"]
    figures = ["cpu_pct", "ram_used", "gpu_pct", "vram_used", "vram_total"]
    assert [list(row) for row in rows] == [names + figures] * 3
    assert [list(row.values()) for row in rows] == [
        ["3", "2.000", "7.0", "", "1.0", "", "", "25.0", "", "", "", ""],
        ["4", "", "", "", "", "", "", "", "", "", "", ""],
        ["5", "0.123", "-0.0", "1e-300", "", "inf", "2.0", "", "", "", "", ""],
    ]


def test_b48_without_an_epoch_there_is_a_header(tmp_path: Path) -> None:
    History(3).write_csv(tmp_path / "epochs.csv")
    assert (tmp_path / "epochs.csv").read_text() == ("epoch,duration_s,cpu_pct,ram_used,gpu_pct,vram_used,vram_total\n")


def test_b49_the_total_stands_still_once_training_is_complete(tmp_path: Path) -> None:
    now = 100.0
    history = History(100, clock=lambda: now)
    history.take(report(4, 0.049, loss=1.5264, acc=0.5), Figures.of(SAMPLE))
    now = 101.5
    history.close()
    now = 900.0
    history.close()
    history.write_log(tmp_path / "epochs.log", "two\nlines\x1b[2J")
    assert (tmp_path / "epochs.log").read_text().splitlines() == [
        "# two\ufffdlines\ufffd[2J",
        "  epoch   4/100  loss=1.5264  acc=0.5000  [49ms]",
        "  training complete in 1.5s  | loss: 1.5264",
    ]


@pytest.mark.parametrize(("epochs", "ordinals"), [((0, 1), [1, 2]), ((1, 2), [1, 2]), ((5,), [5])])
def test_people_count_from_one(epochs: tuple[int, ...], ordinals: list[int]) -> None:
    history = History(10)
    for epoch in epochs:
        history.take(report(epoch), Figures())
    assert [history.ordinal(epoch) for epoch in epochs] == ordinals
