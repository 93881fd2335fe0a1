"""A process whose wall clock jumps, or whose run folder's disk hangs or refuses, while it runs; no root needed."""

from __future__ import annotations

import functools
import struct
import subprocess
import tempfile
from pathlib import Path

SOURCE = Path(__file__).parent / "interposed.c"
_CONTROL = struct.Struct("=diii")
TEMPORARY = Path(tempfile.gettempdir())
"""Of the whole session: a test has one of its own, which goes with it."""


@functools.cache
def _library() -> Path:
    folder = TEMPORARY / f"trackside-interposed-{SOURCE.stat().st_mtime_ns}"
    folder.mkdir(exist_ok=True)
    library = folder / "interposed.so"
    if not library.exists():
        made = folder / f"{id(folder)}.so"
        command = ["cc", "-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", "-o", made, SOURCE, "-ldl"]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        made.replace(library)
    return library


class Interposed:
    """What a process sees of clock and disk. Start it with `env`; every verb holds at once, and is undone by `heal`.

    Args:
        directory: For the file that the process reads the faults from.
        folder: Whose disk it is; everything below it.
    """

    def __init__(self, directory: Path, folder: Path | None = None) -> None:
        self._file = directory / f"faults-{id(self)}"
        self._file.write_bytes(bytes(_CONTROL.size))
        self.env = {"LD_PRELOAD": str(_library()), "TS_SHIM_CONTROL": str(self._file)}
        if folder is not None:
            self.env["TS_SHIM_FOLDER"] = str(folder)

    @property
    def met(self) -> int:
        """How many calls the disk has kept or refused."""
        return int(_CONTROL.unpack(self._file.read_bytes())[3])

    def jump_clock(self, seconds: float) -> None:
        """Let the wall clock be ahead of the machine's."""
        self._write(0, struct.pack("=d", seconds))

    def hang(self) -> None:
        """Nothing that touches the folder comes back, like a hard mount whose server has gone."""
        self._write(8, struct.pack("=i", 1))

    def refuse(self, number: int) -> None:
        """Everything that writes in the folder fails with an errno."""
        self._write(12, struct.pack("=i", number))

    def heal(self) -> None:
        """Be a good machine again."""
        self._write(0, struct.pack("=dii", 0.0, 0, 0))

    def _write(self, at: int, data: bytes) -> None:
        with self._file.open("r+b") as file:
            file.seek(at)
            file.write(data)
