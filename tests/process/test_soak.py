"""Half an hour of training of eight ranks in some minutes: nothing grows, in no process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

SECONDS = float(os.environ.get("SOAK_S", "300"))
MOST_GROWTH_MB = {"controller": 6.0, "launcher": 1.0, "rank": 1.0}
"""After the warm-up, by a straight line; what is in the controller's memory until it is in a file rises and falls."""
LOSSES = ("values_over_name_limit", "frames_skipped", "frames_malformed", "store_dropped_records", "stream_failures")


def test_eight_ranks_for_a_while_hold_no_more_at_the_end_than_in_the_middle(root: Path) -> None:
    command = [sys.executable, str(root / "benchmarks/soak.py"), "--seconds", str(SECONDS), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS + 400)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found["processes"]) == 10
    for line in found["processes"]:
        print(json.dumps(line), file=sys.stderr)
        assert line["growth_mb"] < MOST_GROWTH_MB[line["process"].partition(" ")[0]], line
        assert line["threads"][1] <= line["threads"][0] + 2, line
        assert line["files"][1] <= line["files"][0] + 6, line
    assert {name: found["health"][name] for name in LOSSES} == dict.fromkeys(LOSSES, 0)
    assert found["health"]["points"] > SECONDS * 8 * 8 * 20
    assert found["page_ended"]
