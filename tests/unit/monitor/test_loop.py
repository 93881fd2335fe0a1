"""Steps and batches, and what a rank's own working time is."""

import gc
import json
from argparse import Namespace
from collections.abc import Iterator
from enum import IntEnum
from typing import Any

import numpy as np
import pytest
import torch

from trackside.monitor.jsontext import to_json_text
from trackside.monitor.loop import BatchLoop, StepCounter
from trackside.monitor.pulse import BETWEEN, Pulse, count_samples


def test_outside_of_batches_each_call_is_a_step_inside_each_batch() -> None:
    counter, pulse = StepCounter(), Pulse()
    assert [counter.next(), counter.next()] == [0, 1]
    steps = [(counter.next(), counter.next()) for _ in BatchLoop([1, 2], pulse, counter)]
    assert steps == [(2, 2), (3, 3)]
    assert counter.next() == 4
    assert (pulse.batches, pulse.phase) == (2, BETWEEN)


def test_loops_may_be_nested_and_left_early() -> None:
    counter, pulse = StepCounter(), Pulse()
    for _ in BatchLoop([[1.0], [2.0]], pulse, counter):
        for _ in BatchLoop([[1.0], [2.0]], pulse, counter):
            break
        gc.collect()
        outer = counter.next()
        assert counter.next() == outer, "still inside the outer loop"
    assert pulse.batches == 4
    assert counter.next() + 1 == counter.next()


def test_a_loader_keeps_its_length_and_can_be_iterated_again() -> None:
    loop = BatchLoop([1, 2, 3], Pulse(), StepCounter())
    assert len(loop) == 3
    assert list(loop) == list(loop) == [1, 2, 3]
    with pytest.raises(TypeError):
        len(BatchLoop(iter([1]), Pulse(), StepCounter()))


def test_what_the_loader_raises_is_the_users() -> None:
    def loader() -> Iterator[int]:
        yield 1
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        list(BatchLoop(loader(), Pulse(), StepCounter()))


@pytest.mark.parametrize(
    ("batch", "samples"),
    [
        (torch.zeros(16, 3), 16),
        ([torch.zeros(8, 3), torch.zeros(8)], 8),
        ({"x": np.zeros((4, 2))}, 4),
        (({"x": torch.zeros(5)}, 1), 5),
        ([1, 2, 3], 3),
        (["a", "b"], 2),
        (torch.tensor(1.0), None),
        ([], None),
        (7, None),
        ("text", None),
        (None, None),
    ],
)
def test_samples_are_counted_along_the_first_dimension(batch: Any, samples: int | None) -> None:
    assert count_samples(batch) == samples


def test_own_time_never_exceeds_the_wall_and_without_peers_is_the_step() -> None:
    pulse = Pulse()
    pulse.add_step(data_s=0.5, step_s=1.0, cpu_s=9.0, samples=4)
    assert pulse.step_means() == (1.5, 1.5)
    assert pulse.phases == {"data": 0.5, "compute": 1.0, "waiting": 0.0}
    assert (pulse.work_seconds, pulse.samples) == (1.5, 4)
    assert Pulse().step_means() == (None, None)


def test_own_time_with_peers_is_the_threads_cpu_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trackside.monitor.pulse.world_of", lambda torch: 2)
    pulse = Pulse()
    pulse.add_step(data_s=0.25, step_s=1.0, cpu_s=0.25, samples=None)
    assert pulse.step_means() == (1.25, 0.5)
    assert pulse.phases == {"data": 0.25, "compute": 0.25, "waiting": 0.75}


def test_on_a_gpu_own_time_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_initialized", lambda: True)
    pulse = Pulse()
    pulse.add_step(data_s=0.25, step_s=1.0, cpu_s=0.25, samples=None)
    assert pulse.step_means() == (1.25, None)
    assert (pulse.is_work_known, pulse.phases) == (False, {"data": 0.25, "step": 1.0})


class Colour(IntEnum):
    RED = 1


def test_metadata_of_any_kind_is_strict_json() -> None:
    loop: dict[str, Any] = {}
    loop["again"] = loop
    given = {
        "nan": float("nan"),
        3: (1, 2),
        "np": np.float32(0.5),
        "array": np.arange(2),
        "enum": Colour.RED,
        "args": Namespace(lr=0.1),
        "path": "\ud800",
        "set": {1},
        "device": torch.device("cpu"),
        "none": None,
        "yes": True,
    }
    text = to_json_text(given)
    assert json.loads(text) == {
        "nan": "NaN",
        "3": [1, 2],
        "np": 0.5,
        "array": [0, 1],
        "enum": 1,
        "args": {"lr": 0.1},
        "path": "?",
        "set": [1],
        "device": "cpu",
        "none": None,
        "yes": True,
    }
    assert "…" in to_json_text(loop)
