"""What a disk that is full, hangs or is taken away costs: never the training, never the page, and no point that came back."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.disk import FreezableDisk, SmallDisk, can_mount
from tests.faults.job import WatchedTraining
from tests.faults.outcomes import Tell
from tests.process.job import wait_for

pytestmark = [
    pytest.mark.usefixtures("leak_check"),
    pytest.mark.skipif(not can_mount(), reason="mounting a file system needs root"),
]
Watch = Callable[..., WatchedTraining]


@pytest.fixture
def small(tmp_path: Path) -> Iterator[SmallDisk]:
    disk = SmallDisk(tmp_path / "disk", 8)
    yield disk
    disk.close()


@pytest.fixture
def freezable(tmp_path: Path) -> Iterator[FreezableDisk]:
    disk = FreezableDisk(tmp_path / "disk", tmp_path / "disk.img")
    yield disk
    disk.close()


def wait_until_stalled(training: WatchedTraining) -> str:
    """Until the page says that nothing is persisted; returns the warning."""
    wait_for(lambda: training.get("api/v1/run")["not_persisted_since"], 60, "the page says that nothing is persisted")
    return " ".join(f"{warning['kind']}: {warning['text']}" for warning in training.get("api/v1/run")["warnings"])


def assert_goes_on(training: WatchedTraining) -> None:
    """The page is live and the training goes on."""
    at = training.step()
    wait_for(lambda: training.step() > at + 30, 30, "news on the page")


def test_d51_d52_a_full_disk_stops_nothing_and_costs_nothing(small: SmallDisk, watch: Watch, tell: Tell) -> None:
    training = watch(runs=small.path)
    training.wait_for_step(50)
    small.fill()
    assert "space" in wait_until_stalled(training)
    assert_goes_on(training)
    small.free()
    wait_for(
        lambda: training.get("api/v1/run")["not_persisted_since"] is None, 60, "the page says that it persists again"
    )
    training.end()
    training.settle()
    training.assert_complete()
    assert training.report()["run"]["state"] == "finished"
    assert any("persist" in event["kind"] or "disk" in event["kind"] for event in training.events())
    tell(
        "the run folder's disk is full for a while",
        training="same",
        points="all, each once",
        page="live, and not persisted since when, and why",
        report="finished",
    )


@pytest.mark.long
def test_what_a_disk_that_stays_full_did_not_take_is_there_for_later(
    small: SmallDisk, watch: Watch, tell: Tell
) -> None:
    training = watch(runs=small.path, exits=4)
    training.wait_for_step(50)
    small.fill()
    wait_until_stalled(training)
    said = training.end()
    assert "not delivered" in said
    training.controller.process.terminate()
    training.controller.wait(90)
    assert (training.controller.folder / "journal").is_dir()
    small.free()
    training.controller.resume()
    training.settle()
    training.assert_complete()
    tell(
        "the run folder's disk stays full",
        training="same",
        points="all: what was not taken lies in a file that is named, and is taken in later",
        page="live, and not persisted since when, and why",
        report="written by the controller that comes back",
    )


@pytest.mark.long
def test_a_disk_that_hangs_stops_the_store_alone(freezable: FreezableDisk, watch: Watch, tell: Tell) -> None:
    training = watch(runs=freezable.path)
    training.wait_for_step(50)
    freezable.freeze()
    wait_until_stalled(training)
    assert_goes_on(training)
    freezable.thaw()
    wait_for(
        lambda: training.get("api/v1/run")["not_persisted_since"] is None, 60, "the page says that it persists again"
    )
    training.end()
    training.settle()
    training.assert_complete()
    tell(
        "the run folder's disk is frozen for a while",
        training="same",
        points="all, each once",
        page="live, and not persisted since when",
        report="finished",
    )


@pytest.mark.long
def test_a_training_ends_in_time_while_the_disk_hangs(freezable: FreezableDisk, watch: Watch, tell: Tell) -> None:
    training = watch(runs=freezable.path, exits=5)
    training.wait_for_step(50)
    freezable.freeze()
    wait_until_stalled(training)
    try:
        said = training.end(seconds=30)
    finally:
        freezable.thaw()
    assert (
        "not delivered" in said
        or training.controller.process.poll() is not None
        or training.step() == training.steps - 1
    )
    training.settle()
    training.assert_complete()
    tell(
        "the run folder's disk is frozen when the training ends",
        training="same, and ends in time",
        points="all, each once",
        page="live, and not persisted since when",
        report="finished",
    )


def test_a_run_folder_that_is_removed_is_made_again(watch: Watch, tell: Tell) -> None:
    """What was in it is gone; what comes is kept, and the run says so."""
    training = watch()
    training.wait_for_step(50)
    shutil.rmtree(training.controller.folder)
    assert_goes_on(training)
    training.end()
    training.settle()
    assert training.document()["state"] == "finished"
    assert len(training.points()) > 0
    tell(
        "the run folder is removed",
        training="same",
        points="what came before is gone with it; what comes is kept",
        page="goes on",
        report="finished",
    )
