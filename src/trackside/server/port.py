"""The page's port: the wanted one or an error that names its holder; the default one or the next that is free."""

import contextlib
import errno
import socket

import psutil

from trackside.errors import PortTakenError, UsageError

DEFAULT_PORT = 7117
TRIES = 100
BLOCKED_PORTS = frozenset(
    [
        1,
        7,
        9,
        11,
        13,
        15,
        17,
        19,
        20,
        21,
        22,
        23,
        25,
        37,
        42,
        43,
        53,
        69,
        77,
        79,
        87,
        95,
        101,
        102,
        103,
        104,
        109,
        110,
        111,
        113,
        115,
        117,
        119,
        123,
        135,
        137,
        139,
        143,
        161,
        179,
        389,
        427,
        465,
        512,
        513,
        514,
        515,
        526,
        530,
        531,
        532,
        540,
        548,
        554,
        556,
        563,
        587,
        601,
        636,
        989,
        990,
        993,
        995,
        1719,
        1720,
        1723,
        2049,
        3659,
        4045,
        4190,
        5060,
        5061,
        6000,
        6566,
        6665,
        6666,
        6667,
        6668,
        6669,
        6679,
        6697,
        10080,
    ]
)
"""Ports that browsers refuse to open (the Fetch standard's list of bad ports)."""


def bind_port(host: str, port: int | None) -> socket.socket:
    """Return a listening socket; child processes do not inherit it.

    Args:
        host: an address of this machine.
        port: 0 for any free one; None for the default one or the next free one after it.

    Raises:
        PortTakenError: the wanted port has another holder, or the address is not to be had.
        UsageError: a port that browsers refuse.
    """
    if port in BLOCKED_PORTS:
        raise UsageError(f"browsers refuse to open port {port}; take another, {DEFAULT_PORT} for one")
    if port:
        return _listen(host, port)
    if port is None:
        for candidate in range(DEFAULT_PORT, DEFAULT_PORT + TRIES):
            if candidate not in BLOCKED_PORTS:
                with contextlib.suppress(PortTakenError):
                    return _listen(host, candidate)
    while True:
        listening = _listen(host, 0)
        if listening.getsockname()[1] not in BLOCKED_PORTS:
            return listening
        listening.close()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setblocking(False)
        listening.bind((host, port))
        listening.listen(256)
    except OSError as error:
        listening.close()
        raise PortTakenError(f"the page cannot listen on {host}:{port}: {describe(error, port)}") from error
    return listening


def describe(error: OSError, port: int) -> str:
    """Why a port cannot be had, with its holder where it can be seen."""
    reason = error.strerror or str(error)
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return f"{reason}; --bind takes an address of this machine, 127.0.0.1 or 0.0.0.0 for instance"
    holder = holder_of(port)
    if holder is None:
        return f"{reason}; take another with --port, or leave it out for the next free one"
    return f"{reason}; it is held by {holder}; stop that, or take another port with --port"


def holder_of(port: int) -> str | None:
    """Name and process id of the process that listens on a port, None when it cannot be seen."""
    with contextlib.suppress(psutil.Error, OSError):
        for connection in psutil.net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr[1:2] == (port,) and connection.pid:
                return _describe_process(connection.pid)
    return None


def _describe_process(pid: int) -> str:
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        command = " ".join(process.cmdline())
        return f"{process.name()} (pid {pid})" + (f": {command[:120]}" if command else "")
    return f"pid {pid}"


def own_names() -> frozenset[str]:
    """Names and addresses by which this machine may be called, lower case."""
    name = socket.gethostname().lower()
    names = {name, name.partition(".")[0], socket.getfqdn().lower()}
    for addresses in psutil.net_if_addrs().values():
        for address in addresses:
            if address.family in (socket.AF_INET, socket.AF_INET6):
                names.add(address.address.partition("%")[0].lower())
    return frozenset(names - {""})
