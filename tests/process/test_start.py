"""What the processes of a run load: nothing that they have no use for."""

import ctypes
import json
import subprocess
import sys

import pytest

from tests.process.job import clean_environment

pytestmark = pytest.mark.usefixtures("leak_check")

RANK = "import trackside\nwith trackside.Monitor() as mon:\n    mon.log({'loss': 1.0})\n"


def imported(stderr: str) -> set[str]:
    return {line.rpartition("|")[2].strip() for line in stderr.splitlines() if line.startswith("import time:")}


def test_a_controller_writes_its_files_without_pandas(scratch) -> None:
    """DuckDB would import it, and PyArrow, for the first parameter: 0.3 s and 70 MB of each run."""
    env = clean_environment()
    command = [sys.executable, "-X", "importtime", "-m", "trackside", "controller", "--parent-pid", "0"]
    with (
        (scratch / "said").open("w+") as said,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True, env=env, cwd=scratch) as controller,
    ):
        address = json.loads(controller.stdout.readline())["address"]
        subprocess.run(
            [sys.executable, "-c", RANK],
            env=env | {"TRACKSIDE_CONTROLLER": address},
            cwd=scratch,
            check=True,
            timeout=60,
        )
        assert controller.wait(60) == 0
        said.seek(0)
        found = imported(said.read())
    assert {"duckdb", "numpy"} <= found
    assert not [name for name in found if name.startswith(("pandas.", "pyarrow."))], "asked for, and not found"
    (folder,) = (scratch / "runs").iterdir()
    assert list(folder.glob("points/*.parquet"))


def test_a_rank_without_a_driver_does_not_load_its_binding(scratch) -> None:
    code = (
        "import sys\nfrom trackside.monitor.samplers.nvml import Nvml\nassert Nvml().devices == []\n"
        "print('pynvml' in sys.modules)"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        assert answer.stdout == "False\n"
