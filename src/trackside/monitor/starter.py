"""Finding a controller, or starting one: a process of its own that outlives a crash of this one."""

import json
import logging
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trackside.errors import TracksideError
from trackside.monitor.roles import CONTROLLER
from trackside.wire.address import ControllerAddress, parse_address
from trackside.wire.messages import Identity

logger = logging.getLogger("trackside.monitor")

READY_SECONDS = 30.0
FIND_SECONDS = 60.0
MOST_RESTARTS = 30


@dataclass(slots=True)
class Starter:
    """Gets the address: from the environment, from another rank's discovery file, or by starting a controller.

    Threads: the send thread only. Blocks: `locate` up to a minute; `check` for a restart's few hundred milliseconds.
    """

    identity: Identity
    name: str | None
    directory: str | None
    warn: Callable[[str], None]
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    should_stop: Callable[[], bool] = lambda: False
    _process: "subprocess.Popen[bytes] | None" = None
    _folder: str | None = None
    _restarts: int = 0
    _discovery: Path | None = None

    def locate(self) -> ControllerAddress | None:
        """The controller's address; None when there is none to be had, which has been said."""
        given = self.environ.get(CONTROLLER, "").strip()
        if given:
            return parse_address(given)
        if self.identity.world_size == 1:
            return self._start(["--dir", self._base(), "--name", self._run_name()])
        self._discovery = discovery_file(self.identity, self.environ)
        if self.identity.rank != 0:
            return self._wait_for_other()
        found = read_discovery(self._discovery)
        if found is not None:
            return found
        return self._start(["--dir", self._base(), "--name", self._run_name()])

    def check(self) -> None:
        """Start the controller again when it died."""
        process = self._process
        if process is None or process.poll() is None or process.returncode == 0 or self._folder is None:
            return
        self._process = None
        if self._restarts >= MOST_RESTARTS:
            self.warn(f"the controller died {self._restarts} times and stays down; training goes on without it")
            return
        self._restarts += 1
        self._start(["--resume", self._folder])

    def forget(self) -> None:
        """The end: the controller leaves by itself."""
        if self._process is not None:
            self._process.poll()
            self._process.returncode = self._process.returncode if self._process.returncode is not None else 0
        self._process = None

    def _start(self, arguments: list[str]) -> ControllerAddress | None:
        reading, writing = os.pipe()
        command = [sys.executable, "-m", "trackside", "controller", *arguments]
        command += ["--parent-pid", str(os.getpid()), "--ready-fd", str(writing)]
        try:
            self._process = subprocess.Popen(
                command,
                pass_fds=[writing],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=_log_file(),
                start_new_session=True,
                env=_controller_environment(self.environ),
            )
        except OSError as error:
            os.close(reading)
            self.warn(f"the controller could not be started: {error}; training goes on without it")
            return None
        finally:
            os.close(writing)
        try:
            return self._read_ready(reading)
        finally:
            os.close(reading)

    def _read_ready(self, descriptor: int) -> ControllerAddress | None:
        text, deadline = b"", time.monotonic() + READY_SECONDS
        while not text.endswith(b"\n") and time.monotonic() < deadline and not self.should_stop():
            if select.select([descriptor], [], [], 0.1)[0]:
                chunk = os.read(descriptor, 65536)
                if not chunk:
                    break
                text += chunk
        try:
            said: dict[str, Any] = json.loads(text)
            if "error" in said:
                self.warn(f"{said['error']}; training goes on without the dashboard")
                return None
            address = parse_address(said["address"])
        except (ValueError, KeyError, TracksideError):
            self.warn(
                "the controller did not start; training goes on without it (`trackside doctor` looks for the cause)"
            )
            return None
        self._folder = said["directory"]
        if self._discovery is not None:
            write_discovery(self._discovery, said["address"])
        return address

    def _wait_for_other(self) -> ControllerAddress | None:
        deadline = time.monotonic() + FIND_SECONDS
        while time.monotonic() < deadline and not self.should_stop():
            if self._discovery is not None and (found := read_discovery(self._discovery)) is not None:
                return found
            time.sleep(0.05)
        if not self.should_stop():
            self.warn(
                f"rank {self.identity.rank} found no controller on this host within {FIND_SECONDS:.0f} s; rank 0 starts it, "
                "on other hosts give TRACKSIDE_CONTROLLER, or launch with `trackside run`"
            )
        return None

    def _base(self) -> str:
        return self.directory or self.environ.get("TRACKSIDE_DIR") or "runs"

    def _run_name(self) -> str:
        script = Path(sys.argv[0]).stem if sys.argv and sys.argv[0] else ""
        return self.name or self.environ.get("TRACKSIDE_NAME") or script or "run"


def discovery_file(identity: Identity, environ: Mapping[str, str]) -> Path:
    """Where rank 0 of this job on this host leaves the address: in a folder that only this user may enter."""
    folder = Path(tempfile.gettempdir()) / f"trackside-{os.getuid()}"
    parts = (
        str(os.getppid()),
        identity.job or "",
        environ.get("MASTER_ADDR", ""),
        environ.get("MASTER_PORT", ""),
        environ.get("SLURM_JOB_ID", ""),
    )
    key = "".join(c if c.isalnum() or c in ".-" else "-" for c in "_".join(parts))
    return folder / f"{key}.address"


def write_discovery(path: Path, address: str) -> None:
    """Leave the address for the job's other ranks; only this user can read it."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    _check_private(path.parent)
    handle, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "w") as file:
        file.write(address)
    Path(name).replace(path)


def read_discovery(path: Path) -> ControllerAddress | None:
    """The address another rank left; None when there is none, or its controller is gone."""
    try:
        _check_private(path.parent)
        address = parse_address(path.read_text("ascii"))
    except (OSError, TracksideError, UnicodeDecodeError):
        return None
    if address.pid is not None and not Path(f"/proc/{address.pid}").exists():
        path.unlink(missing_ok=True)
        return None
    return address


def _check_private(folder: Path) -> None:
    status = folder.stat()
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise PermissionError(f"{folder} is not private to this user")


def _log_file() -> int:
    return subprocess.DEVNULL


def _controller_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The controller is no rank of anything."""
    strangers = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "GROUP_RANK", CONTROLLER)
    return {name: value for name, value in environ.items() if name not in strangers}
