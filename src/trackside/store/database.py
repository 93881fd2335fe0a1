"""DuckDB, embedded and shut in: no network, no extensions, few threads."""

import sys
from pathlib import Path

import duckdb


def keep_frames_out() -> None:
    """From now on this process has neither pandas nor PyArrow; for a process that is ours alone.

    DuckDB imports both, where they are installed, with the first parameter or column of text, only to see whether that is one
    of theirs: 0.3 s of CPU time and 70 MB of memory.
    """
    for name in ("pandas", "pyarrow"):
        if name not in sys.modules:
            sys.modules[name] = None  # type: ignore[assignment]


def connect(*, threads: int = 1, memory_mb: int = 256, scratch: Path | None = None) -> duckdb.DuckDBPyConnection:
    """An in-memory database that never leaves the machine."""
    config: dict[str, str | bool | int | float | list[str]] = {
        "threads": threads,
        "memory_limit": f"{memory_mb}MB",
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "preserve_insertion_order": True,
    }
    if scratch is not None:
        config["temp_directory"] = str(scratch)
    database = duckdb.connect(":memory:", config=config)
    database.execute("SET enable_progress_bar = false")  # after two seconds it would write on the standard output
    return database


def quoted(path: Path | str) -> str:
    """A path as an SQL string."""
    return "'" + str(path).replace("'", "''") + "'"


def file_list(paths: tuple[Path, ...] | list[Path]) -> str:
    """Paths as an SQL list of strings."""
    return "[" + ", ".join(quoted(path) for path in paths) + "]"
