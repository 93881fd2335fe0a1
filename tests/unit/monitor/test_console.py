"""Lines on the terminal, letter by letter."""

import math

import pytest

from trackside.monitor import console


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0ms"),
        (0.049, "49ms"),
        (0.42, "420ms"),
        (0.9996, "1.0s"),
        (1.5, "1.5s"),
        (9.96, "10s"),
        (12.2, "12s"),
        (59.7, "1m 0s"),
        (272, "4m 32s"),
        (3599.9, "1h 0m"),
        (11_520, "3h 12m"),
    ],
)
def test_b45_durations(seconds: float, text: str) -> None:
    assert console.format_duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (1e-4, "1.00e-04"),
        (-0.0009, "-9.00e-04"),
        (0.001, "0.0010"),
        (1.52641, "1.5264"),
        (-99.5, "-99.5000"),
        (100, "100.00"),
        (12345.678, "12345.68"),
        (math.nan, "NaN"),
        (-math.inf, "-Infinity"),
    ],
)
def test_b45_values(value: float, text: str) -> None:
    assert console.format_value(value) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (2048, "2 KB"), (5 * 2**20, "5 MB"), (2.1 * 2**30, "2.1 GB"), (3 * 2**40, "3.0 TB")],
)
def test_b45_bytes(count: float, text: str) -> None:
    assert console.format_bytes(count) == text


def test_b43_epoch_lines() -> None:
    assert console.epoch_line(1, 100, {"loss": 1.5264}, 0.049, 4.8) == "  epoch   1/100  loss=1.5264  [49ms  ETA 4.8s]"
    assert console.epoch_line(100, 100, {"loss": 0.5}, 0.05, None) == "  epoch 100/100  loss=0.5000  [50ms]"
    assert console.epoch_line(7, None, {"b": 1, "loss": 2, "a": 3}, None, None) == (
        "  epoch 7  loss=2.0000  a=3.0000  b=1.0000"
    )
    device = console.device_part(0, int(2.1 * 2**30), 16 * 2**30, 0.82)
    assert console.epoch_line(2, 10, {"loss": 0.5}, 1.0, 8.0, device) == (
        "  epoch  2/10  loss=0.5000  [1.0s  ETA 8.0s]  VRAM[cuda0]: 2.1 GB / 16.0 GB  gpu[cuda0] 82%"
    )


def test_b43_numbers_are_padded_to_the_width_of_the_total_and_the_unknown_is_left_out() -> None:
    lines = [console.epoch_line(n, 1000, {}, None, None) for n in (1, 10, 100, 1000)]
    assert lines == ["  epoch    1/1000", "  epoch   10/1000", "  epoch  100/1000", "  epoch 1000/1000"]
    memory = console.device_part(3, 2**30, 2**34, None)
    assert console.epoch_line(1, 2, {}, 0.5, None, memory) == "  epoch 1/2  [500ms]  VRAM[cuda3]: 1.0 GB / 16.0 GB"
    assert console.epoch_line(1, 2, {}, None, 3.0) == "  epoch 1/2  [ETA 3.0s]"


def test_b43_no_name_steers_the_terminal() -> None:
    line = console.epoch_line(1, 2, {"a\x1b[2Jb\r\n\u202e": 1.0}, None, None)
    assert line == "  epoch 1/2  a\ufffd[2Jb\ufffd\ufffd\ufffd=1.0000"


def test_b43_a_name_that_would_fill_the_line_is_cut() -> None:
    assert console.epoch_line(1, 2, {"n" * 5000: 1.0}, None, None) == f"  epoch 1/2  {'n' * 79}…=1.0000"


def test_b13_a_figure_that_is_unknown_is_left_out() -> None:
    assert console.device_part(1, None, None, None) == ""
    assert console.device_part(1, None, 16, 0.5) == "  gpu[cuda1] 50%"


def test_b44_end_lines() -> None:
    assert console.end_line(2.8, 0.0012) == "  training complete in 2.8s  | loss: 0.0012"
    assert console.end_line(2.8, None) == "  training complete in 2.8s"


def test_b40_loss_comes_first_then_names() -> None:
    assert console.order_metrics({"b", "loss", "a"}) == ["loss", "a", "b"]


def test_no_text_steers_the_terminal() -> None:
    assert console.clean("a\x1b[2Jb\r\nc\u202ed") == "a\ufffd[2Jb\ufffd\ufffdc\ufffdd"
    assert console.clean("größe 🦊") == "größe 🦊"


def test_a_closed_stderr_is_no_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", None)
    console.say("x")
