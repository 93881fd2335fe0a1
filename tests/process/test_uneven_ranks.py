"""Ranks that differ, in a real job over gloo: in speed, in share of the batch, in what they log and when."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.job import Job, wait_for

STEPS = 72


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    started = Job.run("uneven.py", tmp_path_factory.mktemp("uneven"))
    try:
        assert started.wait(120) == 0, started.stderr
        yield started
    finally:
        started.close()


def test_b36_the_slow_rank_has_the_lower_throughput_although_step_times_are_equal(job: Job) -> None:
    quick, slow = job.document()["rank_entries"]
    assert quick["step_seconds"] == pytest.approx(slow["step_seconds"], rel=0.5)
    assert slow["own_step_seconds"] > 0.055
    assert quick["own_step_seconds"] < 0.75 * slow["own_step_seconds"]
    assert slow["throughput"] * slow["own_step_seconds"] == pytest.approx(48, rel=0.5)
    assert quick["throughput"] > 1.5 * 16 / quick["step_seconds"]
    assert slow["throughput"] / 48 < 0.75 * quick["throughput"] / 16


def test_b36_shares_of_the_batch_are_by_samples_and_sum_to_one(job: Job) -> None:
    assert [entry["batch_share"] for entry in job.document()["rank_entries"]] == [0.25, 0.75]
    assert [entry["samples"] for entry in job.document()["rank_entries"]] == [16 * STEPS, 48 * STEPS]


def test_b35_b39_d14_a_rank_without_a_metric_does_not_count_in_it(job: Job) -> None:
    metrics = {metric["name"]: metric for metric in job.document()["metrics"]}
    counts = {name: metric["rank_count"] for name, metric in metrics.items()}
    assert list(counts.items()) == [("loss", 1), ("late", 2), ("samples", 2), ("stage0/active", 1)]
    assert (metrics["loss"]["last"], metrics["stage0/active"]["last"]) == (0.25, 2.0)
    frame = job.points()
    assert frame[frame.series == "loss"]["rank"].unique().tolist() == [1]
    assert len(frame[frame.series == "loss"]) == STEPS


def test_b38_a_metric_is_reduced_as_one_rank_declared_it(job: Job) -> None:
    import pandas as pd

    (samples,) = [metric for metric in job.document()["metrics"] if metric["name"] == "samples"]
    assert (samples["reduction"], samples["unit"], samples["last"]) == ("sum", "samples", 64.0)
    epochs = pd.read_parquet(job.folder() / "epochs.parquet")
    assert [dict(metrics)["samples"] for metrics in epochs.metrics] == [64.0] * 6


def test_b34_every_epoch_is_there_in_order_over_both_ranks(job: Job) -> None:
    import pandas as pd

    epochs = pd.read_parquet(job.folder() / "epochs.parquet")
    assert epochs.epoch.tolist() == list(range(6))
    assert epochs.ranks.tolist() == [2] * 6
    assert epochs.samples.tolist() == [64 * 12] * 6


def test_lesson_a_metric_that_began_late_begins_where_it_began(job: Job) -> None:
    metrics = {metric["name"]: metric for metric in job.document()["metrics"]}
    assert (metrics["late"]["first_step"], metrics["loss"]["first_step"]) == (60, 0)
    frame = job.points()
    late = frame[frame.series == "late"]
    assert (late.step.min(), sorted(late.epoch.unique().tolist())) == (60, [5])


def test_b37_curves_and_gauges_move_inside_the_only_epoch(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import time, pathlib, trackside\n"
        "mon = trackside.Monitor(epochs=1)\n"
        "mon.serve(0)\n"
        "with mon.epoch(0):\n"
        "    step = 0\n"
        "    while not pathlib.Path('go').exists() and step < 20_000:\n"
        "        mon.log({'loss': 1 / (1 + step)}); step += 1; time.sleep(0.01)\n"
        "mon.finish()\n"
    )
    job = Job([sys.executable, str(script)], tmp_path)
    try:
        seen = wait_for(lambda: job.get("api/v1/series?metric=loss")["x"], 30, "points")
        wait_for(lambda: len(job.get("api/v1/series?metric=loss")["x"]) > len(seen) + 20, 30, "more points")
        wait_for(lambda: len(job.get("api/v1/resources?path=root")) > 1, 30, "samples of the hardware")
        assert job.get("api/v1/epochs") == []
        assert job.get("api/v1/run")["epoch"] == 0
        (tmp_path / "go").touch()
        assert job.wait() == 0, job.stderr
    finally:
        job.close()
