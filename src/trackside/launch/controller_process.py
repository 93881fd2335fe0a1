"""The controller's process, as its starter sees it: ready, supervised, restarted, waited for."""

import contextlib
import json
import logging
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trackside.launch.settings import RunSettings
from trackside.wire.arguments import encode_arguments

_logger = logging.getLogger("trackside.launch")

READY_S = 20.0
"""How long a controller may take until it listens; measured 0.5 s, on a busy file system much more."""
MOST_RESTARTS = 30
_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 5.0


@dataclass(frozen=True, slots=True)
class Ready:
    """What a controller says once it listens."""

    address: str
    """The secret that ranks get in their environment."""
    directory: str
    """Absolute path of the run folder."""
    run: str
    note: str | None = None
    """What there is to say of the run: that it goes on, or why it is not the one it should have been."""


class ControllerProcess:
    """A controller beside the job. It is restarted over the same run when it dies, up to thirty times.

    It has a session of its own, so Ctrl-C in the terminal is the launcher's to handle, and it outlives a launcher
    that is killed until the last rank has gone.

    Args:
        settings: Where the run is kept and how it is shown.
        warn: Called with a sentence when something is lost with the controller, never with a secret.
        program: What is run; another one in tests.

    Threads: any; `trackside-supervise` watches the process.
    """

    def __init__(
        self,
        settings: RunSettings,
        warn: Callable[[str], None],
        program: Sequence[str] = (sys.executable, "-m", "trackside"),
    ) -> None:
        self._settings = settings
        self._program = program
        self._warn = warn
        self._process: subprocess.Popen[bytes] | None = None
        self._ready: Ready | None = None
        self._answered = threading.Event()
        self._ending = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._supervise, name="trackside-supervise", daemon=True)

    def start(self) -> None:
        """Start it, without waiting until it is ready."""
        self._thread.start()

    def ready(self, timeout_s: float = READY_S) -> Ready | None:
        """Return what it said; None when it could not start (which has been warned of) or takes longer still."""
        self._answered.wait(timeout_s)
        return self._ready

    def end(self) -> None:
        """From now on its exit is expected; it is not restarted."""
        self._ending.set()

    def wait(self, timeout_s: float | None) -> bool:
        """Return whether it has left by itself. Blocks: up to `timeout_s`; None: as long as it takes."""
        return self._ended.wait(timeout_s)

    def stop(self, grace_s: float = 5.0) -> None:
        """End it: SIGTERM, then SIGKILL. Idempotent. Blocks: up to `grace_s`."""
        self.end()
        for number in (signal.SIGTERM, signal.SIGKILL):
            process = self._process
            if process is None or self._ended.is_set():
                return
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)
            self._ended.wait(grace_s)

    def _supervise(self) -> None:
        try:
            self._run()
        except Exception:  # top of thread
            _logger.exception("the controller is no longer watched")
        finally:
            self._answered.set()
            self._ended.set()

    def _run(self) -> None:
        code = self._run_once(resume=None)
        pause_s, restarts = _FIRST_PAUSE_S, 0
        while self._ready is not None and code != 0 and not self._ending.is_set():
            if restarts == MOST_RESTARTS:
                self._warn(f"the controller died {restarts} times and stays down; training goes on without it")
                return
            restarts += 1
            self._warn(f"the controller {_death(code)}; starting it again")
            self._ending.wait(pause_s)
            began = time.monotonic()
            code = self._run_once(resume=self._ready.directory)
            pause_s = _FIRST_PAUSE_S if time.monotonic() - began > 60 else min(_LONGEST_PAUSE_S, pause_s * 2)

    def _run_once(self, resume: str | None) -> int:
        reading, writing = os.pipe()
        try:
            self._process = process = subprocess.Popen(
                encode_arguments(self._command(resume, writing)),
                pass_fds=[writing],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
                env=_environment(self._settings.resume),
            )
        finally:
            os.close(writing)
        try:
            answer = _read_line(reading, READY_S, process)
        finally:
            os.close(reading)
        self._ready = answer if isinstance(answer, Ready) else self._ready
        if self._ready is None:
            reason = f": {answer}" if answer else ""
            self._warn(f"the controller did not start{reason}; training goes on without page and report")
            if process.poll() is None:
                process.kill()
        self._answered.set()
        return process.wait()

    def _command(self, resume: str | None, ready_fd: int) -> list[str]:
        chosen = self._settings
        command = [*self._program, "controller"]
        command += ["--resume", resume] if resume else ["--dir", str(chosen.directory), "--name", chosen.name]
        command += ["--part", chosen.part] if chosen.part and not resume else []
        if not chosen.page:
            command.append("--no-page")
        elif chosen.port is not None:
            command += ["--port", str(chosen.port)]
        command += ["--bind", chosen.bind] if chosen.bind else []
        command += ["--listen", chosen.listen] if chosen.listen else []
        command += ["--allowed-hosts", chosen.allowed_hosts] if chosen.allowed_hosts else []
        command += ["--hold"] if chosen.hold else []
        command += ["--late-after", chosen.late_after] if chosen.late_after else []
        command += ["--lost-after", chosen.lost_after] if chosen.lost_after else []
        return [*command, "--parent-pid", str(os.getpid()), "--ready-fd", str(ready_fd)]


def _environment(resume: str | None) -> dict[str, str]:
    """The controller is no rank of anything, whatever started the launcher. `resume`: the run it is to go on with."""
    strangers = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "GROUP_RANK", "TRACKSIDE_CONTROLLER", "TRACKSIDE_RESUME")
    own = {name: value for name, value in os.environ.items() if name not in strangers}
    return {**own, "TRACKSIDE_RESUME": resume} if resume else own


def _read_line(descriptor: int, timeout_s: float, process: "subprocess.Popen[bytes]") -> Ready | str | None:
    """Return the ready line, or why there is none; None when the process ended or said nothing in time."""
    deadline, text = time.monotonic() + timeout_s, b""
    while not text.endswith(b"\n"):
        readable, _, _ = select.select([descriptor], [], [], 0.2)
        if not readable:
            if time.monotonic() > deadline or process.poll() is not None:
                return None
            continue
        chunk = os.read(descriptor, 65536)
        if not chunk:
            return None
        text += chunk
    try:
        said: dict[str, Any] = json.loads(text)
        if "error" in said:
            return str(said["error"])
        directory = str(Path(said["directory"]))
        return Ready(address=said["address"], directory=directory, run=said["run"], note=said.get("note"))
    except (ValueError, KeyError, TypeError):
        return None


def _death(code: int) -> str:
    if code >= 0:
        return f"ended with code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
