"""`trackside.log` where nothing was begun."""

import os
import subprocess
import sys

import pytest

SCRIPT = "import trackside; [trackside.log({'loss': 1.0}) for _ in range(3)]; trackside.finish()"


@pytest.mark.parametrize(
    ("environ", "lines"),
    [
        ({}, 1),
        ({"RANK": "9", "LOCAL_RANK": "1", "WORLD_SIZE": "16"}, 0),
        ({"RANK": "1"}, 0),
        ({"TRACKSIDE_DISABLED": "1"}, 0),
    ],
    ids=["a script", "another rank of the host", "a contradiction", "inert"],
)
def test_log_without_init_is_said_once_on_a_host(environ: dict[str, str], lines: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env={**os.environ, **environ}, capture_output=True, text=True, check=True
    )
    said = "  trackside: log() before init(): nothing is kept; call trackside.init() first, or make a Monitor"
    assert (done.stdout, done.stderr.splitlines()) == ("", [said] * lines)
