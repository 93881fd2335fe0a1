"""Numbers, names and paths."""

import math

import pytest

from trackside.wire import ids
from trackside.wire.values import from_json_number, to_json_number, to_json_numbers


@pytest.mark.parametrize(
    ("value", "json"),
    [(1.5, 1.5), (0, 0), (None, None), (math.nan, "NaN"), (math.inf, "Infinity"), (-math.inf, "-Infinity")],
)
def test_numbers_to_json_and_back(value: float | None, json: object) -> None:
    assert to_json_number(value) == json
    back = from_json_number(to_json_number(value))
    assert back == value or (isinstance(value, float) and math.isnan(value) and math.isnan(float(back or 0)))


def test_columns_keep_their_order() -> None:
    assert to_json_numbers([1, math.nan, None]) == [1, "NaN", None]


def test_a_string_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="'nan'"):
        from_json_number("nan")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("resnet cifar", "resnet-cifar"), ("../../etc", "etc"), ("", "run"), ("…", "run"), ("a" * 99, "a" * 60)],
)
def test_a_name_becomes_one_safe_path_component(text: str, expected: str) -> None:
    assert ids.slug(text) == expected


def test_sessions_are_sixteen_bytes_and_never_begin_with_zero() -> None:
    sessions = {ids.new_session() for _ in range(100)}
    assert len(sessions) == 100
    assert {(len(s), s[0]) for s in sessions} == {(16, ord("s"))}


def test_b25_label_of_a_rank() -> None:
    assert ids.rank_label("gpu-01", 3, 1) == "gpu-01:lr=1 gr=3"
    assert ids.rank_label(None, 3, None) == "gr=3"
    assert ids.rank_path("gpu-01", 3) == "root/gpu-01/rank3"
    assert ids.host_path("a/b") == "root/a-b"
