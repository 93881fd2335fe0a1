"""A machine with eight NVIDIA GPUs: our own driver library, loaded by the real binding in a fresh interpreter."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).with_name("fake_nvml.c")
PRELUDE = """
import json, os, sys, msgspec
from trackside.monitor.samplers.gpu import HostGpus, RankGpu
from trackside.monitor.samplers.nvml import Nvml
from trackside.monitor.samplers.visible import assigned_device, visible_devices
from trackside.monitor.samplers import HostSampler, RankSampler, hardware_parts
def out(value):
    print(json.dumps(msgspec.to_builtins(value)))
"""


class Machine:
    """Runs code on the machine; the code calls `out(value)`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def run(self, code: str, **environ: str) -> Any:
        """Return what the code put out."""
        answer = subprocess.run(
            [sys.executable, "-W", "error", "-c", PRELUDE + code],
            env={**os.environ, "LD_LIBRARY_PATH": str(self._folder), **environ},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert answer.returncode == 0, answer.stderr
        return json.loads(answer.stdout)

    def assigned(self, local_rank: int | None, **environ: str) -> str | None:
        """UUID of the device a rank would be given."""
        return self.run(
            f"d = assigned_device(os.environ, {local_rank}, Nvml().devices); out(d.uuid if d else None)", **environ
        )

    def visible(self, **environ: str) -> list[int] | None:
        """Physical indices of what CUDA would show."""
        return self.run(
            "v = visible_devices(os.environ, Nvml().devices); out(None if v is None else [d.index for d in v])",
            **environ,
        )


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the driver library, for `LD_LIBRARY_PATH`."""
    folder = tmp_path_factory.mktemp("nvml")
    library = folder / "libnvidia-ml.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-Wall", "-Werror", "-o", library, SOURCE], check=True, timeout=60)
    return folder


@pytest.fixture(scope="session")
def machine(driver: Path) -> Machine:
    """The machine."""
    return Machine(driver)
