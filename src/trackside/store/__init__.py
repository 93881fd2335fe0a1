"""The run folder: journal, Parquet segments, queries. The only place that imports DuckDB.

A run folder holds append-only and write-once files. Writing happens in the thread `trackside-store`, queries in a small
pool; nothing here may block the controller's loop.
"""

from trackside.store.export import COLUMNS, FORMATS, export_run, read_points, read_rows
from trackside.store.folder import SCHEMA_VERSION, RunFolder
from trackside.store.hot import PointTable, Snapshot
from trackside.store.listing import RunSummary, list_runs
from trackside.store.query import SeriesQuery, SeriesReader
from trackside.store.resume import Resumption, find_resumption
from trackside.store.source import FolderSource
from trackside.store.writer import StoreStatus, StoreWriter

__all__ = [
    "COLUMNS",
    "FORMATS",
    "SCHEMA_VERSION",
    "FolderSource",
    "PointTable",
    "Resumption",
    "RunFolder",
    "RunSummary",
    "SeriesQuery",
    "SeriesReader",
    "Snapshot",
    "StoreStatus",
    "StoreWriter",
    "export_run",
    "find_resumption",
    "list_runs",
    "read_points",
    "read_rows",
]
