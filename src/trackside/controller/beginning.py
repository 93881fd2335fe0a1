"""What a controller begins with: a new run, one that goes on after a crash, or one whose job was started again."""

import logging
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from trackside._version import __version__
from trackside.controller.batch import JobRecord, former_runs, is_former, read_record, save_record
from trackside.controller.config import ControllerConfig
from trackside.controller.identity import ControllerIdentity, load_identity, new_identity, next_identity, path_of
from trackside.controller.resume import Seal, present, read_checkpoint, read_seal
from trackside.errors import RunBusyError, RunFolderError, StoreError
from trackside.ingest.reader import TableSnapshot
from trackside.run.inputs import Moment
from trackside.run.machine import RunMachine
from trackside.run.state import Settings
from trackside.store import FolderLock, Resumption, RunFolder, find_resumption, find_run, read_events
from trackside.store.lock import WAIT_S
from trackside.wire.arguments import utf8_text
from trackside.wire.documents import EventRecord

log = logging.getLogger("trackside.controller")

_PAUSE_S = 0.1
SEAL_S = 5.0
"""How long the last words of a controller that is just ending are waited for."""


class Beginning(msgspec.Struct):
    """The run folder and the state before the first frame."""

    folder: RunFolder
    lock: FolderLock
    identity: ControllerIdentity
    machine: RunMachine
    table: TableSnapshot
    resumption: Resumption | None
    """What the journal still holds; None for a new run."""
    events: list[EventRecord]
    """What had been told of the run."""
    settings: Settings
    """How the run judges from now on; of a run whose job was started again it is another link, and perhaps another page."""
    problem: str | None = None
    """Why it is not the run that it should have been."""


def begin(config: ControllerConfig) -> Beginning:
    """Make the run folder, or open the one to go on with. Blocks: for the disk, and some seconds for a former controller.

    Raises:
        StoreError: the folder cannot be made or written.
        RunFolderError: the run cannot be resumed.
    """
    if config.resume is not None:
        return _go_on(RunFolder.open(config.resume), config)
    record = _record_of(config)
    problem = None
    try:
        for path in _former(config, record):
            folder = RunFolder.open(path)
            lock = _lock_former(folder, record if config.again is None else None)
            if lock is None:
                continue
            again = _begin_again(folder, lock, config)
            _keep_record(folder, record, again.identity)
            return again
    except (StoreError, OSError) as error:
        problem = f"{error}; this session is a run of its own"
        log.warning("%s", problem)
    new = _new(config)
    new.problem = problem or _not_found(config)
    _keep_record(new.folder, record, new.identity)
    return new


def _record_of(config: ControllerConfig) -> JobRecord | None:
    if config.job is None:
        return None
    return JobRecord(job=config.job, name=config.name, part=config.part, started_at=present().wall)


def _former(config: ControllerConfig, record: JobRecord | None) -> Iterator[Path]:
    """Where the run may lie whose next session this is."""
    if config.again is not None:
        yield find_run(config.again, config.directory)
    elif record is not None and record.job.restarts:
        yield from former_runs(config.directory, record)


def _not_found(config: ControllerConfig) -> str | None:
    job = config.job
    if config.again is not None or job is None or not job.restarts:
        return None
    return (
        f"{job.words}: no run of it that could go on lies in {config.directory.absolute()}, so this is a new one; a job goes on "
        "where all its starts have the same --dir, on a disk that all its hosts share"
    )


def _keep_record(folder: RunFolder, record: JobRecord | None, identity: ControllerIdentity) -> None:
    if record is None:
        return
    try:
        save_record(folder, msgspec.structs.replace(record, started_at=identity.started_at))
    except OSError as error:
        log.warning("a requeued job will not find %s: %s", folder.path, error)


def _new(config: ControllerConfig) -> Beginning:
    now = present()
    folder = RunFolder.create(config.directory, config.name, now.wall)
    identity = new_identity(config, now.wall)
    settings = _settings(Settings(), identity, wants_page=config.wants_page and not config.no_page, port=config.port)
    machine = _first_state(folder, identity, settings, now)
    if config.job is not None:
        machine.state.environment["batch_job"] = config.job.words
    return Beginning(folder, _lock(folder), identity, machine, TableSnapshot(), None, [], settings)


def _go_on(folder: RunFolder, config: ControllerConfig) -> Beginning:
    lock = _lock(folder)
    seal = read_seal(folder)
    if seal is not None and config.reopen and not path_of(folder).exists():
        identity = seal.identity
        folder.make_parts()
    else:
        identity = load_identity(folder)
        identity.restarts += seal is None
    machine, table, resumption = _last_state(folder, identity, seal)
    machine.reopen()
    had_page = identity.page_port is not None
    port = identity.page_port if had_page else config.port
    settings = _settings(machine.state.settings, identity, wants_page=had_page, port=port)
    machine.state.settings = settings
    return Beginning(folder, lock, identity, machine, table, resumption, read_events(folder.events), settings)


def _lock_former(folder: RunFolder, record: JobRecord | None) -> FolderLock | None:
    """Hold a former run's folder; None when another part of the same job has just gone on with it.

    Raises:
        RunBusyError: its controller is there and stays.
    """
    deadline = time.monotonic() + WAIT_S
    while True:
        lock = None
        try:
            lock = FolderLock(folder, wait_s=0)
        except RunBusyError:
            if time.monotonic() >= deadline:
                raise
        known = read_record(folder.path) if record is not None else None
        if record is not None and known is not None and not is_former(known, record):
            if lock is not None:
                lock.release()
            return None
        if lock is not None:
            return lock
        time.sleep(_PAUSE_S)


def _begin_again(folder: RunFolder, lock: FolderLock, config: ControllerConfig) -> Beginning:
    """The next session of a run, whatever became of the last one."""
    try:
        known, seal = _last_words(folder)
        identity = next_identity(config, known)
        machine, table, resumption = _last_state(folder, identity, seal)
        folder.make_parts()
    except BaseException:
        lock.release()
        raise
    settings = _settings(Settings(), identity, wants_page=config.wants_page and not config.no_page, port=config.port)
    return Beginning(folder, lock, identity, machine, table, resumption, read_events(folder.events), settings)


def _lock(folder: RunFolder) -> FolderLock:
    try:
        return FolderLock(folder)
    except OSError as error:
        raise StoreError(f"the run folder {folder.path} cannot be written: {error.strerror or error}") from error


def _last_words(folder: RunFolder) -> tuple[ControllerIdentity, Seal | None]:
    """Who the run was, by what its last controller left."""
    deadline = time.monotonic() + SEAL_S
    while True:
        seal = read_seal(folder)
        if path_of(folder).exists():
            return load_identity(folder), seal
        if seal is not None:
            return seal.identity, seal
        if time.monotonic() >= deadline:
            raise RunFolderError(f"{folder.path} holds neither a journal nor {folder.seal.name}, so it cannot go on")
        time.sleep(_PAUSE_S)


def _last_state(
    folder: RunFolder, identity: ControllerIdentity, seal: Seal | None
) -> tuple[RunMachine, TableSnapshot, Resumption]:
    """The state that the journal's frames build on."""
    resumption = find_resumption(folder)
    checkpoint = resumption.checkpoint if resumption.checkpoint or seal is None else seal.checkpoint
    if checkpoint is None:
        return _first_state(folder, identity, Settings(), present()), TableSnapshot(), resumption
    try:
        machine, table = read_checkpoint(checkpoint)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise RunFolderError(
            f"the checkpoint of {folder.path} is of another version of trackside ({error}); "
            "`trackside view` still shows what it holds"
        ) from error
    return machine, table, resumption


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
