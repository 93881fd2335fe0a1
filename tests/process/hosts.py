"""Two hosts on one machine: network namespaces with a cable between them, and a memory file system each. Root only."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.process.job import clean_environment

ADDRESSES = ("10.83.77.1", "10.83.77.2")


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=20)


class Hosts:
    """`a` and `b`. What runs on one sees neither the other's processes' memory files nor its loopback."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._names = [f"ts{os.getpid()}{letter}" for letter in "ab"]
        self.processes: list[subprocess.Popen[str]] = []
        for name in self._names:
            _ip("netns", "add", name)
        near, far = (f"v{name}"[:15] for name in self._names)
        _ip("link", "add", near, "netns", self._names[0], "type", "veth", "peer", "name", far, "netns", self._names[1])
        for name, device, address in zip(self._names, (near, far), ADDRESSES, strict=True):
            _ip("-n", name, "addr", "add", f"{address}/24", "dev", device)
            for each in ("lo", device):
                _ip("-n", name, "link", "set", each, "up")
        self._cable = far

    def memory(self, host: int) -> Path:
        """What is `/dev/shm` on a host."""
        folder = self._directory / f"memory{host}"
        folder.mkdir(exist_ok=True)
        return folder

    def start(self, host: int, *command: str, **env: str) -> subprocess.Popen[str]:
        """Run Python on a host."""
        prefix = f'mount --bind {self.memory(host)} /dev/shm && exec "$@"'
        inside = ["ip", "netns", "exec", self._names[host], "unshare", "-m", "sh", "-c", prefix, "sh"]
        own = self._directory / f"tmp{host}"
        own.mkdir(exist_ok=True)
        self.processes.append(
            subprocess.Popen(
                [*inside, sys.executable, *command],
                cwd=self._directory,
                env=clean_environment(TMPDIR=str(own), **env),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
        return self.processes[-1]

    def cut(self, *, is_cut: bool) -> None:
        """Pull the cable out of host b, or put it in."""
        _ip("-n", self._names[1], "link", "set", self._cable, "down" if is_cut else "up")

    def close(self) -> None:
        """Idempotent."""
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait(20)
            if process.stdout is not None:
                process.stdout.close()
        for name in self._names:
            with contextlib.suppress(subprocess.SubprocessError):
                _ip("netns", "del", name)


def two_hosts(directory: Path) -> Iterator[Hosts]:
    """For a fixture."""
    hosts = Hosts(directory)
    yield hosts
    hosts.close()
