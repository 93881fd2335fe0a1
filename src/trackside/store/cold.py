"""Rows of one series inside Parquet, asked through DuckDB."""

import threading
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import numpy as np

from trackside.store.database import file_list
from trackside.store.outline import Outlines, SeriesOutline, coarsened
from trackside.store.reduction import ROW, Array, Columns, Grid, empty_rows, pick, unite
from trackside.wire.columns import NO_EPOCH
from trackside.wire.documents import XAxis
from trackside.wire.messages import Reduction

KEPT_EXTENTS = 256


class SeriesQuery(msgspec.Struct, frozen=True):
    """One question."""

    metric: str
    path: str
    ranks: frozenset[int] | None
    """Ranks below the path; None for all."""
    x: XAxis = "step"
    start: float | None = None
    end: float | None = None
    points: int = 1000
    reduction: Reduction = "mean"
    origin: float = 0.0
    """Where `relative` begins, UTC epoch seconds."""
    all_axes: bool = False
    """Whether step, epoch and time are wanted of every entry, as a report does."""
    superseded: tuple[tuple[int, int], ...] = ()
    """(generation, step): rows of earlier generations do not stand from that step on, whoever trains it again."""

    @property
    def axis_is_whole(self) -> bool:
        """Whether x is a whole number."""
        return self.x in ("step", "epoch")

    @property
    def adds_up(self) -> bool:
        """Whether an entry's value follows from those of its parts, whatever else is in a row."""
        return self.reduction in ("mean", "min", "max") and not self.all_axes

    def has_all_of(self, ranks: tuple[int, int]) -> bool:
        """Whether the ranks from one number to another are all asked for."""
        first, last = ranks
        return self.ranks is None or self.ranks.issuperset(range(first, last + 1))

    def is_untouched(self, first_generation: int, last_step: float) -> bool:
        """Whether all rows of later generations than one, up to a step, stand as far as is known here."""
        return all(first_generation >= generation or last_step < step for generation, step in self.superseded)

    @property
    def column(self) -> str:
        """Name of the axis among the rows."""
        return self.x if self.axis_is_whole else "time"

    @property
    def range(self) -> tuple[float, float]:
        """Lowest and highest value of the axis' column that is asked for."""
        shift = self.origin if self.x == "relative" else 0.0
        low = -np.inf if self.start is None else self.start + shift
        return low, np.inf if self.end is None else self.end + shift


def superseded_steps(environment: dict[str, Any]) -> tuple[tuple[int, int], ...]:
    """What a run document says of generations that took over, as `SeriesQuery.superseded`."""
    told = environment.get("resumed")
    known = [one for one in told if isinstance(one, dict)] if isinstance(told, list) else []
    places = [(one.get("generation"), one.get("step")) for one in known]
    return tuple((first, step) for first, step in places if isinstance(first, int) and isinstance(step, int))


class Extent(msgspec.Struct, frozen=True):
    """How far a series reaches in some files, whatever its generations and the range asked for."""

    count: int = 0
    low: float = 0.0
    high: float = 0.0
    """Of the query's axis."""
    is_restarted: bool = False
    """Whether there are several generations."""
    generation: int = -1
    """The only one, when there is one."""

    @classmethod
    def across(cls, parts: "list[Extent]") -> "Extent":
        """Of several files together."""
        known = [part for part in parts if part.count]
        if not known:
            return cls()
        generations = {part.generation for part in known}
        return cls(
            sum(part.count for part in known),
            min(part.low for part in known),
            max(part.high for part in known),
            len(generations) > 1 or any(part.is_restarted for part in known),
            known[0].generation,
        )


class Cuts(msgspec.Struct, frozen=True):
    """Steps from which on a rank's values are superseded by a later generation of its."""

    rank: Array
    generation: Array
    step: Array

    @classmethod
    def of_first_steps(cls, firsts: dict[tuple[int, int], int]) -> "Cuts":
        """Cuts from the first step of each (rank, generation)."""
        found: dict[tuple[int, int], int] = {}
        lowest: dict[int, int] = {}
        for rank, generation in sorted(firsts, reverse=True):
            if rank in lowest:
                found[rank, generation] = lowest[rank]
            lowest[rank] = min(firsts[rank, generation], lowest.get(rank, firsts[rank, generation]))
        keys = np.array([*found], np.int64).reshape(-1, 2)
        return cls(keys[:, 0].copy(), keys[:, 1].copy(), np.array([*found.values()], np.int64))

    def apply(self, rows: Columns) -> Columns:
        """Rows that stand."""
        if not len(self.rank) or not len(rows["rank"]):
            return rows
        known = (self.rank << 32) | self.generation
        order = np.argsort(known)
        asked = (rows["rank"].astype(np.int64) << 32) | rows["generation"].astype(np.int64)
        at = np.minimum(np.searchsorted(known[order], asked), len(known) - 1)
        is_cut = (known[order][at] == asked) & (rows["step"] >= self.step[order][at])
        return pick(rows, ~is_cut)


