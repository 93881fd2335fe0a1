"""Memory that grows steadily, and memory that only seems to."""

from __future__ import annotations

import numpy as np
import pytest

from trackside.run.diagnose.memory import KEPT, MemorySample, MemoryTrace

GB = 1 << 30


def traced(values: np.ndarray[tuple[int], np.dtype[np.float64]], device: bool = False) -> MemoryTrace:
    trace = MemoryTrace()
    for at, value in enumerate(values.tolist()):
        known = {"host": None, "device": int(value)} if device else {"host": int(value), "device": None}
        trace.take(MemorySample(mono=2.0 * at, step=10 * at, **known))
    return trace


@pytest.mark.parametrize("count", [50, 100, 2000])
def test_a_leak_is_seen_at_any_length(count: int) -> None:
    noise = np.random.default_rng(1).normal(0, 1 << 20, count)
    growth = traced(2 * GB + np.arange(count) * (8 << 20) + noise).growth()
    assert growth is not None
    assert growth.where == "host"
    assert growth.rate == pytest.approx((4 << 20), rel=0.1)


def test_a_leak_on_the_device() -> None:
    growth = traced(np.linspace(1, 2, 60) * GB, device=True).growth()
    assert growth is not None
    assert growth.where == "device"


def test_warming_up_is_no_leak() -> None:
    at = np.arange(200)
    assert traced(2 * GB + GB * (1 - np.exp(-at / 30))).growth() is None
    assert traced(2 * GB + np.where(at > 20, GB, 0)).growth() is None


def test_waves_and_noise_are_no_leak() -> None:
    for seed in range(50):
        random = np.random.default_rng(seed)
        at = np.arange(300)
        assert traced(4 * GB + random.normal(0, 100 << 20, 300)).growth() is None
        assert traced(4 * GB + (at % 40) * (30 << 20)).growth() is None


def test_growth_that_ends() -> None:
    values = 2 * GB + np.minimum(np.arange(400), 100) * (20 << 20)
    trace = traced(values[:100])
    assert trace.growth() is not None
    assert not trace.has_stopped()
    assert traced(values).has_stopped()


def test_samples_are_bounded() -> None:
    trace = traced(np.full(10_000, GB, float))
    assert len(trace.samples) <= KEPT
    assert trace.samples[0].mono == 4.0, "behind the first steps"
    assert trace.samples[-1].mono >= 2 * 10_000 * 0.9
