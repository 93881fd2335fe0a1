"""What the job as a whole waits for most."""

from operator import itemgetter

import msgspec
import numpy as np

from trackside.run.diagnose.blame import OTHERS, own_times
from trackside.run.diagnose.entries import Array
from trackside.run.diagnose.window import CORE_WAIT, REST, WALL, Aligned
from trackside.run.diagnose.words import duration
from trackside.wire.documents import Bound

BLOCKS = 64
FEWEST_BLOCKS = 10
DOMINATES = 0.4
"""Part of the step that makes a cause stand out."""
MEMORY_FULL = 0.95
SAID = 0.1
"""Part of the step of what is in no phase that is worth a word."""
CROWDED = 0.1
"""Part of the step in which ranks wait for a free core that is worth a word."""


class Costs(msgspec.Struct, frozen=True):
    """Where the time of a step goes, over the latest blocks."""

    step_seconds: float | None
    phases: dict[str, float]
    """Median over ranks of the mean seconds a step."""
    input_ratio: float | None
    waiting_ratio: float | None
    """Part of the step in collectives on the rank that waits least: what nobody's slowness explains."""
    work_ratio: float | None
    blocks: int
    rest_ratio: float = 0.0
    """Part of the step in code that is in no phase: what it does is not known."""
    core_ratio: float | None = None
    """Part of the step in which the training thread waits for a free core."""


def costs_of(view: Aligned) -> Costs:
    """Measure them."""
    view = view.latest(BLOCKS)
    wall = _row_means(view.plane(WALL))
    step = _median(wall)
    phases = {name: _row_means(view.phase(name)) for name in view.window.names}
    if step is None or step <= 0:
        return Costs(None, {}, None, None, None, len(view.ids))
    data = _low_median(phases["data"]) if "data" in phases else None
    waits = [phases[name] for name in OTHERS if name in phases]
    least = _least_waiting(waits) if waits else (0.0 if len(view.rows) == 1 else None)
    own = _median(_row_means(own_times(view)))
    rest = (_median(phases[REST]) or 0.0) if REST in phases else 0.0
    cores = _median(_row_means(view.plane(CORE_WAIT)))
    return Costs(
        step_seconds=step,
        phases={name: mean for name, means in phases.items() if (mean := _median(means)) is not None},
        input_ratio=None if data is None else min(1.0, data / step),
        waiting_ratio=None if least is None else min(1.0, least / step),
        work_ratio=None if own is None else max(0.0, min(1.0, (own - (data or 0.0) - rest) / step)),
        rest_ratio=min(1.0, rest / step),
        blocks=len(view.ids),
        core_ratio=None if cores is None else min(1.0, cores / step),
    )


def bound_of(costs: Costs, memory_ratio: float | None, *, has_laggard: bool) -> tuple[Bound | None, str]:
    """The bound and a sentence with its figures.

    Args:
        costs: of the latest steps.
        memory_ratio: of the fullest host or device; None: unknown.
        has_laggard: whether a rank is behind, which explains some of the others' waiting.
    """
    if costs.step_seconds is None or costs.blocks < FEWEST_BLOCKS:
        return None, "there are too few steps to tell"
    if memory_ratio is not None and memory_ratio >= MEMORY_FULL:
        return "memory", f"{memory_ratio:.0%} of the memory is in use; there is no room left"
    step = duration(costs.step_seconds)
    known: list[tuple[float, Bound | None, str]] = []
    if costs.core_ratio is not None and costs.core_ratio >= CROWDED:
        known.append((costs.core_ratio, None, "waiting for a free core"))
    if costs.input_ratio is not None:
        known.append((costs.input_ratio, "input", "waiting for data"))
    if costs.waiting_ratio is not None:
        known.append((costs.waiting_ratio, "communication", "in collectives on every rank"))
    if costs.work_ratio is not None:
        known.append((costs.work_ratio, "compute", "own work"))
    if costs.rest_ratio >= SAID:
        known.append((costs.rest_ratio, None, "code outside the phases, which mon.phase tells apart"))
    if not known:
        return None, f"a step takes {step}; what it goes into cannot be told"
    known.sort(key=itemgetter(0), reverse=True)
    ratio, bound, words = known[0]
    if ratio < DOMINATES:
        parts = ", ".join(f"{part:.0%} {what}" for part, _, what in known)
        if has_laggard:
            return None, f"of a step of {step}, {parts}; the rest is waiting for who is behind"
        return None, f"nothing stands out: of a step of {step}, {parts}"
    since = " (a rank that is behind makes the others wait as well)" if has_laggard else ""
    return bound, f"{ratio:.0%} of a step of {step} is {words}{since}"


def _least_waiting(waits: list[Array]) -> float | None:
    """Mean waiting of the ranks that wait least: of one in ten, for the others are waited for by nobody."""
    total = np.sum([np.nan_to_num(wait) for wait in waits], axis=0)
    known = np.any([np.isfinite(wait) for wait in waits], axis=0)
    if not known.any():
        return None
    return float(np.sort(total[known])[known.sum() // 10])


def _row_means(values: Array) -> Array:
    known = np.isfinite(values).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(known > 0, np.nansum(values, axis=1) / known, np.nan)


def _low_median(values: Array) -> float | None:
    """The lower of two middle ones: what one rank of two does is not what all do."""
    known = np.sort(values[np.isfinite(values)])
    return float(known[(len(known) - 1) // 2]) if len(known) else None


def _median(values: Array) -> float | None:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else None
