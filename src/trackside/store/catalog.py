"""Which series a run folder's points hold, and how they ended: what `run.json` does not say of a run that was killed."""

from collections.abc import Iterable
from pathlib import Path

import duckdb
import msgspec
import numpy as np
import numpy.typing as npt

from trackside.store.database import connect, file_list
from trackside.store.hot import Snapshot
from trackside.store.segments import points_query, register_rows
from trackside.wire.documents import MetricEntry, RankEntry
from trackside.wire.messages import Reduction
from trackside.wire.values import to_json_number

MOST_PATHS = 64
POINT_COLUMNS = ("series", "path", "rank", "generation", "epoch", "step", "time", "value")


class SeriesOfRank(msgspec.Struct, frozen=True):
    """One series of one rank in its last generation."""

    series: str
    rank: int
    generation: int
    path: str | None
    points: int
    """Over all generations."""
    first_step: int
    last_step: int
    last: float
    non_finite: int


def read_catalog(snapshot: Snapshot) -> list[SeriesOfRank]:
    """Every series of every rank. Blocks: for the disk. Raises: duckdb.Error."""
    with connect(threads=2, memory_mb=200) as database:
        sources = []
        if snapshot.files:
            sources.append(f"SELECT * FROM read_parquet({file_list(snapshot.files)})")
        if snapshot.chunks:
            register_rows(database, "hot_rows", snapshot.chunks, snapshot.names)
            sources.append(points_query("hot_rows"))
        if not sources:
            return []
        rows = database.execute(_QUERY.format(source=" UNION ALL BY NAME ".join(sources))).fetchall()
    return [SeriesOfRank(*row) for row in rows]


_QUERY = """
    SELECT series, rank, max(generation), arg_max(path, generation), sum(points)::BIGINT, min(first_step), max(last_step),
           arg_max(last, generation), sum(non_finite)::BIGINT
    FROM (
        SELECT series, rank, generation, any_value(path) AS path, count(*) AS points, min(step) AS first_step,
               max(step) AS last_step, arg_max(value, step) AS last, count(*) FILTER (NOT isfinite(value)) AS non_finite
        FROM ({source}) GROUP BY series, rank, generation
    ) GROUP BY series, rank ORDER BY series, rank
"""


def metric_entries(catalog: Iterable[SeriesOfRank], listed: Iterable[MetricEntry]) -> list[MetricEntry]:
    """The metrics a catalog holds, in page order; unit and reduction are those listed in run.json."""
    known = {entry.name: entry for entry in listed}
    groups: dict[str, list[SeriesOfRank]] = {name: [] for name in known}
    for series in catalog:
        groups.setdefault(series.series, []).append(series)
    entries = [_entry(known.get(name) or MetricEntry(name=name), group) for name, group in groups.items()]
    return sorted(entries, key=lambda entry: (entry.name != "loss", entry.name))


def _entry(entry: MetricEntry, group: list[SeriesOfRank]) -> MetricEntry:
    if not group:
        return entry
    last_step = max(series.last_step for series in group)
    finals = np.array([series.last for series in group if series.last_step == last_step])
    return msgspec.structs.replace(
        entry,
        paths=[series.path for series in group if series.path][:MOST_PATHS],
        rank_count=len({series.rank for series in group}),
        points=sum(series.points for series in group),
        first_step=min(series.first_step for series in group),
        last_step=last_step,
        last=to_json_number(_cohort_value(finals, entry.reduction)),
        non_finite=sum(series.non_finite for series in group),
    )


def _cohort_value(finals: npt.NDArray[np.float64], reduction: Reduction) -> float:
    with np.errstate(invalid="ignore"):
        if reduction == "sum":
            return float(finals.sum())
        if reduction == "min":
            return float(finals.min())
        return float(finals.max() if reduction == "max" else finals.mean())


def rank_entries(catalog: Iterable[SeriesOfRank], listed: list[RankEntry]) -> list[RankEntry]:
    """The ranks of run.json, and those that only have points: a killed controller had not written them yet."""
    known = {entry.rank for entry in listed}
    added = {series.rank: series for series in catalog if series.rank not in known and series.path}
    return sorted([*listed, *map(_unlisted, added.values())], key=lambda entry: entry.rank)


def _unlisted(series: SeriesOfRank) -> RankEntry:
    path = series.path or "root"
    host = path.split("/")[1] if "/" in path else None
    nothing = {name: None for name in RankEntry.__struct_fields__ if name in _UNKNOWN}
    values = {"rank": series.rank, "host": host, "path": path, "label": f"gr={series.rank}", "state": "lost"}
    return RankEntry(**nothing | values | {"generation": series.generation, "step": series.last_step})  # type: ignore[arg-type]


_UNKNOWN = (
    *("local_rank", "step", "epoch", "phase", "age_seconds", "exit_code", "signal", "samples", "throughput"),
    *("batch_share", "clock_offset_seconds", "gpu", "cpu", "memory"),
)


def readable(files: Iterable[Path], *, throughout: bool = False) -> tuple[tuple[Path, ...], list[Path]]:
    """Parquet files that can be read, and those that cannot.

    Args:
        files: of points.
        throughout: whether to read every value, and not only what a file says of itself.

    Blocks: for the disk.
    """
    good, bad = [], []
    columns = ", ".join(POINT_COLUMNS)
    look, tail = f"SELECT {columns}", "LIMIT 0"
    if throughout:
        look, tail = f"SELECT bit_xor(hash({columns})), list(DISTINCT series), list(DISTINCT path)", ""
    with connect() as database:
        for path in files:
            try:
                database.execute(f"{look} FROM read_parquet({file_list([path])}) {tail}").fetchall()
            except (duckdb.Error, UnicodeDecodeError):
                bad.append(path)
            else:
                good.append(path)
    return tuple(good), bad
