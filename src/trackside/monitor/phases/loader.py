"""Torch's own loader, in loops that do not go through `Monitor.batches`."""

import sys
from collections.abc import Callable
from itertools import repeat
from typing import Any

from trackside.monitor.guard import guarded
from trackside.monitor.phases.borders import Borders
from trackside.monitor.phases.timed import TimedCall, TimedMethod


class LoaderWatch:
    """Times the outermost `next()` of a `DataLoader` and counts its samples."""

    def __init__(self, borders: Borders) -> None:
        self._borders = borders
        self._is_inside = False

    def methods(self) -> list[TimedMethod]:
        """What takes the place of torch's."""
        module = sys.modules.get("torch.utils.data.dataloader")
        iterator = getattr(module, "_BaseDataLoaderIter", None)
        return [TimedMethod(iterator, "__next__", self._begin)] if iterator is not None else []

    def _begin(self, original: Callable[..., Any], iterator: Any) -> TimedCall | None:
        if self._borders.is_asking or not self._borders.is_ours:
            return None
        # As `seen(original(entered(iterator)))`, however often it is called, but without a frame of ours when it raises.
        call = TimedCall(next, map(self._seen, map(original, map(self._entered, repeat(iterator)))))
        call.end, call.about = self._end, None
        return call

    def _entered(self, iterator: Any) -> Any:
        self._enter()
        return iterator

    def _seen(self, batch: Any) -> Any:
        self._count(batch)
        self._end(None)
        return batch

    @guarded
    def _enter(self) -> None:
        self._is_inside = True
        self._borders.fetch()

    @guarded
    def _count(self, batch: Any) -> None:
        self._borders.fetched(batch)

    @guarded
    def _end(self, _about: None) -> None:
        """It has returned, or is thrown away: then it has raised, most often since there are no more batches."""
        if self._is_inside:
            self._is_inside = False
            self._borders.fetch_ended()
