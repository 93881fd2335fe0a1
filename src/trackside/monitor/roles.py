"""Who this process is in the job, by the launcher's variables; looked up when first needed."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from trackside.errors import UsageError
from trackside.wire.messages import Identity

DISABLED = "TRACKSIDE_DISABLED"
CONTROLLER = "TRACKSIDE_CONTROLLER"
LAUNCHER_PID = "TRACKSIDE_LAUNCHER_PID"


@dataclass(frozen=True, slots=True)
class _Source:
    """One launcher's variables."""

    name: str
    rank: str
    world_size: str
    local_rank: str
    node_rank: str | None = None
    generation: str | None = None
    job: str | None = None


SOURCES = (
    _Source(
        "torchrun",
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "GROUP_RANK",
        "TORCHELASTIC_RESTART_COUNT",
        "TORCHELASTIC_RUN_ID",
    ),
    _Source(
        "Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_RESTART_COUNT", "SLURM_JOB_ID"
    ),
    _Source("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    _Source("PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
)
SINGLE = Identity(rank=0, local_rank=0, world_size=1)


def is_disabled(environ: Mapping[str, str]) -> bool:
    """Whether everything is to be inert: `TRACKSIDE_DISABLED`, or this is the launcher itself."""
    if environ.get(DISABLED, "").strip().lower() not in ("", "0", "false", "no"):
        return True
    return environ.get(LAUNCHER_PID) == str(os.getpid())


def find_identity(environ: Mapping[str, str]) -> Identity:
    """The process's place in the job; a single process when no launcher says anything.

    Raises:
        UsageError: variables that contradict each other; names them and their values.
    """
    for source in SOURCES:
        if environ.get(source.rank, "") != "" and not _is_interactive_slurm(source, environ):
            return _read(source, environ)
    return SINGLE


def _is_interactive_slurm(source: _Source, environ: Mapping[str, str]) -> bool:
    """An `salloc` or `sbatch` shell has Slurm's variables without being a task of a step."""
    return source.name == "Slurm" and "SLURM_STEP_ID" not in environ and "SLURM_STEPID" not in environ


def _read(source: _Source, environ: Mapping[str, str]) -> Identity:
    rank = _number(environ, source.rank)
    world_size = _number(environ, source.world_size)
    local_rank = _number(environ, source.local_rank)
    if world_size is None and rank:
        raise UsageError(
            f"{source.rank}={environ[source.rank]} without {source.world_size}; set both, or neither for one process"
        )
    world_size = world_size if world_size is not None else 1
    rank = rank or 0
    if not 0 <= rank < world_size:
        raise UsageError(
            f"{source.rank}={rank} and {source.world_size}={world_size} contradict each other; "
            f"{source.rank} must be from 0 to {world_size - 1}"
        )
    if local_rank is not None and not 0 <= local_rank <= rank:
        raise UsageError(
            f"{source.local_rank}={local_rank} and {source.rank}={rank} contradict each other; "
            "a local rank is never above the global one"
        )
    named = [name for name in (source.rank, source.local_rank, source.world_size) if environ.get(name)]
    return Identity(
        rank=rank,
        local_rank=local_rank if local_rank is not None else rank,
        world_size=world_size,
        generation=(_number(environ, source.generation) or 0) if source.generation else 0,
        node_rank=_number(environ, source.node_rank) if source.node_rank else None,
        source=f"{source.name} ({', '.join(named)})",
        job=environ.get(source.job) if source.job else None,
    )


def _number(environ: Mapping[str, str], name: str) -> int | None:
    text = environ.get(name, "").strip()
    if not text:
        return None
    try:
        return int(text)
    except ValueError as error:
        raise UsageError(f"{name}={text!r} is no whole number; a launcher sets it, or unset it") from error
