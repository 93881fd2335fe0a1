"""Torch's own loader, in loops that do not go through `Monitor.batches`."""

import sys
from collections.abc import Callable
from typing import Any

from trackside.monitor.guard import guarded
from trackside.monitor.phases.borders import Borders
from trackside.monitor.phases.timed import TimedCall, TimedMethod


class LoaderWatch:
    """Times the outermost `next()` of a `DataLoader` and counts its samples."""

    def __init__(self, borders: Borders) -> None:
        self._borders = borders

    def methods(self) -> list[TimedMethod]:
        """What takes the place of torch's."""
        module = sys.modules.get("torch.utils.data.dataloader")
        iterator = getattr(module, "_BaseDataLoaderIter", None)
        return [TimedMethod(iterator, "__next__", self._begin)] if iterator is not None else []

    def _begin(self, original: Callable[..., Any], iterator: Any) -> TimedCall | None:
        if self._borders.is_asking or not self._borders.is_ours:
            return None
        # As `seen(original(iterator))`, but without a frame of ours on the stack when it raises.
        call = TimedCall(next, map(self._seen, map(original, (iterator,))))
        call.end = self._end
        self._enter()
        return call

    def _seen(self, batch: Any) -> Any:
        self._count(batch)
        return batch

    @guarded
    def _enter(self) -> None:
        self._borders.fetch()

    @guarded
    def _count(self, batch: Any) -> None:
        self._borders.fetched(batch)

    @guarded
    def _end(self) -> None:
        self._borders.fetch_ended()
