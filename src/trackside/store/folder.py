"""A run's folder: where everything of one run lies."""

import errno
import os
import tempfile
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from trackside.errors import RunFolderError, StoreError
from trackside.store.numbering import standing
from trackside.wire.ids import slug

SCHEMA_VERSION = 1
DOCUMENT = "run.json"
TEMPORARY = ".tmp"


class RunFolder:
    """Paths of one run folder and writes that are whole or not there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.points = path / "points"
        self.resources = path / "resources"
        self.outline = path / "outline"
        self.journal = path / "journal"
        self.spool = path / "spool"
        self.epochs = path / "epochs.parquet"
        self.events = path / "events.jsonl"
        self.document = path / DOCUMENT
        self.report = path / "report.html"
        self.graph = path / "graph.json"
        self.heat = path / "heat.json"
        self.svg = path / "graph.svg"
        self.seal = path / "sealed.bin"

    @classmethod
    def create(cls, base: str | os.PathLike[str], name: str, now_wall: float) -> "RunFolder":
        """Make `<UTC time>-<name>` below `base`; a taken name gets a number.

        Raises:
            StoreError: the folder cannot be made or written to.
        """
        stamp = datetime.fromtimestamp(now_wall, UTC).strftime("%Y%m%dT%H%M%SZ")
        root = Path(base).absolute()
        try:
            root.mkdir(parents=True, exist_ok=True)
            folder = cls(_make_unique(root, f"{stamp}-{slug(name)}"))
            folder.make_parts()
        except OSError as error:
            raise StoreError(
                f"no run folder can be made in {root}: {_why(error)}; choose another with --dir, TRACKSIDE_DIR or Monitor(dir=…)"
            ) from error
        return folder

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "RunFolder":
        """An existing run folder.

        Raises:
            RunFolderError: it is none, or it cannot be read.
        """
        folder = cls(Path(path).absolute())
        try:
            names = {entry.name for entry in folder.path.iterdir()}
        except FileNotFoundError as error:
            raise RunFolderError(f"{folder.path} does not exist; `trackside ls` lists the runs there are") from error
        except OSError as error:
            raise RunFolderError(f"{folder.path} cannot be read: {_why(error)}") from error
        if not names & {DOCUMENT, folder.journal.name, folder.points.name}:
            raise RunFolderError(
                f"{folder.path} is no run folder (no {DOCUMENT}, journal or points in it); `trackside ls DIR` lists the "
                "runs of a folder"
            )
        return folder

    def make_parts(self) -> None:
        """Make the folders inside that are not there. Raises: OSError."""
        for part in (self.path, self.points, self.resources):
            part.mkdir(exist_ok=True)
        if not self.journal.is_dir():
            self.journal.mkdir(mode=0o700)

    def read_document(self) -> dict[str, Any]:
        """`run.json`; empty when it was not written yet.

        Raises:
            RunFolderError: damaged, or of a newer schema.
        """
        try:
            document = msgspec.json.decode(self.document.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError, RecursionError) as error:
            raise RunFolderError(f"{self.document} cannot be read: {error}") from error
        if not isinstance(document, dict):
            raise RunFolderError(f"{self.document} holds no run: {type(document).__name__} instead of an object")
        version = document.get("schema_version", SCHEMA_VERSION)
        if not isinstance(version, int) or not 0 < version <= SCHEMA_VERSION:
            raise RunFolderError(
                f"{self.document} has schema {version!r}, this trackside reads up to {SCHEMA_VERSION}; upgrade it"
            )
        return dict(document)

    def write_whole(self, path: Path, data: bytes, *, private: bool = False) -> None:
        """Write a file of this folder so that a reader sees the old or the new one.

        Blocks: for the disk. Raises: OSError; StoreError for a path outside.
        """
        if not path.absolute().parent.resolve().is_relative_to(self.path.resolve()):
            raise StoreError(f"{path} does not lie in the run folder {self.path}")
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-", suffix=TEMPORARY)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                os.fchmod(file.fileno(), 0o600 if private else 0o644)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    def point_files(self) -> list[Path]:
        """Parquet files of points, oldest first, without those that a merged one has swallowed."""
        return standing(self.points.glob("*.parquet"))

    def resource_files(self) -> list[Path]:
        """Parquet files of resources, oldest first, likewise."""
        return standing(self.resources.glob("*.parquet"))

    def journal_files(self) -> list[Path]:
        """Journal files, oldest first."""
        return sorted(path for path in self.journal.glob("*.log") if path.stem.isdigit())

    def sweep(self) -> None:
        """Remove what interrupted writes and merges left behind. Blocks: for the disk. Raises: OSError."""
        for part, stand in ((self.points, self.point_files()), (self.resources, self.resource_files())):
            for path in set(part.glob("*.parquet")) - set(stand):
                path.unlink(missing_ok=True)
        unlink_all(path for part in (self.path, self.journal) for path in part.glob(f"*{TEMPORARY}"))
        unlink_all(path for part in (self.path, self.outline) for path in part.glob(f".*{TEMPORARY}"))
        names = {path.stem for path in self.point_files()}
        unlink_all(path for path in self.outline.glob("*.bin") if path.stem not in names)


def unlink_all(paths: Iterable[Path]) -> None:
    """Remove files; those that are gone already are no trouble."""
    for path in list(paths):
        path.unlink(missing_ok=True)


def sync_path(path: Path) -> None:
    """Bring a file or a folder's entries to the disk. Blocks: for the disk. Raises: OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _make_unique(root: Path, name: str) -> Path:
    for number in range(1, 1000):
        path = root / (name if number == 1 else f"{name}-{number}")
        try:
            path.mkdir()
        except FileExistsError:
            continue
        return path
    raise OSError(errno.EEXIST, f"{name} and 999 more are taken")


def _why(error: OSError) -> str:
    if isinstance(error, FileExistsError | NotADirectoryError):
        return "a file is in the way" + (f" ({error.filename})" if error.filename else "")
    where = f" ({error.filename})" if error.filename else ""
    return f"{error.strerror or error}{where}"
