"""The runs of a folder."""

from pathlib import Path

import msgspec

from trackside.errors import RunFolderError
from trackside.store.folder import DOCUMENT, RunFolder
from trackside.wire.arguments import utf8_text


class RunSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One line of `trackside ls`."""

    directory: str
    id: str
    name: str
    state: str
    state_detail: str | None = None
    started_at: float | None = None
    elapsed_seconds: float | None = None
    world_size: int | None = None
    step: int | None = None
    open: bool
    """Whether a controller still writes it, or was killed while it did."""


_TOLD = ("id", "name", "state", "state_detail", "started_at", "elapsed_seconds", "world_size", "step")


def list_runs(directory: str | Path) -> list[RunSummary]:
    """Runs directly below a folder, newest first; what is no run folder is left out.

    Raises:
        RunFolderError: the folder does not exist.
    """
    root = Path(directory).absolute()
    if not root.is_dir():
        raise RunFolderError(f"{root} is no folder; runs lie where --dir or TRACKSIDE_DIR said, by default in ./runs")
    return [_summary(path) for path in sorted(root.iterdir(), reverse=True) if _is_run(path)]


def find_run(which: str, directory: str | Path) -> Path:
    """The folder of one run: its path, its name below `directory`, or the run's id there.

    Raises:
        RunFolderError: there is none.
    """
    for path in (Path(which).expanduser(), Path(directory) / which):
        if _is_run(path):
            return path.absolute()
    root = Path(directory).absolute()
    known = list_runs(root) if root.is_dir() else []
    for run in known:
        if run.id == which:
            return root / Path(run.directory).name
    raise RunFolderError(
        f"{which} is no run folder, and no run of that name or id lies in {root}; `trackside ls` lists the runs there are"
    )


def _is_run(path: Path) -> bool:
    return path.is_dir() and ((path / DOCUMENT).is_file() or (path / "journal").is_dir())


def _summary(path: Path) -> RunSummary:
    folder = RunFolder(path)
    name = utf8_text(path.name)
    known = {"directory": utf8_text(str(path)), "id": name, "name": name, "open": folder.journal.is_dir()}
    try:
        document = folder.read_document()
        told = {field: document[field] for field in _TOLD if field in document}
        return msgspec.convert({"state": "unknown", **known, **told}, RunSummary)
    except (RunFolderError, msgspec.ValidationError) as error:
        return msgspec.convert({**known, "state": "damaged", "state_detail": str(error)}, RunSummary)
