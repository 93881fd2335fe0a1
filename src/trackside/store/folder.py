"""A run's folder: where everything of one run lies."""

import errno
import os
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from trackside.errors import RunFolderError, StoreError
from trackside.wire.ids import slug

SCHEMA_VERSION = 1
DOCUMENT = "run.json"


class RunFolder:
    """Paths of one run folder and writes that are whole or not there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.points = path / "points"
        self.resources = path / "resources"
        self.journal = path / "journal"
        self.spool = path / "spool"
        self.epochs = path / "epochs.parquet"
        self.events = path / "events.jsonl"
        self.document = path / DOCUMENT
        self.report = path / "report.html"
        self.graph = path / "graph.json"
        self.svg = path / "graph.svg"

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
            path = _make_unique(root, f"{stamp}-{slug(name)}")
            folder = cls(path)
            for part in (folder.points, folder.resources, folder.journal):
                part.mkdir()
            folder.journal.chmod(0o700)
        except OSError as error:
            raise StoreError(
                f"no run folder can be made in {root}: {error.strerror}; name a writable folder with --dir"
            ) from error
        return folder

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "RunFolder":
        """An existing run folder.

        Raises:
            RunFolderError: it is none, or of an unknown schema.
        """
        folder = cls(Path(path).absolute())
        if not folder.path.is_dir():
            raise RunFolderError(f"{folder.path} is no folder; `trackside ls` lists the runs there are")
        if not folder.document.is_file() and not folder.journal.is_dir():
            raise RunFolderError(f"{folder.path} is no run folder (no {DOCUMENT}); `trackside ls` lists the runs")
        return folder

    def read_document(self) -> dict[str, Any]:
        """`run.json`; empty when it was not written yet.

        Raises:
            RunFolderError: damaged, or of a newer schema.
        """
        try:
            document = msgspec.json.decode(self.document.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError) as error:
            raise RunFolderError(f"{self.document} cannot be read: {error}") from error
        version = document.get("schema_version", SCHEMA_VERSION) if isinstance(document, dict) else None
        if not isinstance(version, int) or version > SCHEMA_VERSION:
            raise RunFolderError(
                f"{self.document} has schema {version!r}, this trackside reads up to {SCHEMA_VERSION}; upgrade it"
            )
        return dict(document)

    def write_whole(self, path: Path, data: bytes, *, private: bool = False) -> None:
        """Write a file of this folder so that a reader sees the old or the new one.

        Blocks: for the disk. Raises: OSError.
        """
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                os.fchmod(file.fileno(), 0o600 if private else 0o644)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    def point_files(self) -> list[Path]:
        """Parquet files of points, oldest first."""
        return sorted(self.points.glob("[0-9]*.parquet"))

    def resource_files(self) -> list[Path]:
        """Parquet files of resources, oldest first."""
        return sorted(self.resources.glob("[0-9]*.parquet"))

    def journal_files(self) -> list[Path]:
        """Journal files, oldest first."""
        return sorted(self.journal.glob("[0-9]*.log"))


def _make_unique(root: Path, name: str) -> Path:
    for number in range(1, 1000):
        path = root / (name if number == 1 else f"{name}-{number}")
        try:
            path.mkdir()
        except FileExistsError:
            continue
        return path
    raise OSError(errno.EEXIST, f"{name} and 999 more are taken")
