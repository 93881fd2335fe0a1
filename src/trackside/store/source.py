"""A run folder as something to look at: finished, crashed, or still being written."""

from pathlib import Path
from typing import Any

import msgspec

from trackside.store.crashed import JournalTail
from trackside.store.database import connect, file_list
from trackside.store.folder import RunFolder
from trackside.store.hot import PointTable
from trackside.store.query import SeriesQuery, SeriesReader
from trackside.store.records import read_epochs, read_events, read_resources
from trackside.wire import documents
from trackside.wire.documents import BakedSeries, MetricEntry, RankEntry, ResourceRecord, RunDocument, SeriesAnswer

MAX_RECORDS = 20_000
BAKED_SERIES = 4000


class FolderSource:
    """Reads a run folder; `reload` looks again.

    Threads: one at a time; `series` runs in the reader's pool.
    """

    def __init__(self, path: str | Path) -> None:
        self.folder = RunFolder.open(path)
        self._table = PointTable()
        self._reader = SeriesReader(lambda: self._table.snapshot())  # noqa: PLW0108 - the table is replaced by reload
        self.reload()

    def reload(self) -> None:
        """Read the folder anew. Blocks: for the disk. Raises: RunFolderError."""
        document = self.folder.read_document()
        table = PointTable(files=tuple(self.folder.point_files()))
        tail = JournalTail(self.folder, table)
        self.damage = tail.damage
        self._table = table
        self._ranks = msgspec.convert(document.pop("rank_entries", []), list[RankEntry])
        self._metrics = msgspec.convert(document.pop("metrics", []), list[MetricEntry])
        self._run = _run_document(self.folder, document, tail)
        self._epochs = read_epochs(connect(), self.folder.epochs)
        self._events = read_events(self.folder.events)
        self._resources = read_resources(connect(), self.folder.resource_files())
        self._name_unlisted()

    def _name_unlisted(self) -> None:
        """Metrics that a crash kept out of run.json are named from the points themselves."""
        listed = {entry.name for entry in self._metrics}
        snapshot = self._table.snapshot()
        names = set(snapshot.metrics.values())
        if snapshot.files:
            rows = (
                connect().execute(f"SELECT DISTINCT series FROM read_parquet({file_list(snapshot.files)})").fetchall()
            )
            names |= {row[0] for row in rows}
        added = [MetricEntry(name=name) for name in names - listed]
        self._metrics = sorted([*self._metrics, *added], key=lambda entry: (entry.name != "loss", entry.name))

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
        below = [r for r in self._resources if path in ("root", r.path) or r.path.startswith(path + "/")]
        count = len(below)
        return below if count <= MAX_RECORDS else [below[i * count // MAX_RECORDS] for i in range(MAX_RECORDS)]

    def events(self) -> list[documents.EventRecord]:
        return self._events

    def graph(self) -> Any | None:
        return msgspec.json.decode(self.folder.graph.read_bytes()) if self.folder.graph.is_file() else None

    def svg(self) -> str | None:
        return self.folder.svg.read_text("utf-8") if self.folder.svg.is_file() else None

    def last_values(self) -> list[tuple[str, int, str, float]]:
        return []

    def counters(self) -> dict[str, int]:
        return {"points": sum(entry.points for entry in self._metrics), "journal_damage": len(self.damage)}

    async def series(
        self, metric: str, path: str, x: documents.XAxis, start: float | None, end: float | None, points: int
    ) -> SeriesAnswer:
        return await self._reader.series(self._query(metric, path, x, start, end, points))

    async def baked_series(self, points: int) -> list[BakedSeries]:
        return await self._reader.baked(
            [self._query(entry.name, "root", "step", None, None, points) for entry in self._metrics]
        )

    def _query(
        self, metric: str, path: str, x: documents.XAxis, start: float | None, end: float | None, points: int
    ) -> SeriesQuery:
        entry = next((entry for entry in self._metrics if entry.name == metric), None)
        if entry is None:
            raise KeyError(metric)
        ranks = None if path == "root" else frozenset(r.rank for r in self._ranks if _is_below(r.path, path))
        if ranks is not None and not ranks:
            raise KeyError(path)
        return SeriesQuery(metric, path, ranks, x, start, end, points, entry.reduction, self._run.started_at)

    def close(self) -> None:
        """Idempotent."""
        self._reader.close()


def _is_below(path: str, top: str) -> bool:
    return path == top or path.startswith(top + "/")


def _run_document(folder: RunFolder, document: dict[str, Any], tail: JournalTail) -> RunDocument:
    """The run document; a crashed run's says so."""
    if document:
        run = msgspec.convert(document, RunDocument)
        has_ended = run.state in ("finished", "failed", "terminated")
        return run if has_ended else msgspec.structs.replace(run, state_detail=run.state_detail or _crash_words(folder))
    return RunDocument(
        id=folder.path.name,
        name=folder.path.name,
        state="waiting",
        state_detail=_crash_words(folder),
        started_at=tail.last_arrival or 0.0,
        ended_at=None,
        elapsed_seconds=0.0,
        epoch=None,
        epochs=None,
        step=None,
        steps=None,
        eta_seconds=None,
        world_size=None,
        generation=0,
        ranks=documents.RankCounts(),
        hosts=[],
        label=None,
        hash=None,
        hardware=None,
        metadata=None,
        warnings=[],
        version="",
        directory=str(folder.path),
    )


def _crash_words(folder: RunFolder) -> str | None:
    if folder.journal.is_dir():
        return "the run folder is not closed: the controller is still running, or was killed"
    return None
