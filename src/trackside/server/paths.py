"""Paths of the tree root -> host -> rank, as a client names them."""

from trackside.server.answers import AnswerError
from trackside.sinks.protocol import RunSource
from trackside.wire.documents import RankEntry
from trackside.wire.ids import ROOT_PATH, host_path


def is_below(path: str, scope: str) -> bool:
    """Whether `path` is `scope` or lies below it."""
    return scope == ROOT_PATH or path == scope or path.startswith(f"{scope}/")


def ranks_below(ranks: list[RankEntry], scope: str) -> list[RankEntry]:
    """The ranks a scope holds, in order."""
    return ranks if scope == ROOT_PATH else [entry for entry in ranks if is_below(entry.path, scope)]


def known_path(source: RunSource, path: str) -> str:
    """Return the path.

    Raises:
        AnswerError: 404, nothing of the run lies there.
    """
    if path == ROOT_PATH or any(is_below(entry.path, path) for entry in source.ranks()):
        return path
    if path in {host_path(host) for host in source.run().hosts}:
        return path
    raise AnswerError(404, "unknown_path", f"This run has no path {path[:200]!r}; see api/v1/ranks for those it has.")
