"""Finding a controller, or starting one: a process of its own that outlives a crash of this one."""

import atexit
import contextlib
import json
import logging
import os
import select
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trackside.errors import TracksideError
from trackside.monitor.discovery import (
    children_path,
    discovery_path,
    read_address,
    sweep_addresses,
    write_address,
)
from trackside.monitor.roles import BY_LOCAL_RANK, CONTROLLER
from trackside.wire.address import ControllerAddress, parse_address
from trackside.wire.arguments import encode_arguments
from trackside.wire.ids import part_of
from trackside.wire.messages import Identity

if TYPE_CHECKING:
    import subprocess

logger = logging.getLogger("trackside.monitor")

READY_S = 60.0
"""How long a controller may take until it listens; 0.5 s is usual, a cold shared file system takes much longer."""
FIND_S = 120.0
LOOK_S = 0.1
MOST_RESTARTS = 30
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0
_RANKS_OWN = (
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "TRACKSIDE_LAUNCHER_PID",
    "TRACKSIDE_GENERATION",
    CONTROLLER,
)
_READY_LIMIT_BYTES = 1_048_576


class Starter:
    """Gets the address: from the environment, from rank 0's discovery file, or by starting a controller.

    Args:
        identity: Ours.
        name: Of the run; None: as the environment or the script says.
        directory: That holds run folders; None: as the environment says, else `runs`.
        environ: Ours, as it was at the start.
        warn: Called with a sentence when there is no controller to be had, it stays down, or it goes on with a run.
        program: What is run; another one in tests.

    Threads: the send thread only. Blocks: never; each call looks once.
    """

    def __init__(
        self,
        identity: Identity,
        name: str | None,
        directory: str | None,
        environ: Mapping[str, str],
        warn: Callable[[str], None],
        program: Sequence[str] = (sys.executable, "-P", "-m", "trackside"),
    ) -> None:
        self.gave_up = False
        self.identity = identity
        """Ours; it may become known late."""
        self.folder: str | None = None
        """The run folder, once a controller of ours has said it."""
        self._environ, self._warn, self._program = environ, warn, program
        self._name = name
        # Absolute now: the script may change its working directory before the controller is started.
        self._directory = str(Path(directory or environ.get("TRACKSIDE_DIR") or "runs").expanduser().absolute())
        self._process: subprocess.Popen[bytes] | None = None
        self._ready: int | None = None
        self._text = b""
        self._deadline: float | None = None
        self._look_at = 0.0
        self._address = ""
        """Of our controller, for others."""
        self._left: Path | None = None
        """The file that holds it for ranks that this process starts."""
        self._restarts, self._pause_s, self._restart_at = 0, FIRST_PAUSE_S, 0.0

    @property
    def is_ours(self) -> bool:
        """Whether this process started the controller."""
        return self.folder is not None

    def locate(self) -> ControllerAddress | None:
        """The address, None while it is not known. `gave_up` says that it never will be, which has been said."""
        if self.gave_up:
            return None
        if given := self._environ.get(CONTROLLER, "").strip():
            return parse_address(given)
        if self._process is not None:
            return self._hear_ready()
        if self.identity.world_size == 1:
            self._start(self._new_run())
            return None
        return self._find_or_start()

    def check(self) -> None:
        """Start our controller again when it has died."""
        if not self.gave_up and self._ready is not None and self.folder is not None:
            self._hear_ready()
            return
        process = self._process
        if self.gave_up or process is None or self.folder is None or process.poll() in (None, 0):
            return
        now = time.monotonic()
        if not self._restart_at:
            if self._restarts >= MOST_RESTARTS:
                self.gave_up = True
                self._warn(f"the controller died {self._restarts} times and stays down; training goes on without it")
                return
            self._restart_at = now + self._pause_s
        if now >= self._restart_at:
            self._restart_at, self._pause_s = 0.0, min(LONGEST_PAUSE_S, self._pause_s * 2)
            self._restarts += 1
            self._start(["--resume", self.folder])

    def has_ended(self) -> bool:
        """Whether our controller has left, or was never ours."""
        return self._process is None or self._process.poll() is not None

    def forget(self) -> None:
        """The end: the controller leaves by itself, and is not started again. Idempotent."""
        self.gave_up = True
        self._close_ready()
        left, self._left = self._left, None
        if left is not None:
            with contextlib.suppress(OSError):
                left.unlink()

    def release(self) -> None:
        """The interpreter is ending: what still runs is nobody's concern. Idempotent."""
        self.forget()
        if self._process is not None:
            _let_go(self._process)

    def leave(self) -> None:
        """The session is over, the interpreter goes on: until it ends, the controller's process is kept, and nothing of us."""
        if self._process is not None and not self.has_ended():
            atexit.register(_let_go, self._process)

    def _find_or_start(self) -> ControllerAddress | None:
        now = time.monotonic()
        if now < self._look_at:
            return None
        self._look_at = now + LOOK_S
        try:
            found = self._find()
        except OSError as error:
            self._give_up(f"{error}; training goes on without the dashboard")
            return None
        if found is not None:
            return found
        if self.identity.rank == 0:
            self._start(self._new_run())
            return None
        if self._deadline is None:
            self._deadline = now + FIND_S
        if now < self._deadline:
            return None
        self._give_up(
            f"rank {self.identity.rank} found no controller on this host within {FIND_S:.0f} s: rank 0 starts it on its "
            f"own host; on other hosts set {CONTROLLER}, or launch with `trackside run`"
        )
        return None

    def _find(self) -> ControllerAddress | None:
        found = read_address(discovery_path(self.identity, self._environ))
        if found is None and self.identity.source.startswith(BY_LOCAL_RANK):
            found = read_address(children_path(os.getppid()))
        return found

    def publish(self) -> None:
        """Leave the address of our controller where the job's other ranks look."""
        if not self.is_ours:
            return
        try:
            sweep_addresses()
            self._left = children_path(os.getpid())
            write_address(self._left, self._address)
            if self.identity.world_size > 1:
                write_address(discovery_path(self.identity, self._environ), self._address)
        except OSError as error:
            if self.identity.world_size > 1:
                self._warn(f"the job's other ranks cannot find the controller: {error}")

    def _new_run(self) -> list[str]:
        script = Path(sys.argv[0]).stem if sys.argv and sys.argv[0] not in ("", "-c", "-m") else ""
        return [
            "--dir",
            self._directory,
            "--name",
            self._name or self._environ.get("TRACKSIDE_NAME") or script or "run",
            "--part",
            part_of(sys.argv),
        ]

    def _start(self, arguments: list[str]) -> None:
        try:
            import subprocess  # most ranks start none

            reading, writing = os.pipe()
        except (ImportError, OSError) as error:  # no descriptor is left
            self._give_up(f"the controller could not be started: {error}; training goes on without it")
            return
        command = [*self._program, "controller", *arguments]
        command += ["--parent-pid", str(os.getpid()), "--ready-fd", str(writing)]
        try:
            self._process = subprocess.Popen(
                encode_arguments(command),
                pass_fds=[writing],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                env={name: value for name, value in self._environ.items() if name not in _RANKS_OWN},
            )
        except (OSError, ValueError) as error:
            os.close(reading)
            self._give_up(f"the controller could not be started: {error}; training goes on without it")
            return
        finally:
            os.close(writing)
        self._ready, self._text, self._deadline = reading, b"", time.monotonic() + READY_S

    def _hear_ready(self) -> ControllerAddress | None:
        """Read what the controller says once it listens."""
        if self._ready is None:
            return None
        has_ended = False
        while select.select([self._ready], [], [], 0)[0]:
            chunk = os.read(self._ready, 65536)
            self._text += chunk
            has_ended = has_ended or not chunk
            if not chunk or len(self._text) > _READY_LIMIT_BYTES:
                break
        if not (self._text.endswith(b"\n") or has_ended or time.monotonic() > (self._deadline or 0)):
            return None
        self._close_ready()
        return self._read_ready()

    def _read_ready(self) -> ControllerAddress | None:
        try:
            said: dict[str, Any] = json.loads(self._text)
            if "error" in said:
                self._fail(str(said["error"]))
                return None
            address = parse_address(said["address"])
            note = said.get("note") if self.folder is None else None
            self._address, self.folder = str(said["address"]), str(said["directory"])
        except (ValueError, KeyError, TypeError, TracksideError):
            self._fail("the controller did not start (`trackside doctor` looks for the cause)")
            return None
        if note is not None:
            self._warn(str(note))
        self.publish()
        return address

    def _fail(self, reason: str) -> None:
        if self.folder is None:
            self._give_up(f"{reason}; training goes on without the dashboard")

    def _give_up(self, text: str) -> None:
        self.gave_up = True
        self._warn(text)

    def _close_ready(self) -> None:
        ready, self._ready = self._ready, None
        if ready is not None:
            with contextlib.suppress(OSError):
                os.close(ready)


def _let_go(process: "subprocess.Popen[bytes]") -> None:
    """Have `Popen` not complain that it still runs."""
    if process.poll() is None:
        process.returncode = 0
