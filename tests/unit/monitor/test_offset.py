"""The controller's clock as a rank sees it."""

import pytest

from trackside.monitor.offset import KEPT, ClockOffset


def exchange(clock: ClockOffset, at: float, offset: float, there: float = 0.01, back: float = 0.01) -> None:
    """Our clock says `at` when we send; the controller's is `offset` ahead; the ways take `there` and `back`."""
    clock.take(at, at + there + offset, at + there + back)


def test_b33_the_exchange_with_the_shortest_round_trip_counts() -> None:
    clock = ClockOffset()
    assert clock.offset is None
    exchange(clock, 0.0, 7.0, there=0.001, back=0.8)
    exchange(clock, 1.0, 7.0, there=0.002, back=0.002)
    exchange(clock, 2.0, 7.0, there=0.5, back=0.001)
    assert (clock.offset, clock.round_trip) == (pytest.approx(7.0), pytest.approx(0.004))


@pytest.mark.parametrize("jump", [3600.0, -3600.0, 2.0])
def test_b33_a_clock_that_is_set_is_measured_anew_at_once(jump: float) -> None:
    clock = ClockOffset()
    for second in range(KEPT):
        exchange(clock, float(second), 0.5, there=0.0001, back=0.0001)
    exchange(clock, 20.0, 0.5 + jump, there=0.02, back=0.03)
    assert clock.offset == pytest.approx(0.5 + jump, abs=0.05)


def test_b33_an_exchange_that_a_jump_went_through_says_nothing() -> None:
    clock = ClockOffset()
    exchange(clock, 0.0, 1.0)
    clock.take(100.0, 101.0, 40.0)
    clock.take(100.0, 101.0, 1000.0)
    assert clock.offset == pytest.approx(1.0)


def test_b33_a_slow_way_contradicts_nothing() -> None:
    clock = ClockOffset()
    exchange(clock, 0.0, 1.0, there=0.001, back=0.001)
    exchange(clock, 1.0, 1.0, there=8.0, back=0.001)
    assert clock.offset == pytest.approx(1.0)


def test_d86_a_raw_difference_is_no_offset() -> None:
    """Frames that had waited differed by 11.56 s where the clocks were 1.6 ms apart."""
    clock = ClockOffset()
    clock.take(100.0, 111.56, 111.5608)
    assert clock.offset == pytest.approx(5.7796), "half of the way at most can be wrong"
    clock.take(200.0, 200.0021, 200.001)
    clock.take(300.0, 309.0, 309.1)
    assert (clock.offset, clock.round_trip) == (pytest.approx(0.0016), pytest.approx(0.001))
