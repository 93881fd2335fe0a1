"""A run folder as something to look at: finished, crashed, or still being written."""

from pathlib import Path
from typing import Any

import duckdb
import msgspec

from trackside.errors import RunFolderError
from trackside.store.baked import plan_baked
from trackside.store.catalog import SeriesOfRank, metric_entries, rank_entries, read_catalog, readable
from trackside.store.cold import SeriesQuery
from trackside.store.crashed import JournalTail
from trackside.store.database import connect
from trackside.store.folder import RunFolder
from trackside.store.hot import PointTable
from trackside.store.query import SeriesReader
from trackside.store.records import read_epochs, read_events, read_resources, row_counts
from trackside.store.resume import Layout, look_at
from trackside.wire import documents
from trackside.wire.documents import BakedSeries, MetricEntry, RankEntry, ResourceRecord, RunDocument, SeriesAnswer

MAX_RECORDS = 20_000
ENDED = ("finished", "failed", "terminated")


class FolderSource:
    """Reads a run folder; `reload` looks again and reads only what is new.

    Raises: RunFolderError, when constructed: it is no run folder, or one of an unknown schema.
    Blocks: for the disk, when constructed.
    Threads: one at a time; `series` and `baked_series` run in the reader's pool.
    """

    def __init__(self, path: str | Path) -> None:
        self.folder = RunFolder.open(path)
        self.unreadable: list[Path] = []
        """Parquet files that are damaged; what others hold is shown."""
        self._layout = Layout((), (), (), ())
        self._table = PointTable()
        self._tail = JournalTail(self._table)
        self._catalog: list[SeriesOfRank] | None = None
        self._ranks: list[RankEntry] = []
        self._metrics: list[MetricEntry] = []
        self._resources: list[ResourceRecord] = []
        self._load()
        self._reader = SeriesReader(lambda: self._table.snapshot())  # noqa: PLW0108 - `reload` may replace the table

    def reload(self) -> bool:
        """Look at the folder again; whether anything is new. Blocks: for the disk. Raises: RunFolderError."""
        before = (self._document_text, self._table.total, self._events, self._epochs)
        self._load()
        return before != (self._document_text, self._table.total, self._events, self._epochs)

    def _load(self) -> None:
        self._document_text = self.folder.document.read_bytes() if self.folder.document.is_file() else b""
        document = self.folder.read_document()
        listed_ranks: list[RankEntry] = _listed(self.folder, document.pop("rank_entries", []), list[RankEntry])
        listed_metrics: list[MetricEntry] = _listed(self.folder, document.pop("metrics", []), list[MetricEntry])
        self._read_points()
        with connect() as database:
            try:
                self._epochs = read_epochs(database, self.folder.epochs)
                self._read_resources(database)
            except duckdb.Error as error:
                raise RunFolderError(f"{self.folder.path} is damaged: {str(error).splitlines()[0]}") from error
        self._events = read_events(self.folder.events)
        self._run = _run_document(self.folder, document, self._tail.last_arrival)
        is_whole = self._run.state in ENDED and not self._layout.tail and bool(listed_metrics)
        if is_whole:
            self._ranks, self._metrics = listed_ranks, listed_metrics
            return
        catalog = self._read_catalog()
        self._ranks, self._metrics = rank_entries(catalog, listed_ranks), metric_entries(catalog, listed_metrics)

    def _read_points(self) -> None:
        """Segments and what only the journal holds, of one moment."""
        while True:
            layout = look_at(self.folder)
            if layout.points != self._layout.points or not self._layout.points:
                points, self.unreadable = readable(self.folder, layout.points)
                self._table = PointTable(files=points, total=sum(row_counts(points)))
                self._tail = JournalTail(self._table)
                self._catalog = None
            before = self._table.total
            self._tail.read(layout.tail)
            self._catalog = self._catalog if self._table.total == before else None
            self._layout = layout
            if look_at(self.folder).points == layout.points:  # else a journal file became a segment meanwhile
                return

    def _read_resources(self, database: duckdb.DuckDBPyConnection) -> None:
        self._resources = read_resources(database, self._layout.resources, MAX_RECORDS)

    def _read_catalog(self) -> list[SeriesOfRank]:
        if self._catalog is None:
            try:
                self._catalog = read_catalog(self._table.snapshot())
            except duckdb.Error as error:
                raise RunFolderError(f"{self.folder.points} is damaged: {str(error).splitlines()[0]}") from error
        return self._catalog

    # --- what a RunSource answers ------------------------------------------------------------------------------------

    def run(self) -> RunDocument:
        return self._run

    def ranks(self) -> list[RankEntry]:
        return self._ranks

    def metrics(self) -> list[MetricEntry]:
        return self._metrics

    def epochs(self) -> list[documents.EpochRecord]:
        return self._epochs

    def resources(self, path: str) -> list[ResourceRecord]:
        below = [record for record in self._resources if path == "root" or is_below(record.path, path)]
        count = len(below)
        return below if count <= MAX_RECORDS else [below[at * count // MAX_RECORDS] for at in range(MAX_RECORDS)]

    def events(self) -> list[documents.EventRecord]:
        return self._events

    def graph(self) -> Any | None:
        try:
            return msgspec.json.decode(self.folder.graph.read_bytes())
        except (OSError, msgspec.DecodeError):
            return None

    def svg(self) -> str | None:
        try:
            return self.folder.svg.read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            return None

    def last_values(self) -> list[tuple[str, int, str, float]]:
        hosts = {entry.rank: entry.host or "" for entry in self._ranks}
        return [(row.series, row.rank, hosts.get(row.rank, ""), row.last) for row in self._read_catalog()]

    def counters(self) -> dict[str, int]:
        return {
            "points": self._table.total,
            "journal_damaged": len(self._tail.damage),
            "segments_unreadable": len(self.unreadable),
        }

    async def series(
        self, metric: str, path: str, x: documents.XAxis, start: float | None, end: float | None, points: int
    ) -> SeriesAnswer:
        entry = next((entry for entry in self._metrics if entry.name == metric), None)
        if entry is None:
            raise KeyError(metric)
        ranks = None if path == "root" else frozenset(r.rank for r in self._ranks if is_below(r.path, path))
        if ranks is not None and not ranks:
            raise KeyError(path)
        origin = self._run.started_at
        return await self._reader.series(
            SeriesQuery(metric, path, ranks, x, start, end, points, entry.reduction, origin)
        )

    async def baked_series(self, points: int) -> list[BakedSeries]:
        return await self._reader.baked(plan_baked(self._metrics, self._ranks, points, self._run.started_at))

    def close(self) -> None:
        """Idempotent."""
        self._reader.close()


def is_below(path: str, top: str) -> bool:
    """Whether a path is `top` or lies below it."""
    return path == top or path.startswith(top + "/")


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
        run, state_detail=run.state_detail or _open_words(folder), directory=str(folder.path)
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
        directory=str(folder.path),
    )


def _open_words(folder: RunFolder) -> str | None:
    if folder.journal.is_dir():
        return "the run folder is not closed: its controller is still running, or was killed"
    return None
