"""Who this process is in the job, by the launcher's variables; looked up when first needed."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trackside.errors import ArgumentTypeError, UsageError
from trackside.wire.messages import Identity

DISABLED = "TRACKSIDE_DISABLED"
CONTROLLER = "TRACKSIDE_CONTROLLER"
INSTRUMENT = "TRACKSIDE_INSTRUMENT"
LAUNCHER_PID = "TRACKSIDE_LAUNCHER_PID"
GENERATION = "TRACKSIDE_GENERATION"
PORT = "TRACKSIDE_PORT"
LOCAL_WORLD_SIZE = "LOCAL_WORLD_SIZE"
LOCAL_RANK, NODE_RANK, WORLD_SIZE = "LOCAL_RANK", "NODE_RANK", "WORLD_SIZE"


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
BY_LOCAL_RANK = "local rank"
SINGLE = Identity(rank=0, local_rank=0, world_size=1)


def is_disabled(environ: Mapping[str, str]) -> bool:
    """Whether everything is to be inert: `TRACKSIDE_DISABLED`, or this is the launcher itself."""
    if environ.get(DISABLED, "").strip().lower() not in ("", "0", "false", "no"):
        return True
    return environ.get(LAUNCHER_PID) == str(os.getpid())


def may_instrument(environ: Mapping[str, str]) -> bool:
    """Whether torch may be watched: unless `TRACKSIDE_INSTRUMENT` says no."""
    return environ.get(INSTRUMENT, "").strip().lower() not in ("0", "false", "no")


def find_identity(environ: Mapping[str, str]) -> Identity:
    """The process's place in the job; a single process when no launcher says anything.

    Raises:
        UsageError: variables that contradict each other; names them and their values.
    """
    for source in SOURCES:
        if environ.get(source.rank, "") != "" and not _is_interactive_slurm(source, environ):
            return _read(source, environ)
    return process_group_identity(environ) or _by_local_rank(environ) or SINGLE


def process_group_identity(environ: Mapping[str, str] = os.environ) -> Identity | None:
    """The identity that torch's process group knows, when a script began one without any launcher's variables.

    Threads: any, also while another one imports torch. Calls no collective.
    """
    distributed = sys.modules.get("torch.distributed")
    is_initialized = getattr(distributed, "is_initialized", None)
    if distributed is None or is_initialized is None or not is_initialized():
        return None
    rank, world_size = int(distributed.get_rank()), int(distributed.get_world_size())
    local_rank = environ.get(LOCAL_RANK, "")
    return Identity(
        rank=rank,
        local_rank=int(local_rank) if local_rank.isdecimal() else rank,
        world_size=world_size,
        source="torch.distributed",
    )


def _by_local_rank(environ: Mapping[str, str]) -> Identity | None:
    """A process that Lightning started beside the first one has a local rank and no global one.

    On the first host they are the same; on others the process group must say it.
    """
    local_rank, world_size = _number(environ, LOCAL_RANK), _number(environ, WORLD_SIZE)
    if local_rank is None or world_size is None or local_rank < 0 or (_number(environ, NODE_RANK) or 0) > 0:
        return None
    if local_rank >= world_size:
        raise UsageError(
            f"{LOCAL_RANK}={local_rank} and {WORLD_SIZE}={world_size} contradict each other; "
            f"{LOCAL_RANK} must be from 0 to {world_size - 1}"
        )
    return Identity(
        rank=local_rank,
        local_rank=local_rank,
        world_size=world_size,
        source=f"{BY_LOCAL_RANK} ({LOCAL_RANK}, {WORLD_SIZE})",
    )


def _is_interactive_slurm(source: _Source, environ: Mapping[str, str]) -> bool:
    """An `salloc` or `sbatch` shell has Slurm's variables without being a task of a step."""
    return source.name == "Slurm" and "SLURM_STEP_ID" not in environ and "SLURM_STEPID" not in environ


