"""Values of all the kinds users log."""

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from trackside.monitor.convert import RefusedValueError, is_on_device, to_float
from trackside.monitor.intake import tidy


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (1, 1.0),
        (True, 1.0),
        (0.25, 0.25),
        (Decimal("1.5"), 1.5),
        (Fraction(1, 4), 0.25),
        (np.float16(0.5), 0.5),
        (np.int64(3), 3.0),
        (np.bool_(True), 1.0),
        (np.array(2.0), 2.0),
        (np.array([[2.0]]), 2.0),
        (torch.tensor(0.5), 0.5),
        (torch.tensor(0.5, dtype=torch.bfloat16), 0.5),
        (torch.tensor([3]), 3.0),
        (torch.tensor(True), 1.0),
        (torch.tensor(2.0, requires_grad=True) * 2, 4.0),
        (torch.nn.Parameter(torch.tensor(1.5)), 1.5),
    ],
)
def test_numbers_of_every_kind(value: Any, number: float) -> None:
    assert to_float(value) == number


@pytest.mark.parametrize(
    "value",
    ["7", b"7", None, [1], (1,), {"a": 1}, np.zeros(3), torch.zeros(2, 2), 1j, np.array("x"), object(), torch.zeros(0)],
)
def test_anything_else_is_refused_with_what_it_is(value: Any) -> None:
    with pytest.raises(RefusedValueError, match=type(value).__name__):
        to_float(value)


def test_a_distributed_tensor_is_read_when_this_rank_holds_it_whole() -> None:
    class Placement:
        def __init__(self, *, whole: bool) -> None:
            self._whole = whole

        def is_replicate(self) -> bool:
            return self._whole

    class Distributed:
        shape = ()

        def __init__(self, *, whole: bool) -> None:
            self.placements = (Placement(whole=whole),)

        def to_local(self) -> torch.Tensor:
            return torch.tensor(2.0)

        def item(self) -> float:
            raise AssertionError("a collective")

    assert to_float(Distributed(whole=True)) == 2.0
    with pytest.raises(RefusedValueError, match="full_tensor"):
        to_float(Distributed(whole=False))


def test_the_result_of_a_running_collective_is_not_waited_for() -> None:
    class Pending:
        shape = ()

        def trigger_wait(self) -> None:
            raise AssertionError("waited")

        item = trigger_wait

    with pytest.raises(RefusedValueError, match="collective"):
        to_float(Pending())


def test_what_is_on_a_device() -> None:
    assert not is_on_device(torch.tensor(1.0))
    assert not is_on_device(torch.empty((), device="meta"))
    assert not is_on_device(1.0)


def test_objects_that_raise_whatever_they_like_are_refused_by_name() -> None:
    class Nasty:
        def __float__(self) -> float:
            raise KeyError("surprise")

        def __repr__(self) -> str:
            raise ValueError("no words")

    class NastyKey:
        def __str__(self) -> str:
            raise ValueError("no name")

    refused: list[str] = []
    metrics = {"nasty": Nasty(), "meta": torch.empty((), device="meta"), NastyKey(): 1.0, "fine": 2.0}
    call = tidy(-1, 0.0, 3, metrics, lambda name, reason: refused.append(name))
    assert call == (-1, 0.0, 3, {"NastyKey": 1.0, "fine": 2.0})
    assert refused == ["nasty", "meta"]


@pytest.mark.parametrize("metrics", ["loss", None, 3, ["loss"], {"loss"}])
def test_what_is_no_mapping_is_a_complaint(metrics: Any) -> None:
    assert "mapping" in str(tidy(-1, 0.0, 3, metrics, lambda name, reason: None))
