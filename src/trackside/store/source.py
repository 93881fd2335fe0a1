"""A run folder as something to look at: finished, crashed, or still being written."""

import threading
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import msgspec

from trackside.errors import RunFolderError
from trackside.store.baked import plan_baked
from trackside.store.catalog import SeriesOfRank, metric_entries, rank_entries, read_catalog, readable
from trackside.store.cold import SeriesQuery, superseded_steps
from trackside.store.crashed import JournalTail
from trackside.store.database import connect
from trackside.store.folder import RunFolder
from trackside.store.hot import PointTable, Snapshot
from trackside.store.journal import Damage
from trackside.store.lock import holder_has_gone
from trackside.store.query import SeriesReader
from trackside.store.records import read_epochs, read_events, read_resources, row_counts
from trackside.store.resume import Layout, look_at
from trackside.wire import documents
from trackside.wire.arguments import utf8_text
from trackside.wire.baked import BakedSeries
from trackside.wire.documents import (
    MOST_LATEST_VALUES,
    EpochRecord,
    EventRecord,
    GraphDocument,
    HeatAnswer,
    MetricEntry,
    RankEntry,
    ResourceRecord,
    RunDocument,
    SeriesAnswer,
)
from trackside.wire.ids import is_below

T = TypeVar("T")

MOST_TRIES = 20
MAX_RECORDS = 20_000
_DAMAGED = (duckdb.Error, msgspec.DecodeError, UnicodeDecodeError, LookupError, OSError)
ENDED = ("finished", "failed", "terminated")


class _Points(msgspec.Struct, frozen=True):
    """What a folder's points were when it was last looked at."""

    layout: Layout
    table: PointTable
    tail: JournalTail
    unreadable: list[Path]


class _View(msgspec.Struct, frozen=True):
    """All that is answered from memory, of one look at the folder."""

    run: RunDocument
    ranks: list[RankEntry]
    metrics: list[MetricEntry]
    epochs: list[EpochRecord]
    events: list[EventRecord]
    resources: list[ResourceRecord]
    heat: HeatAnswer
    graph: GraphDocument | None
    svg: str | None
    has_ended: bool


class _Records(msgspec.Struct, frozen=True):
    """What lies beside the points."""

    epochs: list[EpochRecord]
    resources: list[ResourceRecord]
    events: list[EventRecord]
    damage: list[str]
    """What of it cannot be read, in words."""


