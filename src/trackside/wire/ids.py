"""Names of things: runs, sessions, hosts, paths."""

import os
import re
from collections.abc import Iterable

ROOT_PATH = "root"
SESSION_BYTES = 16
MAX_RANKS = 65_536
"""Ranks of one job; tables are as wide as the highest rank."""
MAX_SERIES = 65_536
"""Series ids of one session, from 0."""
MOST_GENERATION = 2**31 - 1

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def new_session() -> bytes:
    """A fresh identity of one link of one process: 16 bytes that never begin with zero (ZeroMQ keeps those)."""
    return b"s" + os.urandom(SESSION_BYTES - 1)


def is_possible_rank(rank: int, world_size: int, generation: int) -> bool:
    """Whether a job can have this rank: what is outside would not fit the columns that hold it."""
    return 0 <= rank < world_size <= MAX_RANKS and 0 <= generation <= MOST_GENERATION


def slug(text: str, fallback: str = "run", limit: int = 60) -> str:
    """Return `text` as a safe single path component: ASCII letters, digits, `.`, `_`, `-`; never empty, never `..`."""
    cleaned = _UNSAFE.sub("-", text).strip("-.")[:limit].strip("-.")
    return cleaned or fallback


def part_of(words: Iterable[str]) -> str:
    """A digest of a command, which tells what a batch job starts apart without showing it."""
    import hashlib  # loads OpenSSL, which few ranks need

    return hashlib.sha256("\0".join(words).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def host_path(host: str) -> str:
    """Path of a host in the tree, `root/<host>`; a slash in a host name is replaced."""
    return f"{ROOT_PATH}/{host.replace('/', '-')}"


def rank_path(host: str, rank: int) -> str:
    """Path of a rank in the tree, `root/<host>/rank<N>`."""
    return f"{host_path(host)}/rank{rank}"


def is_below(path: str, scope: str) -> bool:
    """Whether `path` is `scope` or lies below it."""
    return scope == ROOT_PATH or path == scope or path.startswith(f"{scope}/")


def rank_label(host: str | None, rank: int, local_rank: int | None) -> str:
    """Label of a rank, `host:lr=<local rank> gr=<global rank>`; `gr=<global rank>` when its place is unknown."""
    if host is None or local_rank is None:
        return f"gr={rank}"
    return f"{host}:lr={local_rank} gr={rank}"