def _read(source: _Source, environ: Mapping[str, str]) -> Identity:
    rank = _number(environ, source.rank)
    world_size = _number(environ, source.world_size)
    local_rank = _number(environ, source.local_rank)
    if rank == -1 and world_size in (None, -1, 1):  # how some scripts spell that there is one process
        return SINGLE
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
    _check_local(environ, source, local_rank, world_size)
    named = [name for name in (source.rank, source.local_rank, source.world_size) if environ.get(name)]
    return Identity(
        rank=rank,
        local_rank=local_rank if local_rank is not None else rank,
        world_size=world_size,
        generation=_generation(environ, source),
        node_rank=_number(environ, source.node_rank) if source.node_rank else None,
        source=f"{source.name} ({', '.join(named)})",
        job=environ.get(source.job) if source.job else None,
        **_meeting(environ, source),
    )


def _meeting(environ: Mapping[str, str], source: _Source) -> dict[str, Any]:
    """What tells one start of a plain torchrun job from the next: torch's count alone does not."""
    if source.rank != "RANK" or _number(environ, GENERATION) is not None or not environ.get("TORCHELASTIC_RUN_ID"):
        return {}
    place = f"{environ.get('MASTER_ADDR', '')}:{environ.get('MASTER_PORT', '')}"
    count = _number(environ, source.generation) if source.generation else None
    return {"rendezvous": place, "restart_count": count}


def _generation(environ: Mapping[str, str], source: _Source) -> int:
    """Which start of the job's ranks this is. torch's own count differs between hosts and does not grow when hosts come
    or go, so that of `trackside run` goes before it.
    """
    launched = _number(environ, GENERATION) if source.rank == "RANK" else None
    if launched is not None:
        return launched
    return (_number(environ, source.generation) or 0) if source.generation else 0


def _check_local(environ: Mapping[str, str], source: _Source, local_rank: int | None, world_size: int) -> None:
    """What torchrun says of this host must fit what it says of the job."""
    if source.rank != "RANK":
        return
    local_size = _number(environ, LOCAL_WORLD_SIZE)
    if local_size is not None and not 0 < local_size <= world_size:
        raise UsageError(f"{LOCAL_WORLD_SIZE}={local_size} and {source.world_size}={world_size} contradict each other")
    if local_size is not None and local_rank is not None and local_rank >= local_size:
        raise UsageError(f"{source.local_rank}={local_rank} and {LOCAL_WORLD_SIZE}={local_size} contradict each other")


def _number(environ: Mapping[str, str], name: str) -> int | None:
    text = environ.get(name, "").strip()
    if not text:
        return None
    try:
        return int(text)
    except ValueError as error:
        raise UsageError(f"{name}={text!r} is no whole number; a launcher sets it, or unset it") from error


def check_count(name: str, value: object) -> None:
    """Refuse what is neither None nor a count. Raises: ArgumentTypeError, UsageError."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise ArgumentTypeError(f"{name} must be a whole number or None, not {value!r}")
    if value < 1:
        raise UsageError(f"{name}={value} is too small; it must be 1 or more, or None when unknown")


def check_text(name: str, value: object) -> None:
    """Refuse what is neither None nor a word. Raises: ArgumentTypeError, UsageError."""
    if value is not None and not isinstance(value, str):
        raise ArgumentTypeError(f"{name} must be text, not {type(value).__name__}")
    if value == "":
        raise UsageError(f"{name} is empty; leave it out, or give it a word")


def check_port(name: str, value: object) -> None:
    """Refuse what is neither None nor a port. Raises: ArgumentTypeError, UsageError."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise ArgumentTypeError(f"{name} must be a whole number, not {type(value).__name__}")
    if not 0 <= value < 65536:
        raise UsageError(f"{name}={value} is no port; give a number from 0 to 65535, 0 for any that is free")


def port_of(text: str | None) -> int | None:
    """The port that `TRACKSIDE_PORT` wishes; None when it says nothing. Raises: UsageError."""
    if text is None or not text.strip():
        return None
    if not (text.strip().isascii() and text.strip().isdigit()):
        raise UsageError(f"{PORT}={text!r} is no port; give a number from 0 to 65535, 0 for any that is free")
    check_port(PORT, int(text))
    return int(text)


def is_helper_process() -> bool:
    """Whether this is a data-loading worker, or a child that only imports the user's script to find a function."""
    worker = sys.modules.get("torch.utils.data._utils.worker")
    if worker is not None and worker.get_worker_info() is not None:
        return True
    process = sys.modules.get("multiprocessing.process")
    return process is not None and bool(getattr(process.current_process(), "_inheriting", False))
