"""Paths of the tree root -> host -> rank, as a client names them."""

from trackside.server.answers import AnswerError
from trackside.sinks.protocol import RunSource
from trackside.wire.ids import ROOT_PATH, host_path


def known_path(source: RunSource, path: str) -> str:
    """Return the path.

    Raises:
        AnswerError: 404, nothing of the run lies there.
    """
    if path == ROOT_PATH or source.ranks(path):
        return path
    if path in {host_path(host) for host in source.run().hosts}:
        return path
    raise AnswerError(404, "unknown_path", f"This run has no path {path[:200]!r}; see api/v1/ranks for those it has.")
