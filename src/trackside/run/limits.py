"""How long a rank may be silent before it counts as late, and as lost."""

import math

import msgspec

from trackside.errors import UsageError

LEAST_S = 2.0
"""A rank speaks every second; a shorter limit would call healthy ranks late."""


class SilenceLimits(msgspec.Struct, frozen=True):
    """Seconds without a sign of life."""

    late_s: float = 10.0
    lost_s: float = 30.0


DEFAULT_LIMITS = SilenceLimits()


def read_limits(late: str | None, lost: str | None, late_source: str, lost_source: str) -> SilenceLimits:
    """The limits as somebody wrote them; who gives only the first gets three times it as the second, at least 30 s.

    Args:
        late: seconds until late; None: 10.
        lost: seconds until lost.
        late_source: option or variable, for the message.
        lost_source: the same of `lost`.

    Raises:
        UsageError: no number, too short, or late after lost.
    """
    default = DEFAULT_LIMITS
    late_s = default.late_s if late is None else _seconds(late, late_source)
    lost_s = max(default.lost_s, 3 * late_s) if lost is None else _seconds(lost, lost_source)
    if late_s >= lost_s:
        raise UsageError(
            f"a rank would be lost after {lost_s:g} s, before it is late after {late_s:g} s; see {lost_source}"
        )
    return SilenceLimits(late_s, lost_s)


def _seconds(text: str, source: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not LEAST_S <= seconds < math.inf:
        raise UsageError(
            f"{source} {text!r} is no such time; give seconds, {LEAST_S:g} or more, since ranks speak every second"
        )
    return seconds
