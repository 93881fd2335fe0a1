"""The runs of a folder."""

from pathlib import Path

import msgspec

from trackside.errors import RunFolderError
from trackside.store.folder import DOCUMENT, RunFolder
from trackside.store.lock import holder_has_gone
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
    controller_gone: bool = False
    """Of those: whether it was killed, as far as can be seen from this machine."""

    @property
    def state_word(self) -> str:
        """The state for people: a run that somebody stopped with Ctrl-C was stopped."""
        return "stopped" if (self.state_detail or "").startswith("stopped ") else self.state


_TOLD = ("id", "name", "state", "state_detail", "started_at", "elapsed_seconds", "world_size", "step")


def list_runs(directory: str | Path) -> list[RunSummary]:
    """Runs directly below a folder, newest first; what is no run folder is left out. Of a run folder, itself.

    Raises:
        RunFolderError: the folder does not exist.
    """
    root = Path(directory).absolute()
    if not root.is_dir():
        raise RunFolderError(f"{root} is no folder; runs lie where --dir or TRACKSIDE_DIR said, by default in ./runs")
    if _is_run(root):
        return [_summary(root)]
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


def choose_run(which: str | Path, directory: str | Path) -> Path:
    """The folder of the run that somebody means: its path, or its folder's name, its id or its name among the runs of a folder.

    Raises:
        RunFolderError: there is none, or several have the name; what to give instead is said.
    """
    path, root = Path(which).expanduser(), runs_folder(directory)
    if path.is_dir() and (_is_run(path) or (path / "points").is_dir()):
        return path.absolute()
    if path.is_file():
        raise RunFolderError(f"{path} is a file; give the run's folder: {_folder_around(path.absolute())}")
    if path.is_dir():
        raise RunFolderError(f"{path.absolute()} is no run folder; {_below(runs_folder(path))}")
    named = (
        [run for run in list_runs(root) if str(which) in (Path(run.directory).name, run.id, run.name)]
        if root.is_dir()
        else []
    )
    if len(named) == 1:
        return root / Path(named[0].directory).name
    if named:
        raise RunFolderError(f"{len(named)} runs are called {which}; give the folder of one:{_listed(named)}")
    known = _below(root) if root.is_dir() else f"there is no folder {root.absolute()} with runs either"
    raise RunFolderError(f"{which} is no run folder, and no run has that name; {known}")


def runs_folder(directory: str | Path) -> Path:
    """Where the runs of a folder lie: in it, or in `runs` below it when none is in itself."""
    root = Path(directory)
    below = root / "runs"
    return below if below.is_dir() and not _is_run(root) and not any(map(_is_run, root.iterdir())) else root


def _folder_around(file: Path) -> str:
    return str(file.parent) if _is_run(file.parent) else "it holds run.json, points and the report"


def _below(root: Path) -> str:
    runs = list_runs(root)
    if not runs:
        return f"no run lies in {root.absolute()}; runs lie where --dir or TRACKSIDE_DIR said, by default in ./runs"
    return f"give one of the runs in {root.absolute()}:{_listed(runs)}"


def _listed(runs: list[RunSummary], most: int = 5) -> str:
    lines = [f"\n  {run.directory}  {run.state_word}" for run in runs[:most]]
    return "".join(lines) + (f"\n  and {len(runs) - most} more: `trackside ls` lists them" if len(runs) > most else "")


def _is_run(path: Path) -> bool:
    return path.is_dir() and ((path / DOCUMENT).is_file() or (path / "journal").is_dir())


def _summary(path: Path) -> RunSummary:
    folder = RunFolder(path)
    name = utf8_text(path.name)
    is_open = folder.journal.is_dir()
    known = {"directory": utf8_text(str(path)), "id": name, "name": name, "open": is_open}
    known["controller_gone"] = is_open and holder_has_gone(folder)
    try:
        document = folder.read_document()
        told = {field: document[field] for field in _TOLD if field in document}
        return msgspec.convert({"state": "unknown", **known, **told}, RunSummary)
    except (RunFolderError, msgspec.ValidationError) as error:
        return msgspec.convert({**known, "state": "damaged", "state_detail": str(error)}, RunSummary)
