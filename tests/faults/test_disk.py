"""What a disk that is full, hangs or is taken away costs: never the training, never the page, and no point that came back."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.disk import FreezableDisk, SmallDisk, can_mount
from tests.faults.job import WatchedTraining
from tests.faults.outcomes import Tell, show
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


def test_d51_d52_a_full_disk_stops_nothing_and_costs_nothing(small: SmallDisk, watch: Watch, tell: Tell) -> None:
    training = watch(runs=small.path)
    training.wait_for_step(50)
    small.fill()
    stalled = training.stalls("No space left on device")
    small.free()
    training.persists_again()
    training.end()
    training.settle()
    tell(
        "the run folder's disk is full for a while",
        training=training.same(),
        points=training.complete(),
        page=(stalled, training.page_ended()),
        report=training.reported(),
    )


@pytest.mark.long
def test_what_a_disk_that_stays_full_did_not_take_is_there_for_later(
    small: SmallDisk, watch: Watch, tell: Tell
) -> None:
    training = watch(runs=small.path, exits=4)
    training.wait_for_step(50)
    small.fill()
    stalled = training.stalls("No space left on device")
    training.end()
    (named,) = training.undelivered()
    left = show("what was not taken lies in a file that is named", named.exists(), True)
    training.controller.process.terminate()
    training.controller.wait(90)
    assert (training.controller.folder / "journal").is_dir()
    assert not (training.controller.folder / "report.html").exists()
    small.free()
    training.controller.resume()
    training.settle()
    tell(
        "the run folder's disk stays full",
        training=training.same(),
        points=(left, show("is taken in later", named.exists(), False), training.complete()),
        page=stalled,
        report=training.reported(words="finished, with all points; written by the controller that comes back"),
    )


@pytest.mark.long
def test_a_disk_that_hangs_stops_the_store_alone(freezable: FreezableDisk, watch: Watch, tell: Tell) -> None:
    training = watch(runs=freezable.path)
    training.wait_for_step(50)
    freezable.freeze()
    stalled = training.stalls("the disk has not answered")
    freezable.thaw()
    training.persists_again()
    training.end()
    training.settle()
    tell(
        "the run folder's disk is frozen for a while",
        training=training.same(),
        points=training.complete(),
        page=(stalled, training.page_ended()),
        report=training.reported(),
    )


@pytest.mark.long
def test_a_training_ends_in_time_while_the_disk_hangs(freezable: FreezableDisk, watch: Watch, tell: Tell) -> None:
    training = watch(runs=freezable.path, exits=5)
    training.wait_for_step(50)
    freezable.freeze()
    stalled = training.stalls("the disk has not answered")
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
    tell(
        "the run folder's disk is frozen when the training ends",
        training=training.same("same, and ends within 30 s"),
        points=training.complete(),
        page=stalled,
        report=training.reported(),
    )


def test_a_run_folder_that_is_removed_is_made_again(watch: Watch, tell: Tell) -> None:
    """What was in it is gone, and what was on its way to a file that was open; what comes is kept, and the run says so."""
    training = watch()
    training.wait_for_step(50)
    shutil.rmtree(training.controller.folder)
    wait_for(lambda: list(training.controller.folder.glob("journal/*.log")), 60, "a new journal")
    kept_from = training.told()
    goes_on = show("goes on", training.moves_on(), True)
    training.end()
    training.settle()
    steps = [step for step, _ in training.points()]
    later = [step for step in steps if step >= kept_from]
    tell(
        "the run folder is removed",
        training=training.same(),
        points=(
            show("what came before may be gone with it; nothing is there twice", len(steps), len(set(steps))),
            show("what comes is kept", later, list(range(kept_from, training.steps))),
        ),
        page=(goes_on, training.page_ended()),
        report=show("finished", training.report()["run"]["state"], "finished"),
    )
