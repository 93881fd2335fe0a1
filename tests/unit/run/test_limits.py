"""How long silence may last, as people write it."""

import pytest

from trackside.errors import UsageError
from trackside.run.limits import SilenceLimits, read_limits


@pytest.mark.parametrize(
    ("late", "lost", "expected"),
    [
        (None, None, (10.0, 30.0)),
        ("5", None, (5.0, 30.0)),
        ("60", None, (60.0, 180.0)),
        (None, "12.5", (10.0, 12.5)),
        ("2", "3", (2.0, 3.0)),
    ],
)
def test_b30_both_limits_can_be_set(late: str | None, lost: str | None, expected: tuple[float, float]) -> None:
    assert read_limits(late, lost, "--late-after", "--lost-after") == SilenceLimits(*expected)


@pytest.mark.parametrize(
    ("late", "lost", "words"),
    [
        ("soon", None, "--late-after 'soon'"),
        ("0.5", None, "--late-after '0.5'"),
        ("-3", None, "--late-after"),
        ("inf", None, "--late-after"),
        ("nan", None, "--late-after"),
        (None, "1e400", "--lost-after"),
        ("20", "20", "lost after 20 s, before it is late after 20 s"),
        (None, "8", "--lost-after"),
    ],
)
def test_a_limit_that_is_none_is_wrong_use(late: str | None, lost: str | None, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read_limits(late, lost, "--late-after", "--lost-after")
