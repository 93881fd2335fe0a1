"""Whatever the user calls metadata, as JSON text that every reader takes."""

import json
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from trackside.wire.values import to_json_number

MAX_DEPTH = 32
MAX_TEXT = 65_536
_TOO_DEEP = "…"


def to_json_text(value: Any) -> str:
    """The value as strict JSON: NaN and infinities are strings, keys are text, what JSON has no word for is its `str`.

    Raises:
        Exception: whatever an object's own `str` raises.
    """
    return json.dumps(_plain(value, MAX_DEPTH), ensure_ascii=False, allow_nan=False)


def _plain(value: Any, depth: int) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return _scalar(value)
    if depth == 0:
        return _TOO_DEEP
    if isinstance(value, Mapping):
        return {_text(str(key)): _plain(entry, depth - 1) for key, entry in value.items()}
    if isinstance(value, (Sequence, AbstractSet)) and not isinstance(value, (bytes, bytearray)):
        return [_plain(entry, depth - 1) for entry in value]
    return _other(value, depth)


def _scalar(value: Any) -> Any:
    """Subclasses, such as numpy's and enumerations, become the plain thing."""
    if isinstance(value, str):
        return _text(str(value))
    if isinstance(value, float):
        return to_json_number(float(value))
    return value if value is None or isinstance(value, bool) else int(value)


def _other(value: Any, depth: int) -> Any:
    """A numpy scalar is its number; a namespace is its entries; anything else is its `str`."""
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        return _plain(value.tolist(), depth - 1)
    if type(value).__name__ == "Namespace" and hasattr(value, "__dict__"):
        return _plain(vars(value), depth)
    return _text(str(value))


def _text(text: str) -> str:
    """Text that UTF-8 can hold, cut where it is longer than anybody reads."""
    whole = text.encode("utf-8", "replace").decode("utf-8")
    return whole if len(whole) <= MAX_TEXT else whole[:MAX_TEXT] + _TOO_DEEP


def utf8(text: object) -> str:
    """Text that UTF-8 can hold."""
    return str(text).encode("utf-8", "replace").decode("utf-8")


def utf8_or_none(text: object) -> str | None:
    """The same, where there is any."""
    return None if text is None else utf8(text)
