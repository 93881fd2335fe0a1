"""Disks that fill up, freeze and go: small file systems of their own, mounted for one test. Root only."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


def can_mount() -> bool:
    """Whether this process may mount file systems here."""
    if os.geteuid() != 0:
        return False
    probe = subprocess.run(["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True)
    return probe.returncode == 0


class SmallDisk:
    """A file system of `megabytes` in memory."""

    def __init__(self, at: Path, megabytes: int) -> None:
        self.path = at
        at.mkdir()
        _run("mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "trackside-test", str(at))

    def fill(self) -> None:
        """Take every byte that is left."""
        with (self.path / "filler").open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(65_536))
            except OSError:
                pass
        with (self.path / "filler-of-the-rest").open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(1))
            except OSError:
                return

    def free(self) -> None:
        """Give them back."""
        for path in self.path.glob("filler*"):
            path.unlink()

    def close(self) -> None:
        """Idempotent."""
        if self.path.is_mount():
            _run("umount", "--lazy", str(self.path))


class FreezableDisk:
    """A file system in a file that can be frozen: whoever writes then waits, as on a server that does not answer."""

    def __init__(self, at: Path, image: Path, megabytes: int = 64) -> None:
        self.path = at
        self._is_frozen = False
        at.mkdir()
        with image.open("wb") as file:
            file.truncate(megabytes << 20)
        _run("mkfs.ext4", "-q", "-F", str(image))
        _run("mount", "-o", "loop", str(image), str(at))

    def freeze(self) -> None:
        """Every write waits from now on."""
        _run("fsfreeze", "--freeze", str(self.path))
        self._is_frozen = True

    def thaw(self) -> None:
        """Idempotent."""
        if self._is_frozen:
            self._is_frozen = False
            _run("fsfreeze", "--unfreeze", str(self.path))

    def close(self) -> None:
        """Idempotent."""
        self.thaw()
        if self.path.is_mount():
            _run("umount", "--lazy", str(self.path))


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=60)
