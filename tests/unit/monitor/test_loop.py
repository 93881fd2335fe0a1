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
from trackside.monitor.phases.names import BETWEEN
from trackside.monitor.phases.recorder import Recorder
from trackside.monitor.pulse import OwnWork, Pulse, count_samples


def test_outside_of_batches_each_call_is_a_step_inside_each_batch() -> None:
    counter, recorder = StepCounter(), Recorder()
    assert [counter.next(), counter.next()] == [0, 1]
    steps = [(counter.next(), counter.next()) for _ in BatchLoop([1, 2], recorder, counter)]
    assert steps == [(2, 2), (3, 3)]
    assert counter.next() == 4
    assert (recorder.pulse.batches, recorder.doing) == (2, BETWEEN)


def test_loops_may_be_nested_and_left_early() -> None:
    counter, recorder = StepCounter(), Recorder()
    for _ in BatchLoop([[1.0], [2.0]], recorder, counter):
        for _ in BatchLoop([[1.0], [2.0]], recorder, counter):
            break
        gc.collect()
        outer = counter.next()
        assert counter.next() == outer, "still inside the outer loop"
    assert recorder.pulse.batches == 4
    assert counter.next() + 1 == counter.next()


def test_a_loader_keeps_its_length_and_can_be_iterated_again() -> None:
    loop = BatchLoop([1, 2, 3], Recorder(), StepCounter())
    assert len(loop) == 3
    assert list(loop) == list(loop) == [1, 2, 3]
    with pytest.raises(TypeError):
        len(BatchLoop(iter([1]), Recorder(), StepCounter()))


def test_what_the_loader_raises_is_the_users() -> None:
    def loader() -> Iterator[int]:
        yield 1
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        list(BatchLoop(loader(), Recorder(), StepCounter()))


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


def test_totals_and_means_are_of_the_steps() -> None:
    pulse = Pulse()
    assert pulse.step_means() == (None, None)
    pulse.add_step(1.5, 1.25)
    pulse.add_step(0.5, 0.25)
    pulse.add_phases([{"data": 0.5, "rest": 0.75, "collective": 0.25}, {"data": 0.25, "collective": 0.25}])
    assert pulse.step_means() == (1.0, 0.75)
    assert pulse.phases == {"data": 0.75, "rest": 0.75, "collective": 0.5}
    assert (pulse.work_seconds, pulse.unknown_steps) == (1.5, 0)


def test_own_time_is_unknown_when_that_of_a_step_is() -> None:
    pulse, known, unknown = Pulse(), OwnWork(), OwnWork()
    assert known.seconds is None
    pulse.measure(known, is_end=False)
    pulse.add_step(1.0, 0.75)
    pulse.measure(known, is_end=True)
    pulse.measure(unknown, is_end=False)
    pulse.add_step(1.0, None)
    pulse.measure(unknown, is_end=True)
    assert (known.seconds, unknown.seconds) == (0.75, None)
    assert pulse.step_means() == (1.0, None)


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
