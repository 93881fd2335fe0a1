"""The run's metric names: one id a name, and a limit."""

import msgspec

from trackside.wire.messages import Reduction, SeriesDef

DEFAULT_NAME_LIMIT = 10_000
NAME_LIMIT_CHARACTERS = 16_384
"""Of one name."""
ALL_NAMES_CHARACTERS = 2_097_152
"""Of all names together: every page gets them all."""
REFUSED = -1


class MetricName(msgspec.Struct, frozen=True, array_like=True):
    """A metric as the first rank that named it defined it, or the last that declared it."""

    name: str
    unit: str | None
    reduction: Reduction


class MetricNames:
    """Names of all ranks; an id is the position of the name's first appearance."""

    def __init__(self, limit: int = DEFAULT_NAME_LIMIT) -> None:
        self._limit = limit
        self._ids: dict[str, int] = {}
        self._names: list[MetricName] = []
        self._characters = 0

    def __len__(self) -> int:
        return len(self._names)

    def name(self, metric: int) -> str:
        """The name of a metric id."""
        return self._names[metric].name

    def define(self, definition: SeriesDef) -> tuple[int, bool]:
        """Return the metric's id, `REFUSED` beyond the limits, and whether it is new or is now declared otherwise."""
        known = self._ids.get(definition.name)
        if known is not None:
            return known, definition.declared and self._amend(known, definition)
        if self.why_refused(definition.name) is not None:
            return REFUSED, False
        metric = len(self._names)
        self._characters += len(definition.name)
        self._ids[definition.name] = metric
        self._names.append(MetricName(definition.name, definition.unit, definition.reduction))
        return metric, True

    def why_refused(self, name: str) -> str | None:
        """Why a new name would not be taken, in words; None when it would be."""
        if len(name) > NAME_LIMIT_CHARACTERS:
            return f"it has {len(name):,} characters, and a name may have {NAME_LIMIT_CHARACTERS:,}"
        if len(self._names) >= self._limit:
            return f"the run has {len(self._names):,} metric names, as many as it may"
        if self._characters + len(name) > ALL_NAMES_CHARACTERS:
            return f"the run's {len(self._names):,} metric names together are as long as they may be"
        return None

    def _amend(self, metric: int, definition: SeriesDef) -> bool:
        """Take a declaration of a metric that is known, the last one; return whether it says anything new."""
        old = self._names[metric]
        new = self._names[metric] = MetricName(old.name, definition.unit or old.unit, definition.reduction)
        return new != old

    def entry(self, metric: int) -> MetricName:
        """What is known of a metric."""
        return self._names[metric]

    def snapshot(self) -> list[MetricName]:
        """All names, in order of their ids."""
        return list(self._names)

    def restore(self, names: list[MetricName]) -> None:
        """Take over what `snapshot` returned."""
        self._names = list(names)
        self._ids = {entry.name: metric for metric, entry in enumerate(names)}
        self._characters = sum(len(entry.name) for entry in names)
