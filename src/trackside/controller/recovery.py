"""Brings a run that lost its controller to a clean end: journal replayed, what ranks left taken in, report written."""

import asyncio
from pathlib import Path

import msgspec

from trackside.controller.beginning import begin
from trackside.controller.config import ControllerConfig
from trackside.controller.identity import path_of
from trackside.controller.lifecycle import Controller
from trackside.controller.resume import read_seal
from trackside.errors import RunFolderError
from trackside.store import RunFolder
from trackside.wire.estate import find_estates
from trackside.wire.machine import machine_id
from trackside.wire.processes import is_running

REASON = "trackside recover, after it had died"


class Recovery(msgspec.Struct, frozen=True):
    """What a recovery came to."""

    directory: str
    """Absolute path of the run folder."""
    state: str
    state_detail: str | None
    report: str
    points: int
    """In the run folder now."""
    spools: list[str]
    """Files of ranks that were taken in, and are gone now."""


def recover(path: Path, spools: tuple[Path, ...] = (), *, force: bool = False) -> Recovery:
    """Do it. Only the run's own link listens meanwhile, on the address it had.

    Args:
        path: Of the run folder.
        spools: Folders to look in for what ranks left, beside the run folder and this user's temporary one.
        force: Whether to go on although processes of the run seem to be there.

    Raises:
        RunFolderError: The run is under way, has ended with nothing left to take in, or cannot be read.
        PortTakenError: Its controller is still there.
        StoreError: The folder cannot be written.
    """
    folder = RunFolder.open(path)
    busy = [] if force else _running_here(folder)
    if busy:
        raise RunFolderError(
            f"{folder.path} is not over: {', '.join(busy[:4])} still running here; `trackside controller --resume "
            f"{folder.path}` goes on with it, --force ends it all the same"
        )
    sealed = read_seal(folder)
    if (
        sealed is not None
        and not path_of(folder).exists()
        and not find_estates(sealed.identity.run, folder.spool, spools, starters=sealed.identity.starters)
    ):
        raise RunFolderError(
            f"{folder.path} cannot be recovered: its run has ended, and nothing of it was found elsewhere; "
            "`trackside view` shows it, --spool names more folders to look in"
        )
    config = ControllerConfig(resume=folder.path, reopen=True, no_page=True, spool_folders=spools)
    controller = Controller(config, begin(config))
    known = controller.identity
    estates = find_estates(known.run, folder.spool, spools, starters=known.starters)
    left = [str(path) for estate in estates for path in estate.paths]
    controller.bind()
    asyncio.run(controller.run(controller.end_again if controller.is_reopened else lambda: controller.stop(REASON)))
    document = folder.read_document()
    return Recovery(
        directory=str(folder.path),
        state=str(document["state"]),
        state_detail=document["state_detail"],
        report=str(folder.report),
        points=sum(metric["points"] for metric in document["metrics"]),
        spools=left,
    )


def _running_here(folder: RunFolder) -> list[str]:
    """Ranks whose processes are on this machine, by the last word of the run document."""
    here = machine_id()
    return [
        f"rank {entry['rank']} (pid {entry['pid']})"
        for entry in folder.read_document().get("rank_entries", [])
        if entry.get("machine_id") == here and entry.get("pid") and is_running(entry["pid"])
    ]
