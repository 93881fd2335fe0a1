"""The checks of `trackside doctor`, each a function that finds out one thing and never raises."""

import importlib.metadata
import importlib.util
import platform
import time
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec
import zmq
from zmq.utils.monitor import parse_monitor_message

from trackside.controller.strays import find_strays
from trackside.errors import AddressError, PortTakenError, UsageError
from trackside.launch.settings import writable_directory
from trackside.monitor.roles import find_identity, is_disabled
from trackside.monitor.samplers.nvml import Device, Nvml
from trackside.monitor.samplers.patience import PATIENCE_S, Patience
from trackside.monitor.samplers.visible import visible_devices
from trackside.server.built import INDEX, STATIC
from trackside.server.port import DEFAULT_PORT, bind_port
from trackside.wire.address import ControllerAddress, parse_address
from trackside.wire.sweep import CROWD_SETTLED_S, megabytes

Status = Literal["ok", "warn", "fail"]

HANDSHAKE_S = 3.0
MOST_LEFT = 2
"""Of runs whose killed processes left something: what the doctor says fits on one screen."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What one check found."""

    check: str
    status: Status
    text: str
    advice: str | None = None
    """What to do about it."""


def all_findings(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Run every check, in the order a problem would show up."""
    yield check_python()
    yield check_torch()
    yield check_switch(environ)
    yield check_identity(environ)
    yield from check_controller(environ)
    yield check_port(environ)
    yield check_page()
    yield check_directory(environ)
    yield from check_left()
    yield check_gpus(environ)


def check_python() -> Finding:
    """Versions of what we run on."""
    version = importlib.metadata.version("trackside")
    return Finding(check="python", status="ok", text=f"Python {platform.python_version()}, trackside {version}")


def check_torch() -> Finding:
    """Whether torch is there; it is not imported."""
    if importlib.util.find_spec("torch") is None:
        advice = "pip install torch, if you mean to use `trackside run`; a Monitor works without it"
        return Finding(check="torch", status="warn", text="not installed", advice=advice)
    return Finding(check="torch", status="ok", text=f"torch {importlib.metadata.version('torch')}")


def check_switch(environ: Mapping[str, str]) -> Finding:
    """Whether Trackside is switched off."""
    if not is_disabled(environ):
        return Finding(check="switch", status="ok", text="TRACKSIDE_DISABLED is not set")
    text = f"TRACKSIDE_DISABLED={environ.get('TRACKSIDE_DISABLED', '')}: every Monitor here is inert"
    return Finding(check="switch", status="warn", text=text, advice="unset TRACKSIDE_DISABLED")


def check_identity(environ: Mapping[str, str]) -> Finding:
    """Whether the variables of a launcher agree with each other."""
    try:
        identity = find_identity(environ)
    except UsageError as error:
        happened, _, advice = str(error).partition("; ")
        return Finding(check="identity", status="fail", text=happened, advice=advice or None)
    if identity.world_size == 1:
        return Finding(check="identity", status="ok", text=f"rank 0 of 1, by {identity.source}")
    return Finding(
        check="identity", status="ok", text=f"rank {identity.rank} of {identity.world_size}, by {identity.source}"
    )


def check_controller(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Whether the controller's address is whole and lets us in."""
    text = environ.get("TRACKSIDE_CONTROLLER", "")
    if not text:
        yield Finding(
            check="controller", status="ok", text="no TRACKSIDE_CONTROLLER here: a script starts a controller itself"
        )
        return
    try:
        address = parse_address(text)
    except AddressError as error:
        happened, _, advice = str(error).partition("; ")
        yield Finding(check="controller", status="fail", text=happened, advice=advice or None)
        return
    yield Finding(check="controller", status="ok", text=f"address of run {address.run}, {_places(address)}")
    began = time.monotonic()
    reached = next((host for host in address.hosts if shakes_hands(address, host)), None)
    if reached is None:
        yield Finding(
            check="link",
            status="fail",
            text=f"no handshake within {HANDSHAKE_S:g} s at {_places(address)}",
            advice="is the controller still running, and does a firewall let this host reach that port?",
        )
        return
    took_ms = (time.monotonic() - began) * 1000
    yield Finding(check="link", status="ok", text=f"{reached}:{address.port} lets us in, {took_ms:.0f} ms")


def shakes_hands(address: ControllerAddress, host: str, timeout_s: float = HANDSHAKE_S) -> bool:
    """Return whether the controller takes our key there. Says nothing to it, so nothing shows on its page."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    socket = context.socket(zmq.DEALER)
    socket.curve_serverkey = address.server_key.encode("ascii")
    socket.curve_publickey = address.client_public.encode("ascii")
    socket.curve_secretkey = address.client_secret.encode("ascii")
    events = socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_HANDSHAKE_FAILED_AUTH)
    try:
        socket.connect(f"tcp://[{host}]:{address.port}" if ":" in host else f"tcp://{host}:{address.port}")
        if not events.poll(int(timeout_s * 1000)):
            return False
        event: Any = parse_monitor_message(events.recv_multipart())
        return bool(event["event"] == zmq.EVENT_HANDSHAKE_SUCCEEDED)
    except zmq.ZMQError:
        return False
    finally:
        context.destroy(linger=0)  # the socket, and the one its events come through


def check_port(environ: Mapping[str, str]) -> Finding:
    """Whether the page's port is free."""
    wanted = environ.get("TRACKSIDE_PORT", "")
    if wanted and not (wanted.isascii() and wanted.isdigit() and int(wanted) < 65536):
        advice = "set it to a number from 0 to 65535, or unset it"
        return Finding(check="port", status="fail", text=f"TRACKSIDE_PORT={wanted} is no port", advice=advice)
    try:
        bind_port("127.0.0.1", int(wanted or DEFAULT_PORT)).close()
    except (PortTakenError, UsageError) as error:
        text = str(error).rpartition("; ")[0]
        if wanted:
            return Finding(check="port", status="fail", text=text, advice="take another TRACKSIDE_PORT")
        return Finding(check="port", status="warn", text=text, advice="the page takes the next port that is free")
    return Finding(check="port", status="ok", text=f"{wanted or DEFAULT_PORT} is free")


def check_page() -> Finding:
    """Whether the built page is installed."""
    if (STATIC / INDEX).is_file():
        return Finding(check="page", status="ok", text=f"{sum(f.is_file() for f in STATIC.rglob('*'))} files")
    advice = "in a checkout: python hatch_build.py (needs npm); otherwise install trackside again"
    return Finding(check="page", status="fail", text="the page is not built", advice=advice)


def check_directory(environ: Mapping[str, str]) -> Finding:
    """Whether run folders can be kept."""
    try:
        directory = writable_directory(environ.get("TRACKSIDE_DIR") or "runs", keep=False)
    except UsageError as error:
        text = str(error).partition("\n")[0]
        return Finding(check="folder", status="fail", text=text, advice="choose another with --dir or TRACKSIDE_DIR")
    return Finding(check="folder", status="ok", text=f"{directory} takes run folders")


def check_left() -> Iterator[Finding]:
    """What killed processes left on this machine that nobody has taken in: the latest, and how much more there is."""
    strays = find_strays(CROWD_SETTLED_S)
    if not strays:
        yield Finding(check="left", status="ok", text="no killed process has left anything on this machine")
    for stray in strays[:MOST_LEFT]:
        yield Finding(check="left", status="warn", text=stray.words, advice=f"{stray.command}   takes it in")
    if rest := strays[MOST_LEFT:]:
        size = megabytes(sum(left.size for stray in rest for left in stray.left))
        yield Finding(
            check="left",
            status="warn",
            text=f"and {size} of {len(rest)} earlier runs; nothing is removed before it was taken in",
            advice="trackside recover   lists all, each with its command",
        )


def check_gpus(environ: Mapping[str, str]) -> Finding:
    """Whether the NVIDIA driver answers, and which devices this process would be given."""
    driver = Patience()
    devices = driver.ask(_devices)
    driver.close()
    if devices is None:
        return Finding(
            check="gpu",
            status="warn",
            text=f"the NVIDIA driver does not answer within {PATIENCE_S:.0f} s; GPU figures stay unknown until it does",
            advice="see whether nvidia-smi answers, and what dmesg says of the card",
        )
    visible = visible_devices(environ, devices)
    if not devices:
        return Finding(check="gpu", status="ok", text="no NVIDIA driver here: CPU and memory only")
    if visible is None:
        return Finding(
            check="gpu",
            status="warn",
            text=f"{len(devices)} devices of different models; which is whose is known once torch uses CUDA",
            advice="set CUDA_DEVICE_ORDER=PCI_BUS_ID to know it from the start",
        )
    shown = ", ".join(sorted({device.name or "unknown" for device in devices}))
    return Finding(check="gpu", status="ok", text=f"{len(devices)} × {shown}; {len(visible)} visible to this process")


def _devices() -> list[Device]:
    nvml = Nvml()
    try:
        return nvml.devices
    finally:
        nvml.close()


def _places(address: ControllerAddress) -> str:
    return ", ".join(f"{host}:{address.port}" for host in address.hosts)
