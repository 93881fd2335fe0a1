"""A run that was killed, and then damaged: `trackside recover` ends it with all that is whole, or says in words why it cannot."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import zmq

from tests.process.job import clean_environment
from tests.process.wire_client import ControllerUnderTest, WireRank, points, pump_until
from tests.security.test_damaged_files import parts_of, spoil

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder whose controller was killed after two segments and some more."""
    base = tmp_path_factory.mktemp("killed")
    controller = ControllerUnderTest(base)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    rank = WireRank(context, controller.address, 0, pid=2**22 + 1)
    rank.hello()
    pump_until([rank], lambda: rank.welcome)
    for step in range(20):
        rank.send(points([{0: float(step)}], step=step, names={0: "loss"} if step == 0 else None))
    pump_until([rank], lambda: rank.acknowledged == rank.seq)
    controller.kill()
    rank.close()
    context.destroy(linger=0)
    controller.close()
    return controller.folder


@pytest.mark.parametrize("how", ["bytes", "cut", "empty", "noise", "gone"])
def test_what_is_whole_is_recovered_and_the_rest_is_said(killed: Path, tmp_path: Path, how: str) -> None:
    chance = random.Random(how)
    private = [path for path in killed.rglob("*") if path.is_file() and path not in parts_of(killed)]
    for number, part in enumerate([*parts_of(killed), *private]):
        folder = tmp_path / str(number)
        shutil.copytree(killed, folder)
        spoil(folder / part.relative_to(killed), how, chance)
        command = [sys.executable, "-m", "trackside", "recover", str(folder), "--force"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=clean_environment())
        assert "Traceback" not in done.stderr, (part.name, done.stderr)
        if done.returncode:
            assert str(folder) in done.stderr, (part.name, done.stderr)
        else:
            assert (folder / "report.html").exists(), part.name
        shutil.rmtree(folder)
