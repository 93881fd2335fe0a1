"""The run folder: journal, Parquet segments, queries. The only place that imports DuckDB.

A run folder holds append-only and write-once files. The thread `trackside-store` commits the journal, the thread
`trackside-segments` makes Parquet of it, queries run in a small pool; nothing here may block the controller's loop.
"""

from trackside.store.allocator import map_large_blocks
from trackside.store.baked import plan_baked
from trackside.store.cold import SeriesQuery
from trackside.store.database import keep_frames_out
from trackside.store.disk import DiskThreads
from trackside.store.export import COLUMNS, FORMATS, Exported, export_run, read_points, read_rows
from trackside.store.folder import SCHEMA_VERSION, RunFolder
from trackside.store.hot import PointTable, Snapshot
from trackside.store.journal import Damage, Frame, read_journal
from trackside.store.listing import RunSummary, choose_run, find_run, list_runs, runs_folder
from trackside.store.lock import FolderLock
from trackside.store.query import SeriesReader
from trackside.store.records import read_events
from trackside.store.resume import Resumption, find_resumption
from trackside.store.source import FolderSource
from trackside.store.writer import StoreStatus, StoreWriter

__all__ = [
    "COLUMNS",
    "FORMATS",
    "SCHEMA_VERSION",
    "Damage",
    "DiskThreads",
    "Exported",
    "FolderLock",
    "FolderSource",
    "Frame",
    "PointTable",
    "Resumption",
    "RunFolder",
    "RunSummary",
    "SeriesQuery",
    "SeriesReader",
    "Snapshot",
    "StoreStatus",
    "StoreWriter",
    "choose_run",
    "export_run",
    "find_resumption",
    "find_run",
    "keep_frames_out",
    "list_runs",
    "map_large_blocks",
    "plan_baked",
    "read_events",
    "read_journal",
    "read_points",
    "read_rows",
    "runs_folder",
]
