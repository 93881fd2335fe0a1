"""What this process and its host are, read without starting anything."""

import os
import platform
import socket
import sys
from pathlib import Path

from trackside._version import __version__
from trackside.monitor.samplers.hardware import cpu_model, cpu_threads, machine_memory_bytes
from trackside.wire.arguments import utf8_text
from trackside.wire.machine import machine_id
from trackside.wire.messages import HostFacts, ProcessFacts
from trackside.wire.processes import ancestors_of, began_after_boot

MAX_ARGUMENTS = 64


def host_facts() -> HostFacts:
    """Where this process runs."""
    return HostFacts(
        host=utf8_text(socket.gethostname()) or "localhost",
        machine_id=machine_id(),
        cpu_model=cpu_model(),
        cpu_threads=cpu_threads(),
        memory_bytes=machine_memory_bytes(),
        platform=_system(),
    )


def _system() -> str:
    """Kernel and architecture; `platform.platform()` would start `uname` to learn as much."""
    system = os.uname()
    return f"{system.sysname}-{system.release}-{system.machine}"


def process_facts() -> ProcessFacts:
    """What this process is. torch's version only when torch is there already."""
    torch = sys.modules.get("torch")
    directory = _directory()
    return ProcessFacts(
        pid=os.getpid(),
        parent_pid=os.getppid(),
        ancestors=ancestors_of(os.getpid()),
        began_after_boot=began_after_boot(os.getpid()),
        python=platform.python_version(),
        torch=str(getattr(torch, "__version__", "")) or None if torch else None,
        trackside=__version__,
        command=[utf8_text(word) for word in [sys.executable, *map(str, sys.argv)][:MAX_ARGUMENTS]],
        directory=utf8_text(directory) if directory else None,
        git_commit=git_commit(Path(directory)) if directory else None,
    )


def git_commit(start: Path) -> str | None:
    """Commit of the checkout that holds `start`, read from its files; None outside of one."""
    for folder in (start, *start.parents):
        git = folder / ".git"
        try:
            if git.is_file():
                git = (folder / git.read_text("utf-8").partition("gitdir:")[2].strip()).resolve()
            if (git / "HEAD").is_file():
                return _resolve(git, (git / "HEAD").read_text("utf-8").strip())
        except (OSError, ValueError):  # or what is no text
            return None
    return None


def _resolve(git: Path, head: str) -> str | None:
    if not head.startswith("ref:"):
        return head or None
    name = head.removeprefix("ref:").strip()
    common = git / "commondir"
    roots = [git] + ([(git / common.read_text("utf-8").strip()).resolve()] if common.is_file() else [])
    for root in roots:
        if (root / name).is_file():
            return (root / name).read_text("utf-8").strip() or None
        packed = root / "packed-refs"
        lines = packed.read_text("utf-8").splitlines() if packed.is_file() else []
        found = next((line.split()[0] for line in lines if line.endswith(" " + name)), None)
        if found:
            return found
    return None


def _directory() -> str | None:
    try:
        return str(Path.cwd())
    except OSError:
        return None
