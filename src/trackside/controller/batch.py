"""The batch system's job: by it a job that was requeued finds the run it had begun.

Each run of a job keeps `job.json` from its first moment on, so that nothing has to be saved when the job is killed. A
requeued job has the same id and one restart more; it goes on with a run of that job whose last session had fewer. Runs
that the same start of a job makes, one after the other or side by side, are runs of their own.
"""

import contextlib
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from trackside.errors import RunFolderError
from trackside.store import RunFolder
from trackside.wire.ids import slug

log = logging.getLogger("trackside.controller")

FILE = "job.json"


class BatchJob(msgspec.Struct, frozen=True, kw_only=True):
    """Which start of which job this is."""

    id: str
    """Unique in the batch system, and the same after a requeue: for people too."""
    cluster: str = ""
    restarts: int = 0
    """How often it was requeued."""

    @property
    def words(self) -> str:
        """For people."""
        return f"{self.id}, restart {self.restarts}" if self.restarts else self.id


class JobRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`job.json`: the start of a job that a run was last continued by."""

    job: BatchJob
    name: str
    """The run's name as the start asked for it."""
    part: str = ""
    """What the job started, as a digest: a job may start several things of one name."""
    started_at: float
    """When the run began, UTC epoch seconds."""


def find_job(environ: Mapping[str, str]) -> BatchJob | None:
    """The job whose allocation this process is in; None outside of one.

    A task of an array is a job of its own; the components of a heterogeneous job are one.
    """
    array, task = environ.get("SLURM_ARRAY_JOB_ID"), environ.get("SLURM_ARRAY_TASK_ID")
    single = environ.get("SLURM_HET_JOB_ID") or environ.get("SLURM_JOB_ID") or environ.get("SLURM_JOBID")
    number = f"{array}_{task}" if array and task else single
    if not number:
        return None
    restarts = environ.get("SLURM_RESTART_COUNT", "").strip()
    return BatchJob(
        id=f"Slurm job {number}",
        cluster=environ.get("SLURM_CLUSTER_NAME", ""),
        restarts=int(restarts) if restarts.isascii() and restarts.isdigit() else 0,
    )


def save_record(folder: RunFolder, record: JobRecord) -> None:
    """Keep it. Blocks: for the disk. Raises: OSError."""
    folder.write_whole(folder.path / FILE, msgspec.json.encode(record))


def read_record(path: Path) -> JobRecord | None:
    """Of a run folder; None where there is none, or no readable one."""
    with contextlib.suppress(OSError, msgspec.DecodeError):
        return msgspec.json.decode((path / FILE).read_bytes(), type=JobRecord)
    return None


def former_runs(directory: Path, wanted: JobRecord) -> Iterator[Path]:
    """Run folders that this start of a job may go on with, the best first.

    Those that began with the same command, in the order in which they began; then those of another command that have not
    finished, since a script may be told to resume by an option.

    Blocks: for the disk.
    """
    found: list[tuple[bool, float, str]] = []
    for file in directory.glob(f"*-{slug(wanted.name)}*/{FILE}"):
        record = read_record(file.parent)
        if record is None or not is_former(record, wanted):
            continue
        is_same = record.part == wanted.part
        if is_same or _has_work_left(file.parent):
            found.append((not is_same, record.started_at, str(file.parent)))
    for _, _, path in sorted(found):
        yield Path(path)


def is_former(record: JobRecord, wanted: JobRecord) -> bool:
    """Whether a run is of the same job, and of an earlier start of it."""
    known, job = record.job, wanted.job
    is_same_job = (known.id, known.cluster, record.name) == (job.id, job.cluster, wanted.name)
    return is_same_job and known.restarts < job.restarts


def _has_work_left(path: Path) -> bool:
    try:
        return RunFolder(path).read_document().get("state") != "finished"
    except RunFolderError as error:
        log.warning("%s", error)
        return False
