"""What a controller begins with: a new run, or one that goes on after a crash."""

import logging
from dataclasses import dataclass

import msgspec

from trackside._version import __version__
from trackside.controller.config import ControllerConfig
from trackside.controller.identity import ControllerIdentity, load_identity, new_identity, path_of
from trackside.controller.resume import present, read_checkpoint, read_seal
from trackside.errors import RunFolderError
from trackside.ingest.reader import TableSnapshot
from trackside.run.inputs import Moment
from trackside.run.machine import RunMachine
from trackside.run.state import Settings
from trackside.store import Resumption, RunFolder, find_resumption, read_events
from trackside.wire.arguments import utf8_text
from trackside.wire.documents import EventRecord

log = logging.getLogger("trackside.controller")


@dataclass(slots=True)
class Beginning:
    """The run folder and the state before the first frame."""

    folder: RunFolder
    identity: ControllerIdentity
    machine: RunMachine
    table: TableSnapshot
    resumption: Resumption | None
    """What the journal still holds; None for a new run."""
    events: list[EventRecord]
    """What had been told of the run."""


def begin(config: ControllerConfig) -> Beginning:
    """Make the run folder, or open the one to go on with. Blocks: for the disk.

    Raises:
        StoreError: the folder cannot be made or written.
        RunFolderError: the run cannot be resumed.
    """
    return _new(config) if config.resume is None else _go_on(RunFolder.open(config.resume), config)


def _new(config: ControllerConfig) -> Beginning:
    now = present()
    folder = RunFolder.create(config.directory, config.name, now.wall)
    identity = new_identity(config, now.wall)
    settings = _settings(Settings(), identity, wants_page=config.wants_page and not config.no_page, port=config.port)
    return Beginning(folder, identity, _first_state(folder, identity, settings, now), TableSnapshot(), None, [])


def _go_on(folder: RunFolder, config: ControllerConfig) -> Beginning:
    seal = read_seal(folder)
    if seal is not None and config.reopen and not path_of(folder).exists():
        identity = seal.identity
        folder.make_parts()
    else:
        identity = load_identity(folder)
        identity.restarts += seal is None
    resumption = find_resumption(folder)
    checkpoint = resumption.checkpoint if resumption.checkpoint or seal is None else seal.checkpoint
    if checkpoint is None:
        machine, table = _first_state(folder, identity, Settings(), present()), TableSnapshot()
    else:
        try:
            machine, table = read_checkpoint(checkpoint)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise RunFolderError(
                f"the checkpoint of {folder.path} is of another version of trackside ({error}); "
                "`trackside view` still shows what it holds"
            ) from error
    machine.reopen()
    had_page = identity.page_port is not None
    port = identity.page_port if had_page else config.port
    machine.state.settings = _settings(machine.state.settings, identity, wants_page=had_page, port=port)
    return Beginning(folder, identity, machine, table, resumption, read_events(folder.events))


def _settings(known: Settings, identity: ControllerIdentity, *, wants_page: bool, port: int | None) -> Settings:
    return msgspec.structs.replace(
        known,
        wants_page=wants_page,
        no_page=identity.no_page,
        port=port,
        late_after_seconds=identity.silence.late_s,
        lost_after_seconds=identity.silence.lost_s,
    )


def _first_state(folder: RunFolder, identity: ControllerIdentity, settings: Settings, now: Moment) -> RunMachine:
    age_s = max(0.0, now.wall - identity.started_at)
    return RunMachine.begin(
        run_id=identity.run,
        name=identity.name,
        directory=utf8_text(str(folder.path)),
        version=__version__,
        settings=settings,
        started=Moment(identity.started_at, now.mono - age_s),
    )
