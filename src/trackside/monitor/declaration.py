"""What the user says of a metric beside its values."""

from dataclasses import dataclass
from typing import Any, get_args

from trackside.monitor.intake import described
from trackside.monitor.jsontext import utf8_or_none
from trackside.wire.messages import Reduction

REDUCTIONS = get_args(Reduction)


@dataclass(frozen=True, slots=True)
class Declaration:
    """How the ranks' values of a metric become one; goes through the buffer, in order with the calls that log it."""

    name: str
    reduction: Reduction
    unit: str | None


def read_declaration(name: Any, reduction: Any, unit: Any) -> Declaration | str:
    """A declaration, or, as the rest of a sentence, why it is none."""
    if not isinstance(name, str) or not name or reduction not in REDUCTIONS:
        return f"takes a name and one of {', '.join(REDUCTIONS)}, not {described(name)} and {described(reduction)}"
    return Declaration(name, reduction, utf8_or_none(unit))
