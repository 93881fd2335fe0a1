"""A real job for process tests: started by the real command, watched over real HTTP, broken by verbs."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import psutil

T = TypeVar("T")
SCRIPTS = Path(__file__).parent / "scripts"
TRACKSIDE = [sys.executable, "-m", "trackside"]
CLEARED = ("TRACKSIDE_", "TORCHELASTIC_", "SLURM_", "OMPI_", "PMI_")


def clean_environment(**extra: str) -> dict[str, str]:
    """The environment without any trace of a launcher or of another run."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(CLEARED)}
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT"):
        env.pop(name, None)
    return {**env, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", **extra}


PATIENCE = 3
"""Tests run side by side: a wait that would have ended takes longer then, and one that fails may take its time."""


def wait_for(look: Callable[[], T | None], seconds: float, what: str) -> T:
    """Poll until `look` returns something true; fail with `what` and the last exception in the end.

    What is not there yet (an entry, a key, the page itself) is waited for like what is false.
    """
    deadline, problem = time.monotonic() + seconds * PATIENCE, None
    while time.monotonic() < deadline:
        try:
            if found := look():
                return found
        except (OSError, json.JSONDecodeError, LookupError, StopIteration) as error:
            problem = error
        time.sleep(0.05)  # a look is often a question to a server that has work to do
    raise AssertionError(f"not within {seconds} s: {what}" + (f" ({problem!r})" if problem else ""))


class Job:
    """One started command with its output kept, its page and its run folder."""

    def __init__(self, command: list[str], directory: Path, **env: str) -> None:
        self.runs = directory / "runs"
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            command,
            cwd=directory,
            env=clean_environment(TRACKSIDE_DIR=str(self.runs), **env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.out: list[str] = []
        self.err: list[str] = []
        self._readers = [
            threading.Thread(target=lines.extend, args=(stream,), daemon=True)
            for lines, stream in ((self.out, self.process.stdout), (self.err, self.process.stderr))
        ]
        for reader in self._readers:
            reader.start()

    @classmethod
    def run(
        cls, script: str, directory: Path, *arguments: str, nproc: int = 2, options: tuple[str, ...] = (), **env: str
    ) -> Job:
        """Start `trackside run` over one of the scripts."""
        command = [*TRACKSIDE, "run", "--nproc-per-node", str(nproc), "--port", "0", *options]
        return cls([*command, str(SCRIPTS / script), *arguments], directory, **env)

    # --- looking ---------------------------------------------------------------------------------------------------

    @property
    def stderr(self) -> str:
        return "".join(self.err)

    @property
    def stdout(self) -> str:
        return "".join(self.out)

    def url(self, seconds: float = 60) -> str:
        """The page's address, as printed."""
        found = wait_for(
            lambda: re.search(r"http://(?:localhost|127\.0\.0\.1):\d+", self.stderr), seconds, "the URL line on stderr"
        )
        return found.group()

    def get(self, path: str) -> Any:
        """JSON of one address of the page."""
        try:
            with urllib.request.urlopen(f"{self.url()}/{path}", timeout=10) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            error.close()
            raise

    def folder(self) -> Path:
        """The only run folder."""
        return wait_for(lambda: next(iter(sorted(self.runs.glob("*/run.json"))), None), 60, "a run folder").parent

    def points(self) -> Any:
        """All points, read by pandas alone."""
        import pandas as pd

        return pd.read_parquet(self.folder() / "points")

    def document(self) -> dict[str, Any]:
        return json.loads((self.folder() / "run.json").read_text())

    def events(self) -> list[dict[str, Any]]:
        lines = (self.folder() / "events.jsonl").read_text().splitlines()
        return list({event["id"]: event for event in map(json.loads, lines)}.values())

    def worker_pids(self) -> dict[int, int]:
        return {entry["rank"]: entry["pid"] for entry in self.get("api/v1/ranks") if entry["pid"]}

    def controller_pid(self) -> int:
        """The controller process, found below the launcher or by its command line."""
        run = str(self.runs)
        return wait_for(lambda: next(iter(_processes_with("controller", run)), None), 10, "a controller process")

    # --- verbs -----------------------------------------------------------------------------------------------------

    def kill(self, pid: int | None = None, sig: signal.Signals = signal.SIGKILL) -> None:
        os.kill(pid or self.process.pid, sig)

    def wait(self, seconds: float = 60) -> int:
        """Exit code of the command, all its output read."""
        code = self.process.wait(seconds)
        for reader, stream in zip(self._readers, (self.process.stdout, self.process.stderr), strict=True):
            reader.join(seconds)
            if stream and not reader.is_alive():
                stream.close()
        return code

    def close(self) -> None:
        """End what is left of it."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)
        for sig, seconds in (
            (signal.SIGTERM, 3),
            (signal.SIGKILL, 0),
        ):  # a controller that is asked takes its address away
            asked = [process for pid in _processes_with("", str(self.runs)) if (process := _sent(sig, pid))]
            psutil.wait_procs(asked, timeout=seconds)
        for reader, stream in zip(self._readers, (self.process.stdout, self.process.stderr), strict=True):
            reader.join(10)
            if stream and not reader.is_alive():
                stream.close()


def _sent(sig: signal.Signals, pid: int) -> psutil.Process | None:
    """The process, to which this signal was sent; None when it has gone."""
    try:
        process = psutil.Process(pid)
        process.send_signal(sig)
    except psutil.NoSuchProcess:
        return None
    return process


def _processes_with(*words: str) -> list[int]:
    """Processes whose command line or environment's TRACKSIDE_DIR holds every word; not this one."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if all(word in command for word in words):
            found.append(int(entry.name))
    return found
