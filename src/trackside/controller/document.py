"""`run.json` and `heat.json`: rewritten now and then while something changes, and at the end."""

from collections.abc import Callable

import msgspec

from trackside.sinks.protocol import RunSource
from trackside.store import SCHEMA_VERSION
from trackside.wire.ids import ROOT_PATH

LEAST_PAUSE_S = 1.0
HEAT_PAUSE_S = 10.0
BYTES_PER_S = 262_144
"""What may be written on average; a large job's document is written less often."""


class DocumentWriter:
    """Keeps the run folder's `run.json` current.

    Args:
        source: of the run.
        write: hands the bytes to the store.
    """

    def __init__(self, source: RunSource, write: Callable[[bytes], None]) -> None:
        self._source = source
        self._write = write
        self._changed = True
        self._due = 0.0

    def change(self) -> None:
        """Something in it is not current any more."""
        self._changed = True

    def write_if_due(self, mono: float) -> None:
        """Write it when it changed and enough time has passed."""
        if self._changed and mono >= self._due:
            self._due = mono + max(LEAST_PAUSE_S, self.write_now() / BYTES_PER_S)

    def write_now(self) -> int:
        """Write it; returns its bytes."""
        self._changed = False
        document = {
            **msgspec.to_builtins(self._source.run()),
            "schema_version": SCHEMA_VERSION,
            "rank_entries": self._source.ranks(),
            "metrics": self._source.metrics(),
        }
        content = msgspec.json.format(msgspec.json.encode(document), indent=1)
        self._write(content)
        return len(content)


class HeatWriter:
    """Keeps the run folder's `heat.json` current, once there is anything in it.

    Args:
        source: of the run.
        write: hands the bytes to the store.
    """

    def __init__(self, source: RunSource, write: Callable[[bytes], None]) -> None:
        self._source = source
        self._write = write
        self._due = 0.0
        self._last_step = -1

    def write_if_due(self, mono: float) -> None:
        """Write it when ranks are further on and enough time has passed."""
        if mono >= self._due:
            self._due = mono + max(HEAT_PAUSE_S, self.write_now() / BYTES_PER_S)

    def write_now(self) -> int:
        """Write it if anything is new; returns its bytes."""
        heat = self._source.heat(ROOT_PATH)
        if not heat.step or heat.step[-1] == self._last_step:
            return 0
        self._last_step = heat.step[-1]
        content = msgspec.json.encode(heat)
        self._write(content)
        return len(content)
