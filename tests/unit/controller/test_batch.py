"""Which run a requeued job goes on with."""

import json
from pathlib import Path

import pytest

from trackside.controller.batch import BatchJob, JobRecord, find_job, former_runs, save_record
from trackside.controller.beginning import begin
from trackside.controller.config import ControllerConfig
from trackside.controller.identity import save_identity
from trackside.store import RunFolder


@pytest.mark.parametrize(
    ("environ", "id", "restarts"),
    [
        ({"SLURM_JOB_ID": "7"}, "7", 0),
        ({"SLURM_JOBID": "7", "SLURM_RESTART_COUNT": "2"}, "7", 2),
        ({"SLURM_JOB_ID": "9", "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "3"}, "7_3", 0),
        ({"SLURM_JOB_ID": "8", "SLURM_HET_JOB_ID": "7"}, "7", 0),
        ({"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": "?"}, "7", 0),
    ],
)
def test_d41_a_job_is_known_by_what_a_requeue_leaves_as_it_was(environ: dict[str, str], id: str, restarts: int) -> None:
    assert find_job(environ) == BatchJob(id=f"Slurm job {id}", restarts=restarts)


def test_without_a_batch_system_there_is_no_job() -> None:
    assert find_job({"SLURM_JOB_ID": ""}) is None


def job(restarts: int, id: str = "7", cluster: str = "") -> BatchJob:
    return BatchJob(id=id, cluster=cluster, restarts=restarts)


def record(of: BatchJob, part: str = "", name: str = "train", at: float = 0.0) -> JobRecord:
    return JobRecord(job=of, name=name, part=part, started_at=at)


@pytest.fixture
def run(tmp_path: Path):
    """Makes a run folder of a job."""

    def make(known: JobRecord, state: str = "failed") -> str:
        folder = RunFolder.create(tmp_path, known.name, known.started_at)
        folder.document.write_text(json.dumps({"state": state}))
        save_record(folder, known)
        return folder.path.name

    return make


def found(tmp_path: Path, wanted: JobRecord) -> list[str]:
    return [path.name for path in former_runs(tmp_path, wanted)]


def test_d43_only_earlier_starts_of_the_same_job_are_gone_on_with(tmp_path: Path, run) -> None:
    own = run(record(job(0)))
    run(record(job(0, id="8")))
    run(record(job(0, cluster="other")))
    run(record(job(0), name="train-more"))
    run(record(job(2)))
    assert found(tmp_path, record(job(2))) == [own]
    assert found(tmp_path, record(job(0))) == [], "two starts of one allocation are two runs"


def test_d43_the_same_command_goes_before_the_order_and_a_finished_run_is_its_own_commands_only(
    tmp_path: Path, run
) -> None:
    first = run(record(job(0), part="--lr 1", at=1.0), state="finished")
    second = run(record(job(0), part="--lr 2", at=2.0))
    third = run(record(job(0), part="--lr 2", at=3.0))
    assert found(tmp_path, record(job(1), part="--lr 2")) == [second, third]
    assert found(tmp_path, record(job(1), part="--lr 1")) == [first, second, third]
    assert found(tmp_path, record(job(1), part="--lr 2 --resume")) == [second, third]


def test_d42_the_job_is_kept_from_the_first_moment_on(tmp_path: Path) -> None:
    first = begin(ControllerConfig(directory=tmp_path, name="train", job=job(0), part="p"))
    save_identity(first.folder, first.identity)
    first.lock.release()
    again = begin(ControllerConfig(directory=tmp_path, name="train", job=job(1), part="p"))
    assert (again.folder.path, again.identity.run) == (first.folder.path, first.identity.run)
    assert (again.identity.session, again.problem) == (1, None)
    assert again.identity.keys != first.identity.keys, "nobody of the former session comes in"
    other = begin(ControllerConfig(directory=tmp_path, name="train", job=job(1), part="p"))
    assert other.folder.path != first.folder.path, "it was gone on with already"


def test_a_run_that_cannot_go_on_costs_a_line_and_no_data(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "train", 0.0)
    save_record(folder, record(job(0)))
    folder.journal.rmdir()
    folder.seal.write_bytes(b"of another version")
    beginning = begin(ControllerConfig(directory=tmp_path, name="train", job=job(1)))
    assert beginning.folder.path != folder.path
    assert "sealed.bin cannot be read" in (beginning.problem or "")
    assert not (folder.path / ".lock").exists()
    beginning.lock.release()
    beginning = begin(ControllerConfig(directory=tmp_path, name="train", again="nothing"))
    assert "nothing is no run folder" in (beginning.problem or "")
