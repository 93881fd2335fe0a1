"""Numbers on the hop to JSON: non-finite ones are explicit strings, unknown is None and never 0."""

import math
from collections.abc import Iterable

NAN = "NaN"
POSITIVE_INFINITY = "Infinity"
NEGATIVE_INFINITY = "-Infinity"

JsonNumber = float | int | str | None
"""A finite number, one of the strings `NaN`, `Infinity`, `-Infinity`, or None for unknown."""


def to_json_number(value: float | None) -> JsonNumber:
    """Return `value` as JSON can hold it."""
    if value is None or math.isfinite(value):
        return value
    if math.isnan(value):
        return NAN
    return POSITIVE_INFINITY if value > 0 else NEGATIVE_INFINITY


def to_json_numbers(values: Iterable[float | None]) -> list[JsonNumber]:
    """Return every value as JSON can hold it, in order."""
    return [to_json_number(value) for value in values]


def from_json_number(value: JsonNumber) -> float | None:
    """The inverse of `to_json_number`.

    Raises:
        ValueError: a string that is not one of the three.
    """
    if not isinstance(value, str):
        return value
    if value not in (NAN, POSITIVE_INFINITY, NEGATIVE_INFINITY):
        raise ValueError(f"not a number: {value!r}; expected NaN, Infinity or -Infinity")
    return float(value.replace("Infinity", "inf"))