class FolderSource:
    """Reads a run folder; `reload` looks again and reads only what is new.

    Raises: RunFolderError, when constructed: it is no run folder, or one of an unknown schema.
    Blocks: for the disk, when constructed.
    Threads: `reload` in one thread at a time, while others go on asking; charts run in the reader's pool.
    """

    def __init__(self, path: str | Path) -> None:
        self.folder = RunFolder.open(path)
        self._points: _Points | None = None
        self._catalog: tuple[int, list[SeriesOfRank]] | None = None
        self._lock = threading.Lock()
        self._view = self._load()
        self._reader = SeriesReader(self._snapshot)

    def reload(self) -> bool:
        """Look at the folder again; whether anything is new. Blocks: for the disk. Raises: RunFolderError."""
        before, rows = self._view, self._table.total
        self._view = self._load()
        return self._view != before or self._table.total != rows

    @property
    def _table(self) -> PointTable:
        return self._points.table if self._points is not None else PointTable()

    def _snapshot(self) -> Snapshot:
        """The points as they were looked at, or as they are now when a writer has merged files since."""
        snapshot = self._table.snapshot()
        if all(path.exists() for path in snapshot.files):
            return snapshot
        return self._read_points().table.snapshot()

    def _load(self) -> _View:
        document = self.folder.read_document()
        ranks: list[RankEntry] = _listed(self.folder, document.pop("rank_entries", []), list[RankEntry])
        metrics: list[MetricEntry] = _listed(self.folder, document.pop("metrics", []), list[MetricEntry])
        points = self._read_points()
        run = _run_document(self.folder, document, points.tail.last_arrival)
        if run.state not in ENDED or points.layout.tail or not metrics:
            catalog = self._read_catalog(points.table)
            ranks, metrics = rank_entries(catalog, ranks), metric_entries(catalog, metrics)
        records = _read_records(self.folder, points.layout)
        broken = dict.fromkeys(f"journal/{damage.path.name}" for damage in points.tail.damage)
        damage = [*(f"points/{path.name}" for path in points.unreadable), *broken, *records.damage]
        said = [_damage_warning(name, run.ended_at or run.started_at) for name in damage]
        if self.folder.journal.is_dir() and holder_has_gone(self.folder):
            said.append(_gone_warning(self.folder, points.tail.last_arrival or run.started_at))
        run = msgspec.structs.replace(run, warnings=[*run.warnings, *said])
        return _View(
            run,
            ranks,
            metrics,
            records.epochs,
            records.events,
            records.resources,
            heat=_decoded(self.folder.heat, HeatAnswer)
            or HeatAnswer(ranks=[], step=[], time=[], own=[], data=[], wall=[]),
            graph=_decoded(self.folder.graph, GraphDocument),
            svg=_text_of(self.folder.svg),
            has_ended=run.state in ENDED or not self.folder.journal.is_dir(),
        )

    def _read_points(self) -> _Points:
        """Segments and what only the journal holds, of one moment."""
        with self._lock:
            points = self._points
            while True:
                layout = look_at(self.folder)
                if points is None or layout.points != points.layout.points:
                    files, unreadable = readable(layout.points)
                    table = PointTable(files=files, total=sum(row_counts(files)))
                    points = _Points(layout, table, JournalTail(table), unreadable)
                points.tail.read(layout)
                points = msgspec.structs.replace(points, layout=layout)
                if look_at(self.folder).points == layout.points:  # else a journal file became a segment meanwhile
                    self._points = points
                    return points

    def _read_catalog(self, table: PointTable) -> list[SeriesOfRank]:
        known = self._catalog
        tries = 0
        while known is None or known[0] != table.total:
            try:
                self._catalog = known = (table.total, read_catalog(table.snapshot()))
            except (duckdb.Error, UnicodeDecodeError) as error:
                tries += 1
                has_moved = not all(path.exists() for path in table.files)
                if tries == MOST_TRIES or not (has_moved or self._leave_out_damaged(table)):
                    raise RunFolderError(f"{self.folder.points} is damaged: {str(error).splitlines()[0]}") from error
                if has_moved:
                    table = self._read_points().table  # a writer has merged files since
        return known[1]

    def _leave_out_damaged(self, table: PointTable) -> bool:
        """Go on without the segments that cannot be read to their end; whether there are any."""
        files, damaged = readable(table.files, throughout=True)
        if damaged and self._points is not None:
            self._points.unreadable.extend(damaged)
            table.replace_files(files, -sum(row_counts(damaged)))
        return bool(damaged)

    # --- what a RunSource answers ------------------------------------------------------------------------------------

    def run(self) -> RunDocument:
        return self._view.run

    def ranks(self, path: str = "root") -> list[RankEntry]:
        return [entry for entry in self._view.ranks if is_below(entry.path, path)]

    def metrics(self) -> list[MetricEntry]:
        return self._view.metrics

    def epochs(self) -> list[EpochRecord]:
        return self._view.epochs

    def resources(self, path: str, most: int = MAX_RECORDS) -> list[ResourceRecord]:
        below = [record for record in self._view.resources if is_below(record.path, path)]
        count = len(below)
        return below if count <= most else [below[at * count // most] for at in range(most)]

    def events(self) -> list[EventRecord]:
        return self._view.events

    def heat(self, path: str) -> HeatAnswer:
        heat = self._view.heat
        below = {rank.rank for rank in self._view.ranks if is_below(rank.path, path)}
        return heat if path == "root" else rows_of(heat, below)

    def graph(self) -> GraphDocument | None:
        return self._view.graph

    def svg(self) -> str | None:
        return self._view.svg

    @property
    def has_ended(self) -> bool:
        """Whether nothing will be added to it."""
        return self._view.has_ended

    async def last_values(self, most: int = MOST_LATEST_VALUES) -> list[tuple[str, int, str, float]]:
        """As a `RunSource` says it. Raises: RunFolderError; DiskSilentError when the disk does not answer."""
        rows = await self._reader.ask(lambda: self._read_catalog(self._table))
        hosts = {entry.rank: entry.host or "" for entry in self._view.ranks}
        if len(rows) > most:
            left_out = rows[most].series
            rows = [row for row in rows[:most] if row.series != left_out]
        return [(row.series, row.rank, hosts.get(row.rank, ""), row.last) for row in rows]

    def counters(self) -> dict[str, int]:
        return {
            "points": self._table.total,
            "journal_damaged": len(self.damage),
            "segments_unreadable": len({*(self._points.unreadable if self._points else ()), *self._reader.unreadable}),
        }

    @property
    def damage(self) -> list[Damage]:
        """What of the journal could not be read."""
        return self._points.tail.damage if self._points is not None else []

    async def series(
        self, metric: str, path: str, x: documents.XAxis, start: float | None, end: float | None, points: int
    ) -> SeriesAnswer:
        entry = next((entry for entry in self._view.metrics if entry.name == metric), None)
        if entry is None:
            raise KeyError(metric)
        ranks = None if path == "root" else frozenset(r.rank for r in self._view.ranks if is_below(r.path, path))
        if ranks is not None and not ranks:
            raise KeyError(path)
        run = self._view.run
        query = SeriesQuery(metric, path, ranks, x, start, end, points, entry.reduction, run.started_at)
        return await self._reader.series(msgspec.structs.replace(query, superseded=superseded_steps(run.environment)))

    async def baked_series(self, points: int) -> list[BakedSeries]:
        view, run = self._view, self._view.run
        gone = superseded_steps(run.environment)
        return await self._reader.baked(plan_baked(view.metrics, view.ranks, points, run.started_at, gone))

    def close(self) -> None:
        """Idempotent."""
        self._reader.close()


def _decoded(path: Path, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError, RecursionError):
        return None


def _text_of(path: Path) -> str | None:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def rows_of(heat: HeatAnswer, ranks: set[int]) -> HeatAnswer:
    """The rows of some ranks."""
    kept = [at for at, rank in enumerate(heat.ranks) if rank in ranks]
    return HeatAnswer(
        ranks=[heat.ranks[at] for at in kept],
        step=heat.step,
        time=heat.time,
        own=[heat.own[at] for at in kept],
        data=[heat.data[at] for at in kept],
        wall=[heat.wall[at] for at in kept],
    )


def _read_records(folder: RunFolder, layout: Layout) -> _Records:
    """All that can be read of the records beside the points."""
    epochs: list[EpochRecord] = []
    resources: list[ResourceRecord] = []
    events: list[EventRecord] = []
    damage: list[str] = []
    with connect() as database:
        try:
            epochs = read_epochs(database, folder.epochs)
        except _DAMAGED:
            damage.append(folder.epochs.name)
        try:
            resources = read_resources(database, layout.resources, MAX_RECORDS)
        except _DAMAGED:
            bad = [path for path in layout.resources if not _holds_resources(database, path)]
            resources = read_resources(database, [path for path in layout.resources if path not in bad], MAX_RECORDS)
            damage += [f"resources/{path.name}" for path in bad]
    try:
        events = read_events(folder.events)
    except OSError:
        damage.append(folder.events.name)
    return _Records(epochs, resources, events, damage)


def _holds_resources(database: duckdb.DuckDBPyConnection, path: Path) -> bool:
    try:
        read_resources(database, [path], MAX_RECORDS)
    except _DAMAGED:
        return False
    return True


def _damage_warning(name: str, time: float) -> documents.Warning:
    text = f"{name} is damaged; what cannot be read of it is missing here"
    return documents.Warning(time=time, path="root", kind="damaged file", severity="warn", text=text)


def _gone_warning(folder: RunFolder, time: float) -> documents.Warning:
    command = f"trackside recover {utf8_text(str(folder.path))}"
    text = f"the run's controller was killed: what is shown is the last that is known; `{command}` ends the run"
    return documents.Warning(time=time, path="root", kind="controller gone", severity="critical", text=text)


def _listed(folder: RunFolder, value: Any, kind: type[Any]) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise RunFolderError(f"{folder.document} is not of this version: {error}") from error


def _run_document(folder: RunFolder, document: dict[str, Any], last_arrival: float | None) -> RunDocument:
    """The run document; that of a run without an end says so."""
    if not document:
        return _unknown_run(folder, last_arrival)
    run: RunDocument = _listed(folder, document, RunDocument)
    if run.state in ENDED:
        return run
    return msgspec.structs.replace(
        run, state_detail=run.state_detail or _open_words(folder), directory=utf8_text(str(folder.path))
    )


def _unknown_run(folder: RunFolder, last_arrival: float | None) -> RunDocument:
    """A run whose controller was killed before it wrote its first document."""
    unknown = dict.fromkeys(
        (
            *("ended_at", "epoch", "epochs", "step", "steps", "eta_seconds", "world_size"),
            *("label", "hash", "hardware", "metadata"),
        )
    )
    return RunDocument(
        **unknown,  # type: ignore[arg-type]
        id=folder.path.name,
        name=folder.path.name,
        state="waiting",
        state_detail=_open_words(folder),
        started_at=last_arrival or folder.path.stat().st_mtime,
        elapsed_seconds=0.0,
        generation=0,
        ranks=documents.RankCounts(),
        hosts=[],
        warnings=[],
        version="",
        directory=utf8_text(str(folder.path)),
    )


def _open_words(folder: RunFolder) -> str | None:
    if folder.journal.is_dir():
        return "the run folder is not closed: its controller is still running, or was killed"
    return None
