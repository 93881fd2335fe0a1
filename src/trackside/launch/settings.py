"""Trackside's own options of a launched run: argument before environment before default."""

import argparse
import os
import socket
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trackside.errors import RunFolderError, UsageError
from trackside.run.limits import read_limits

_LATE, _LOST = "TRACKSIDE_LATE_AFTER", "TRACKSIDE_LOST_AFTER"


@dataclass(frozen=True, slots=True)
class RunSettings:
    """Where a run is kept and how it is shown."""

    name: str
    directory: Path
    """Absolute; holds the run folders."""
    port: int | None = None
    """The port that was asked for; None: the default one, or the next that is free."""
    bind: str | None = None
    page: bool = True
    hold: bool = False
    """Whether the page stays after the job until Ctrl-C."""
    allowed_hosts: str | None = None
    late_after: str | None = None
    """Seconds of silence that make a rank late, as they were given; None: the controller's default."""
    lost_after: str | None = None
    resume: str | None = None
    """A run to go on with, as the user named it."""
    part: str = ""
    """What is started, as a digest."""
    listen: str | None = None
    """Address the controller's link to the ranks listens on; None: loopback."""


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Add the options to a command's parser."""
    group = parser.add_argument_group("trackside")
    group.add_argument("--name", help="the run's name (TRACKSIDE_NAME; default: the script's)")
    group.add_argument("--dir", help="folder that holds the run folders (TRACKSIDE_DIR; default: runs)")
    group.add_argument(
        "--resume",
        metavar="RUN",
        help="go on with a run, as its next session: its folder, the folder's name or its id (TRACKSIDE_RESUME)",
    )
    group.add_argument("--port", help="port of the live page (TRACKSIDE_PORT; default: 7117, or the next that is free)")
    group.add_argument("--bind", help="address the page listens on (TRACKSIDE_BIND; default: loopback)")
    group.add_argument("--hold", action="store_true", help="keep the page after the job, until Ctrl-C")
    group.add_argument("--no-page", action="store_true", help="no live page; the report is written all the same")
    group.add_argument(
        "--late-after", metavar="S", help="seconds of silence that make a rank late (TRACKSIDE_LATE_AFTER; default: 10)"
    )
    group.add_argument(
        "--lost-after", metavar="S", help="seconds of silence that make a rank lost (TRACKSIDE_LOST_AFTER; default: 30)"
    )
    group.add_argument("--allowed-hosts", help="host names a proxy in front of the page uses, separated by commas")
    group.add_argument(
        "--no-instrument",
        action="store_true",
        help="watch nothing in torch, and start no monitor in a script that has none (TRACKSIDE_INSTRUMENT=0)",
    )


def _address(bind: str | None) -> str | None:
    """An address of this machine that a page can listen on.

    Raises:
        UsageError: it is none.
    """
    if bind is None:
        return None
    try:
        family, kind, _, _, address = socket.getaddrinfo(bind, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        with socket.socket(family, kind) as probe:
            probe.bind(address)
    except OSError as error:
        raise UsageError(
            f"--bind {bind}: {error.strerror or error}; name an address of this machine, such as 127.0.0.1 or 0.0.0.0"
        ) from error
    return bind


def settings_from(namespace: argparse.Namespace, environ: Mapping[str, str], default_name: str) -> RunSettings:
    """Return the settings, checked.

    Raises:
        UsageError: a wrong value, or a folder that cannot be written.
    """
    port = _first(namespace.port, environ.get("TRACKSIDE_PORT"))
    if namespace.no_page and namespace.port is not None:
        raise UsageError(f"--no-page and --port {namespace.port} contradict each other; leave one out")
    source = "--port" if namespace.port is not None else "TRACKSIDE_PORT"
    late, lost = (_first(namespace.late_after, environ.get(_LATE)), _first(namespace.lost_after, environ.get(_LOST)))
    read_limits(
        late, lost, "--late-after" if namespace.late_after else _LATE, "--lost-after" if namespace.lost_after else _LOST
    )
    number = None if port is None else _port(port, source)
    directory = writable_directory(_first(namespace.dir, environ.get("TRACKSIDE_DIR")) or "runs")
    return RunSettings(
        name=_first(namespace.name, environ.get("TRACKSIDE_NAME")) or default_name,
        directory=directory,
        resume=_known_run(namespace.resume, directory) or environ.get("TRACKSIDE_RESUME") or None,
        port=number,
        bind=_address(_first(namespace.bind, environ.get("TRACKSIDE_BIND"))),
        page=not namespace.no_page,
        hold=namespace.hold,
        late_after=late,
        lost_after=lost,
        allowed_hosts=namespace.allowed_hosts,
    )


def _known_run(which: str | None, directory: Path) -> str | None:
    """The folder of the run that is meant. Raises: UsageError: there is none."""
    if which is None:
        return None
    from trackside.store.listing import find_run

    try:
        return str(find_run(which, directory))
    except RunFolderError as error:
        raise UsageError(f"--resume {error}") from error


def writable_directory(text: str, keep: bool = True) -> Path:
    """Return the folder as an absolute path; it exists and takes files afterwards.

    Args:
        text: As the user wrote it.
        keep: False only tries: a folder that was made for it is removed again.

    Raises:
        UsageError: it cannot be made or written.
    """
    directory = Path(text).expanduser().absolute()
    made = [folder for folder in (directory, *directory.parents) if not folder.exists()]
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
        for folder in [] if keep else made:
            folder.rmdir()
    except OSError as error:
        reason = error.strerror or str(error)
        if isinstance(error, FileExistsError | NotADirectoryError):
            places = (directory, *directory.parents)
            reason = f"a file is in the way ({next(p for p in places if os.path.lexists(p) and not p.is_dir())})"
        raise UsageError(f"run folders cannot be kept in {directory}: {reason}\n  choose another with --dir") from error
    return directory


def _first(*texts: str | None) -> str | None:
    return next((text for text in texts if text), None)


def _port(text: str, source: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise UsageError(f"{source} {text}: a port is a number from 0 to 65535; 0 takes any that is free")
    return int(text)
