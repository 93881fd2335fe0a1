"""How a process ended that is nobody's child here: the kernel still tells, for a while."""

import contextlib
import fcntl
import os
import signal
import struct

import msgspec

_GET_INFO = 0xC040FF0B
"""`PIDFD_GET_INFO`: `_IOWR(0xFF, 11, struct pidfd_info)` in its first size, 64 bytes."""
_INFO_EXIT = 1 << 3
"""`PIDFD_INFO_EXIT`, since Linux 6.15: the exit is told also after the parent has taken it."""
_INFO_BYTES, _EXIT_OFFSET = 64, 60


class Ended(msgspec.Struct, frozen=True):
    """How a process ended; neither is known where nobody could tell."""

    exit_code: int | None = None
    signal: str | None = None


def open_process(pid: int) -> int | None:
    """A descriptor of a running process, to ask about its end; None where the kernel has none."""
    with contextlib.suppress(OSError, AttributeError):
        return os.pidfd_open(pid)
    return None


def how_it_ended(pid: int, descriptor: int | None) -> Ended:
    """How a process ended that does not run any more.

    Args:
        pid: Its number.
        descriptor: `open_process` of it, from the time when it ran; None: only a zombie still tells.

    Source: `PIDFD_GET_INFO`; on older kernels the field `exit_code` of `/proc/<pid>/stat`, as long as its parent has not
    taken it.
    """
    status = _from_descriptor(descriptor)
    status = status if status is not None else _from_zombie(pid)
    if status is None:
        return Ended()
    code = os.waitstatus_to_exitcode(status)
    return Ended(exit_code=code) if code >= 0 else Ended(signal=_name(-code))


def _from_descriptor(descriptor: int | None) -> int | None:
    if descriptor is None:
        return None
    info = bytearray(_INFO_BYTES)
    struct.pack_into("=Q", info, 0, _INFO_EXIT)
    try:
        fcntl.ioctl(descriptor, _GET_INFO, info)
    except OSError:
        return None
    (told,) = struct.unpack_from("=Q", info, 0)
    return int(struct.unpack_from("=i", info, _EXIT_OFFSET)[0]) if told & _INFO_EXIT else None


def _from_zombie(pid: int) -> int | None:
    with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
        fields = file.read().rpartition(b") ")[2].split()
        return int(fields[-1]) if fields[0] in (b"Z", b"X") else None
    return None


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"SIG{number}"
