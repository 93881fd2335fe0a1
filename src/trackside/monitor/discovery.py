"""How the ranks of one job on one host find the controller that rank 0 started: a file only this user can read."""

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from trackside.errors import TracksideError
from trackside.monitor.spool import private_folder
from trackside.wire.address import ControllerAddress, parse_address
from trackside.wire.messages import Identity
from trackside.wire.spool import ADDRESS_SUFFIX

_KEYS = ("MASTER_ADDR", "MASTER_PORT", "SLURM_JOB_ID", "SLURM_STEP_ID")


def discovery_path(identity: Identity, environ: Mapping[str, str]) -> Path:
    """Where rank 0 of this job leaves the address. The ranks of a host have one parent: torchrun's agent, a script.

    Raises:
        OSError: the folder cannot be had, or is not private to this user.
    """
    keys = () if identity.rendezvous is not None else _KEYS  # torchrun may meet elsewhere after a restart
    parts = [str(os.getppid()), identity.job or "", *(environ.get(name, "") for name in keys)]
    key = "_".join("".join(c if c.isalnum() or c in ".-" else "-" for c in part) for part in parts)
    return private_folder() / f"{key[:200]}{ADDRESS_SUFFIX}"


def children_path(parent_pid: int) -> Path:
    """Where a process that has its own controller leaves the address for ranks that it starts itself.

    Raises:
        OSError: as `discovery_path`.
    """
    return private_folder() / f"children-of-{parent_pid}{ADDRESS_SUFFIX}"


def write_address(path: Path, address: str) -> None:
    """Leave the address, whole or not at all. Raises: OSError."""
    import tempfile

    handle, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(address)
    Path(name).replace(path)


def sweep_addresses() -> None:
    """Remove what runs left that have ended: a killed rank cannot, and each holds a key. Raises: OSError."""
    for path in private_folder().glob(f"*{ADDRESS_SUFFIX}"):
        read_address(path)


def read_address(path: Path) -> ControllerAddress | None:
    """The address that rank 0 left; None when there is none, or when its controller has gone."""
    try:
        address = parse_address(path.read_text("ascii"))
    except (OSError, TracksideError, UnicodeDecodeError):
        return None
    if address.pid is None or _is_running(address.pid):
        return address
    with contextlib.suppress(OSError):
        path.unlink()
    return None


def _is_running(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace")
    except OSError:
        return False
    return status.rpartition(")")[2].split()[:1] != ["Z"]