class ColdRows:
    """Remembers how far series reach in files, which never change, and their outlines.

    Threads: any.
    """

    def __init__(self) -> None:
        self.outlines = Outlines()
        self._lock = threading.Lock()
        self._extents: dict[tuple[object, ...], Extent] = {}
        self._firsts: dict[tuple[object, ...], dict[tuple[int, int], int]] = {}

    def look(self, cursor: duckdb.DuckDBPyConnection, files: tuple[Path, ...], query: SeriesQuery) -> "ColdView":
        """The rows of one query. Blocks: for the disk. Raises: duckdb.Error."""
        key = (files, query.metric, query.ranks, query.column)
        with self._lock:
            extent = self._extents.get(key)
        view = ColdView(self, cursor, files, query, extent or Extent())
        if extent is None and files:
            view = msgspec.structs.replace(view, extent=view.known_extent())
            self.outlines.keep(files)
            with self._lock:
                while len(self._extents) >= KEPT_EXTENTS:
                    del self._extents[next(iter(self._extents))]
                self._extents[key] = view.extent
        return view

    def first_steps(self, view: "ColdView") -> dict[tuple[int, int], int]:
        """First step of each (rank, generation) of a series."""
        key = (view.files, view.query.metric, view.query.ranks)
        with self._lock:
            found = self._firsts.get(key)
        if found is None:
            found = view.find_first_steps()
            with self._lock:
                while len(self._firsts) >= KEPT_EXTENTS:
                    del self._firsts[next(iter(self._firsts))]
                self._firsts[key] = found
        return found


