"""What makes a restarted controller the same one to its ranks: keys, port, run id. A secret, on disk for its user only."""

import secrets
import socket
from pathlib import Path

import msgspec

from trackside.controller.config import LOOPBACK, ControllerConfig, is_loopback_address, make_token
from trackside.errors import RunFolderError
from trackside.ingest.keys import LinkKeys, make_keys
from trackside.run.limits import DEFAULT_LIMITS, SilenceLimits
from trackside.store import RunFolder
from trackside.wire.address import ControllerAddress
from trackside.wire.machine import machine_id

FILE = "controller.json"
MOST_HOSTS = 8
MOST_STARTERS = 16


class ControllerIdentity(msgspec.Struct, kw_only=True):
    """`journal/controller.json`."""

    run: str
    name: str
    started_at: float
    keys: LinkKeys
    listen: str
    link_port: int = 0
    bind: str
    token: str | None = None
    page_port: int | None = None
    """Port of the page once it was bound; a restarted controller takes it again."""
    allowed_hosts: list[str] = []
    no_page: bool = False
    hold: bool = False
    silence: SilenceLimits = DEFAULT_LIMITS
    restarts: int = 0
    """How often the controller came back."""
    starters: list[int] = []
    """Processes that started its controllers, on their machines."""
    requeues: int = 0
    """What the batch system counted when the session began."""
    session: int = 0
    """How often the job was started again, as a whole, in this run."""

    def __repr__(self) -> str:
        return f"ControllerIdentity(run={self.run!r}, link_port={self.link_port}, secrets hidden)"


def new_identity(config: ControllerConfig, started_at: float) -> ControllerIdentity:
    """The identity of a new run."""
    return ControllerIdentity(
        run=secrets.token_hex(8),
        name=config.name,
        started_at=started_at,
        keys=make_keys(),
        listen=config.listen,
        bind=config.bind,
        token=None if config.is_loopback else config.token or make_token(),
        allowed_hosts=list(config.allowed_hosts),
        no_page=config.no_page,
        hold=config.hold,
        silence=config.silence,
        starters=[] if config.parent_pid is None else [config.parent_pid],
        requeues=0 if config.job is None else config.job.restarts,
    )


def next_identity(config: ControllerConfig, known: ControllerIdentity) -> ControllerIdentity:
    """The identity of a run whose job was started again: another link, with other keys, and the page as it is wished now."""
    new = new_identity(config, known.started_at)
    return msgspec.structs.replace(
        new,
        starters=[*known.starters, *new.starters][-MOST_STARTERS:],
        run=known.run,
        name=known.name,
        restarts=known.restarts,
        session=known.session + 1,
    )


def without_secrets(identity: ControllerIdentity) -> ControllerIdentity:
    """The same for nobody to come in by: other keys, no token, no page, no port."""
    return msgspec.structs.replace(
        identity, keys=make_keys(), token=None, no_page=True, page_port=None, link_port=0, listen=LOOPBACK, hold=False
    )


def path_of(folder: RunFolder) -> Path:
    """Where a run folder keeps it."""
    return folder.journal / FILE


def save_identity(folder: RunFolder, identity: ControllerIdentity) -> None:
    """Keep it, readable by its user only. Raises: OSError. Blocks: for the disk."""
    path, content = written_identity(folder, identity)
    folder.write_whole(path, content, private=True)


def written_identity(folder: RunFolder, identity: ControllerIdentity) -> tuple[Path, bytes]:
    """Where it is kept, and as what."""
    return path_of(folder), msgspec.json.encode(identity)


def load_identity(folder: RunFolder) -> ControllerIdentity:
    """Read it.

    Raises:
        RunFolderError: there is none: the run has ended, or is no run of ours.
    """
    try:
        return msgspec.json.decode(path_of(folder).read_bytes(), type=ControllerIdentity)
    except FileNotFoundError as error:
        raise RunFolderError(
            f"{folder.path} cannot be resumed: it has no {path_of(folder).relative_to(folder.path)}, so its run has ended; "
            "`trackside view` shows it"
        ) from error
    except (OSError, msgspec.DecodeError) as error:
        raise RunFolderError(f"{path_of(folder)} cannot be read: {error}") from error


def address_of(identity: ControllerIdentity, pid: int) -> ControllerAddress:
    """What ranks get."""
    return ControllerAddress(
        run=identity.run,
        hosts=candidate_hosts(identity.listen),
        port=identity.link_port,
        server_key=identity.keys.server_public,
        client_public=identity.keys.client_public,
        client_secret=identity.keys.client_secret,
        pid=pid,
        machine_id=machine_id(),
    )


def candidate_hosts(listen: str) -> list[str]:
    """Where ranks may try, best first.

    A host name may be unknown on other nodes or lead to the wrong network, so the addresses of all interfaces follow it.
    """
    if is_loopback_address(listen):
        return ["127.0.0.1"]
    if listen not in ("0.0.0.0", "::", "*"):
        return [listen]
    named = [socket.gethostname(), socket.getfqdn()]
    return list(dict.fromkeys([*named, *_own_addresses(), "127.0.0.1"]))[:MOST_HOSTS]


def _own_addresses() -> list[str]:
    """Addresses of all interfaces that are up."""
    import psutil  # here: most controllers listen on loopback

    states = psutil.net_if_stats()
    return [
        address.address
        for interface, addresses in psutil.net_if_addrs().items()
        if interface in states and states[interface].isup
        for address in addresses
        if address.family == socket.AF_INET and not address.address.startswith("127.")
    ]
