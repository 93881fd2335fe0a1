"""Kernel files read whole; what is not there is None."""

from pathlib import Path


def read_text(path: Path) -> str | None:
    """Return the file's text, or None when it cannot be read (absent, forbidden, its process gone)."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def read_int(path: Path) -> int | None:
    """Return the file's one integer; None also for `max` and anything else that is no number."""
    text = read_text(path)
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        return None


def read_fields(path: Path) -> dict[str, int]:
    """Return a file of `name number` lines (`memory.stat`, `cpu.stat`) as a dictionary; empty when unreadable."""
    fields: dict[str, int] = {}
    for line in (read_text(path) or "").splitlines():
        name, _, value = line.partition(" ")
        if value.strip().isdigit():
            fields[name] = int(value)
    return fields
