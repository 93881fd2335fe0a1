"""A rolling window: figures read several times a second, reported as mean and peak of the interval."""


class Window:
    """Mean and peak of what was added since the last `close`. Unknown readings are left out, not counted as 0."""

    def __init__(self) -> None:
        self._sum = 0.0
        self._count = 0
        self._peak: float | None = None

    def add(self, value: float | None) -> None:
        """Take one reading."""
        if value is None:
            return
        self._sum += value
        self._count += 1
        self._peak = value if self._peak is None else max(self._peak, value)

    def close(self) -> tuple[float | None, float | None]:
        """Return (mean, peak) of the interval and begin the next; (None, None) when nothing was read."""
        if not self._count:
            return None, None
        figures = self._sum / self._count, self._peak
        self._sum, self._count, self._peak = 0.0, 0, None
        return figures


class Rate:
    """Growth of a counter per second between two readings."""

    def __init__(self) -> None:
        self._last: tuple[float, float] | None = None

    def of(self, counter: float | None, now: float) -> float | None:
        """Return units a second since the last call; None at first, when unknown, and when the counter went back."""
        last, self._last = self._last, None if counter is None else (counter, now)
        if counter is None or last is None or now <= last[1] or counter < last[0]:
            return None
        return (counter - last[0]) / (now - last[1])
