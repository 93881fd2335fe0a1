"""What killed processes left, in words."""

import time
from pathlib import Path

import pytest

from trackside.controller.strays import Stray
from trackside.wire.sweep import Remains


@pytest.mark.parametrize(("age_s", "ago"), [(3.0, "3 s ago"), (720.0, "12 min ago"), (3.5 * 3600, "3.5 h ago")])
def test_how_long_ago_it_was_left_is_said_as_people_say_it(age_s: float, ago: str) -> None:
    remains = Remains(
        session="73",
        run="r1",
        folder=None,
        paths=(Path("/tmp/trackside-0/a.spool"),),
        size=2_000_000,
        written_at=time.time() - age_s,
        is_empty=False,
    )
    stray = Stray(name="r1", run="r1", left=[remains])
    assert stray.words == f"one killed process of run r1 left 2.0 MB in /tmp/trackside-0, {ago}"
