"""What killed processes left on this machine, run by run; and a run folder for those that never had one.

A script that is killed together with the controller that it was just starting has logged values, and no run that they belong to.
"""

import time
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from trackside.controller.config import ControllerConfig
from trackside.controller.identity import new_identity, save_identity
from trackside.errors import RunFolderError, StoreError
from trackside.run.diagnose.words import long_duration
from trackside.store import RunFolder
from trackside.wire.estate import read_hello
from trackside.wire.messages import Hello
from trackside.wire.spool import RING_SUFFIX
from trackside.wire.sweep import Remains, megabytes, reachable_folder, survey

_NAMELESS = "recovered"


@dataclass(slots=True)
class Stray:
    """What the killed processes of one run left that nobody has taken in."""

    name: str
    """By which `trackside recover` takes it: the run's id, or the session's where none was known yet."""
    run: str | None
    folder: Path | None = None
    """The run folder, where it is there."""
    left: list[Remains] = field(default_factory=list)

    @property
    def places(self) -> list[str]:
        """Folders that it lies in."""
        return sorted({str(path.parent) for one in self.left for path in one.paths})

    @property
    def words(self) -> str:
        """Whose it is, how much, where and since when, for people."""
        count = len(self.left)
        processes = "one killed process" if count == 1 else f"{count} killed processes"
        of = f"of run {self.run}" if self.run is not None else "without a run"
        size = megabytes(sum(one.size for one in self.left))
        ago = long_duration(max(0.0, time.time() - self.written_at))
        return f"{processes} {of} left {size} in {', '.join(self.places)}, {ago} ago"

    @property
    def command(self) -> str:
        """What takes it in."""
        return f"trackside recover {self.folder or self.name}"

    @property
    def written_at(self) -> float:
        """UTC epoch seconds of the last write."""
        return max(one.written_at for one in self.left)


def find_strays(settled_s: float = 0.0) -> list[Stray]:
    """What there is on this machine, the latest first.

    Args:
        settled_s: Leave out what was written later than so long ago.

    Blocks: for the local disks.
    """
    runs: dict[str, Stray] = {}
    for left in survey(settled_s=settled_s):
        if not left.is_empty:
            name = left.run or left.session
            stray = runs.setdefault(name, Stray(name=name, run=left.run))
            stray.folder = stray.folder or reachable_folder(left)
            stray.left.append(left)
    return sorted(runs.values(), key=lambda stray: -stray.written_at)


def adopt(stray: Stray, directory: Path) -> Path:
    """Make a run folder for what has none, as its controller would have made it; `recover` of it takes all in.

    Raises:
        RunFolderError: nothing in it says whose it is.
        StoreError: the folder cannot be made or written.
    """
    hellos = [hello for left in stray.left if (hello := _hello_of(left)) is not None]
    if not hellos:
        raise RunFolderError(f"{stray.words}, and none of it can be read: no run can be made of it")
    first = min(hellos, key=lambda hello: hello.sent_at)
    config = ControllerConfig(directory=directory, name=_script_of(first))
    identity = new_identity(config, first.sent_at)
    identity = msgspec.structs.replace(
        identity, run=stray.run or identity.run, starters=[hello.process.pid for hello in hellos if hello.run is None]
    )
    folder = RunFolder.create(directory, config.name, first.sent_at)
    try:
        save_identity(folder, identity)
    except OSError as error:
        raise StoreError(f"the run folder {folder.path} cannot be written: {error.strerror or error}") from error
    return folder.path


def _hello_of(left: Remains) -> Hello | None:
    return next((hello for path in left.paths if path.suffix != RING_SUFFIX and (hello := read_hello(path))), None)


def _script_of(hello: Hello) -> str:
    scripts = (Path(word).stem for word in hello.process.command if word.endswith(".py"))
    return next(scripts, _NAMELESS)