class ColdView(msgspec.Struct, frozen=True):
    """One query's rows in Parquet.

    Threads: the cursor's. Every method blocks for the disk and raises duckdb.Error.
    """

    memory: ColdRows
    cursor: duckdb.DuckDBPyConnection
    files: tuple[Path, ...]
    query: SeriesQuery
    extent: Extent

    @property
    def count(self) -> int:
        """Rows of the series and ranks, superseded ones and those out of range included."""
        return self.extent.count

    def cuts(self, hot: Columns) -> Cuts:
        """Where generations supersede each other, hot rows counted in."""
        generations = hot["generation"]
        is_alone = not len(generations) or bool((generations == generations[0]).all())
        is_one = self.extent.count == 0 or not len(generations) or self.extent.generation == int(generations[0])
        if is_alone and not self.extent.is_restarted and is_one:
            return Cuts.of_first_steps({})
        firsts = dict(self.memory.first_steps(self)) if self.extent.count else {}
        for rank, generation in set(zip(hot["rank"].tolist(), generations.tolist(), strict=True)):
            mine = (hot["rank"] == rank) & (generations == generation)
            first = int(hot["step"][mine].min())
            firsts[rank, generation] = min(first, firsts.get((rank, generation), first))
        return Cuts.of_first_steps(firsts)

    def bounds(self, hot: Array) -> tuple[float, float]:
        """First and last x that the query can meet."""
        low, high = self.extent.low, self.extent.high
        if len(hot):
            low, high = min(low, hot.min().item()), max(high, hot.max().item())
        start, end = self.query.range
        low, high = max(low, start), min(high, end)
        if self.query.axis_is_whole:
            low, high = int(np.ceil(low)), int(np.floor(high))
        return (low, high) if low <= high else (low, low)

    def rows(self, cuts: Cuts) -> Columns:
        """All of them."""
        if not self.count:
            return empty_rows()
        columns = f"rank, generation, coalesce(epoch, {NO_EPOCH}) AS epoch, step, time, value"
        found = self._fetch(f"SELECT {columns}", cuts, in_range=True)
        return {name: np.asarray(found[name]) for name in ROW}

    def table(self, grid: Grid, cuts: Cuts) -> Columns:
        """Folded into the buckets of a grid, from outlines as far as they reach."""
        known = {} if len(cuts.rank) or not self.query.adds_up else self._outlined()
        known = {file: one for file, one in known.items() if self._stands(one)}
        parts, unread = [], []
        for file in self.files:
            outline = known.get(file)
            columns = None if outline is None else outline.fold(self.query.column, grid.width)
            if outline is None or columns is None:
                unread.append(file)
                continue
            low, high = self.query.range
            is_whole = (columns["x_min"] >= low) & (columns["x_max"] <= high)
            is_cut = ~is_whole & (columns["x_max"] >= low) & (columns["x_min"] <= high)
            width = outline.width(self.query.column)
            parts.append(coarsened(pick(columns, is_whole), width, grid))
            for at in np.flatnonzero(is_cut):
                edge = self._between(file, columns["x_min"][at].item(), columns["x_max"][at].item())
                parts.append(edge.read_table(grid, cuts))
        if unread or not parts:
            parts.append(msgspec.structs.replace(self, files=tuple(unread) or self.files).read_table(grid, cuts))
        return unite(parts) if len(parts) > 1 or len(unread) < len(self.files) else parts[0]

    def _outlined(self) -> dict[Path, SeriesOutline]:
        """Files whose rows of the series are all of ranks that are asked for, with their outlines."""
        found = {}
        for file in self.files:
            outline = self.memory.outlines.of(file, self.query.metric)
            if outline is not None and self.query.has_all_of(outline.ranks):
                found[file] = outline
        return found

    def _stands(self, outline: SeriesOutline) -> bool:
        steps = outline.spans.get("step")
        return self.query.is_untouched(outline.generations[0], np.inf if steps is None else steps.high)

    def _between(self, file: Path, low: float, high: float) -> "ColdView":
        """The rows of one file in a part of the range."""
        start, end = self.query.range
        axis: XAxis = "time" if self.query.x == "relative" else self.query.x
        query = msgspec.structs.replace(self.query, x=axis, start=max(low, start), end=min(high, end))
        return msgspec.structs.replace(self, files=(file,), query=query)

    def read_table(self, grid: Grid, cuts: Cuts) -> Columns:
        """Folded into the buckets of a grid, from the rows themselves."""
        table = self._buckets(grid, cuts, "value", "")
        with np.errstate(invalid="ignore"):
            is_finite = np.isfinite(table["total"]) & np.isfinite(table["low"]) & np.isfinite(table["high"])
        if not is_finite.all():
            table = self._buckets(grid, cuts, "value", " FILTER (isfinite(value))")
        if self.query.reduction == "sum":
            self._count_steps(table, grid, cuts)
        return table

    def marks(self, cuts: Cuts, most: int) -> list[tuple[float, float]]:
        """(x, value) of what is not finite, ascending in x."""
        known = self._outlined()
        files = tuple(file for file in self.files if file not in known or known[file].bad)
        return msgspec.structs.replace(self, files=files).read_marks(cuts, most) if files else []

    def read_marks(self, cuts: Cuts, most: int) -> list[tuple[float, float]]:
        """The same from the rows themselves."""
        found = self._fetch(
            f"SELECT {self.query.column} AS x, value",
            cuts,
            where="NOT isfinite(value)",
            tail=f"ORDER BY x LIMIT {most}",
        )
        return list(zip(found["x"].tolist(), found["value"].tolist(), strict=True))

    def known_extent(self) -> Extent:
        """How far the series reaches, from outlines as far as there are any."""
        known = self._outlined()
        unread = tuple(file for file in self.files if file not in known or self.query.column == "epoch")
        parts = [msgspec.structs.replace(self, files=unread).find_extent()] if unread else []
        for file, outline in known.items():
            span = outline.spans.get(self.query.column)
            if file in unread or span is None:
                continue
            low, high = outline.generations
            parts.append(Extent(span.count, span.low, span.high, low != high, low))
        return Extent.across(parts)

    def find_extent(self) -> Extent:
        """Ask how far the series reaches."""
        column = self.query.column
        bounds = f"min({column}) AS low, max({column}) AS high, min(generation) AS first, max(generation) AS last"
        found = self._fetch(f"SELECT count(*) AS count, {bounds}", None)
        count = int(found["count"][0])
        if not count or np.ma.is_masked(found["low"]):  # no epoch at all
            return Extent()
        first, last = int(found["first"][0]), int(found["last"][0])
        return Extent(count, found["low"][0].item(), found["high"][0].item(), first != last, first)

    def find_first_steps(self) -> dict[tuple[int, int], int]:
        """Ask for the first step of each (rank, generation)."""
        found = self._fetch("SELECT rank, generation, min(step) AS step", None, tail="GROUP BY rank, generation")
        keys = zip(found["rank"].tolist(), found["generation"].tolist(), strict=True)
        return dict(zip(keys, found["step"].tolist(), strict=True))

    def _buckets(self, grid: Grid, cuts: Cuts, value: str, finite: str) -> Columns:
        x = self.query.column
        bucket = grid.sql(x, is_whole=self.query.axis_is_whole)
        careful = f"count(*){finite} AS finite, sum({value}) FILTER (NOT isfinite({value})) AS bad, " if finite else ""
        last = "arg_max(value, step)" if self.query.reduction == "last" else "min(value)"
        found = self._fetch(
            f"SELECT {bucket} AS key, min({x}) AS x_min, max({x}) AS x_max, sum({value}){finite} AS total, "
            f"min({value}){finite} AS low, max({value}){finite} AS high, {careful}count(*) AS count, {last} AS last"
            f"{self._beside()}",
            cuts,
            in_range=True,
            tail="GROUP BY key",
        )
        table = {name: np.ma.filled(column, _EMPTY.get(name, 0)) for name, column in found.items()}
        size = len(table["key"])
        absent = {"finite": table["count"], "bad": np.zeros(size), "steps": np.ones(size, np.int64)}
        absent |= dict.fromkeys(("step", "epoch", "time"), table["x_min"])
        return absent | table

    def _beside(self) -> str:
        """The axes besides the one that is asked for; only a report wants them."""
        if self.query.x != "step" or not self.query.all_axes:
            return ""
        return f", min(step) AS step, coalesce(max(epoch), {NO_EPOCH}) AS epoch, min(time) AS time"

    def _count_steps(self, table: Columns, grid: Grid, cuts: Cuts) -> None:
        """As many different steps as the rank with the most rows has in a bucket."""
        bucket = grid.sql(self.query.column, is_whole=self.query.axis_is_whole)
        found = self._fetch(
            f"SELECT {bucket} AS key, rank, generation, count(*) AS count",
            cuts,
            in_range=True,
            tail="GROUP BY key, rank, generation",
        )
        order = np.argsort(table["key"])
        at = order[np.searchsorted(table["key"][order], found["key"])]
        table["steps"] = np.zeros(len(table["key"]), np.int64)
        np.maximum.at(table["steps"], at, found["count"])

    def _fetch(
        self, select: str, cuts: Cuts | None, *, in_range: bool = False, where: str = "", tail: str = ""
    ) -> Columns:
        conditions = ["series = ?", *_rank_condition(self.query.ranks)]
        conditions += [where] if where else []
        conditions += self._range_conditions() if in_range or where else []
        conditions += _KNOWN.get(self.query.column, [])
        source = f"read_parquet({file_list(self.files)})"
        if cuts is not None and len(cuts.rank):
            columns = {"rank": cuts.rank, "generation": cuts.generation, "cut": cuts.step}
            self.cursor.register("generation_cuts", columns)
            source += " LEFT JOIN generation_cuts USING (rank, generation)"
            conditions.append("(cut IS NULL OR step < cut)")
        if cuts is not None:
            conditions += [f"(generation >= {first} OR step < {step})" for first, step in self.query.superseded]
        sql = f"{select} FROM {source} WHERE {' AND '.join(conditions)} {tail}"
        return dict(self.cursor.execute(sql, [self.query.metric]).fetchnumpy())

    def _range_conditions(self) -> list[str]:
        low, high = self.query.range
        column = self.query.column
        if self.query.axis_is_whole:
            low, high = np.ceil(low), np.floor(high)
            text = (f"{int(low)}" if np.isfinite(low) else "", f"{int(high)}" if np.isfinite(high) else "")
        else:
            text = (repr(float(low)) if np.isfinite(low) else "", repr(float(high)) if np.isfinite(high) else "")
        return [*([f"{column} >= {text[0]}"] if text[0] else []), *([f"{column} <= {text[1]}"] if text[1] else [])]


_KNOWN = {"epoch": ["epoch IS NOT NULL"], "time": ["isfinite(time)"]}
_EMPTY = {"low": np.inf, "high": -np.inf, "total": 0.0, "bad": 0.0}


def _rank_condition(ranks: frozenset[int] | None) -> list[str]:
    if ranks is None:
        return []
    numbers = sorted(int(rank) for rank in ranks)
    if not numbers:
        return ["false"]
    if len(numbers) == numbers[-1] - numbers[0] + 1:
        return [f"rank BETWEEN {numbers[0]} AND {numbers[-1]}"]
    return [f"rank IN ({', '.join(map(str, numbers))})"]
