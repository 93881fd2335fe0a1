"""How a controller was asked to run."""

import secrets
from collections.abc import Mapping
from pathlib import Path

import msgspec

from trackside.controller.batch import BatchJob
from trackside.errors import UsageError
from trackside.run.limits import DEFAULT_LIMITS, SilenceLimits, read_limits

LOOPBACK = "127.0.0.1"
TOKEN_BYTES = 24
_LEAST_TOKEN = 8


class ControllerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line and the environment say."""

    directory: Path = Path("runs")
    """Holds the run folders."""
    name: str = "run"
    resume: Path | None = None
    """A run folder to go on with in the same session; everything it remembers wins over the rest."""
    reopen: bool = False
    """Whether `resume` may be a run that has ended, to take in what came to light since."""
    again: str | None = None
    """A run whose job has been started again: its folder, the folder's name or the run's id. This is its next session."""
    job: BatchJob | None = None
    """The batch job it is part of; after a requeue its run is found by that."""
    part: str = ""
    """What the job starts, as a digest."""
    port: int | None = None
    """The page's port when nobody wishes another one; None: the default one or the next free."""
    wants_page: bool = False
    """Whether to serve a page without being asked by a rank."""
    no_page: bool = False
    bind: str = LOOPBACK
    """Address of the page."""
    listen: str = LOOPBACK
    """Address of the link to the ranks."""
    token: str | None = None
    """What a reader must show; only off loopback. None: a random one."""
    allowed_hosts: tuple[str, ...] = ()
    hold: bool = False
    """Whether the page stays after the run, until a signal."""
    silence: SilenceLimits = DEFAULT_LIMITS
    """When a rank counts as late, and as lost."""
    parent_pid: int | None = None
    """Who started it; when that process goes, the run ends with its last rank."""
    spool_folders: tuple[Path, ...] = ()
    """Where to look for what ranks left, beside the run folder and this user's temporary folder."""
    ready_fd: int | None = None
    """Where the ready line goes; None: stdout."""

    @property
    def is_loopback(self) -> bool:
        """Whether the page is for this machine only."""
        return is_loopback_address(self.bind)


def is_loopback_address(address: str) -> bool:
    """Whether an address to bind is reached from this machine only."""
    return address in ("localhost", "::1") or address.startswith("127.")


def read_port(text: str | None, source: str) -> int | None:
    """A port number, 0 for any free one, None when nothing was said.

    Raises:
        UsageError: anything else.
    """
    if text is None or not text.strip():
        return None
    if not (text.strip().isascii() and text.strip().isdigit()) or int(text) > 65535:
        raise UsageError(f"{source} {text!r} is no port; give a number from 0 to 65535, 0 for any that is free")
    return int(text)


def read_silence(late: str | None, lost: str | None, environ: Mapping[str, str]) -> SilenceLimits:
    """The limits of silence: option before environment before default. Raises: UsageError."""
    from_options = (
        "--late-after" if late else "TRACKSIDE_LATE_AFTER",
        "--lost-after" if lost else "TRACKSIDE_LOST_AFTER",
    )
    return read_limits(
        late or environ.get("TRACKSIDE_LATE_AFTER") or None,
        lost or environ.get("TRACKSIDE_LOST_AFTER") or None,
        *from_options,
    )


def read_token(environ: Mapping[str, str]) -> str | None:
    """The token the user chose, or None.

    Raises:
        UsageError: one that is too easy to guess, or that no URL holds as it is.
    """
    token = environ.get("TRACKSIDE_TOKEN", "").strip()
    if not token:
        return None
    if len(token) < _LEAST_TOKEN or not all(c.isascii() and (c.isalnum() or c in "-._~") for c in token):
        raise UsageError(
            f"TRACKSIDE_TOKEN has {len(token)} characters; it needs at least {_LEAST_TOKEN} of letters, digits and -._~, "
            "or leave it out for a random one"
        )
    return token


def make_token() -> str:
    """A random token."""
    return secrets.token_urlsafe(TOKEN_BYTES)
