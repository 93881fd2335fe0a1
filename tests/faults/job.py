"""One training under a fault: the real script, the real controller, and the three questions that every fault is asked.

Did the training become what it becomes without us? Is everything that was logged there, once, or counted as lost? Do the page
and the report say so?
"""

from __future__ import annotations

import functools
import itertools
import json
import re
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

import msgspec

from tests.faults.link import BadLink
from tests.faults.scripts.train import train_line
from tests.process.job import clean_environment, wait_for
from tests.process.wire_client import ControllerUnderTest
from trackside.wire.address import format_address
from trackside.wire.spool import RING_SUFFIX, memory_path, private_path

TRAIN = Path(__file__).parent / "scripts/train.py"


@functools.cache
def bare_output(steps: int) -> str:
    """What the script prints when nobody watches."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, str(TRAIN), "--bare", "--steps", str(steps), "--hz", "1e6"],
            cwd=folder,
            env=clean_environment(),
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
    assert done.stdout.startswith("weights ")
    return done.stdout


def bare_light_output(steps: int) -> str:
    """The same with `--light`, worked out here."""
    digest = next(digest for _, digest in itertools.islice(train_line(), steps - 1, steps))
    return f"weights {digest} steps {steps}\n"


def _read(stream: IO[str], lines: list[str]) -> None:
    with stream:
        lines.extend(stream)


def _kept_files(directory: Path) -> list[Path]:
    folders = (memory_path(), directory / private_path().name)
    return [path for folder in folders if folder.is_dir() for path in folder.iterdir()]


class WatchedTraining:
    """A controller, a bad link to it, and a training that reports through the link.

    Args:
        directory: Where everything lies.
        hogs: Seconds from the start for which it holds every descriptor that it may have but `spare`.
        steps: How many; None: until `end`, with the light model.
        runs: Folder of the run folders; None: `directory`.
        prefix: Before the controller's command.
        controller_env: For the controller alone.
        env: For the training alone.
    """

    def __init__(
        self,
        directory: Path,
        steps: int | None = None,
        hz: float = 150.0,
        *,
        exits: int = 0,
        stubborn: bool = False,
        hogs: float = 0.0,
        spare: int = 0,
        runs: Path | None = None,
        prefix: tuple[str, ...] = (),
        controller_env: Mapping[str, str] = MappingProxyType({}),
        **env: str,
    ) -> None:
        self.exits, self._steps, self._stop = exits, steps, directory / "stop"
        self.controller = ControllerUnderTest(
            runs or directory, "--port", "0", prefix=prefix, TMPDIR=str(directory), **controller_env
        )
        self.link = BadLink(self.controller.address.port)
        address = msgspec.structs.replace(self.controller.address, hosts=["127.0.0.1"], port=self.link.port)
        length = ["--light", "--until", str(self._stop)] if steps is None else ["--steps", str(steps)]
        self._count = directory / "count"
        self._before = set(_kept_files(directory))
        length += ["--count", str(self._count), *(["--stubborn"] if stubborn else [])]
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-W",
                "error",
                str(TRAIN),
                *length,
                "--hz",
                str(hz),
                "--exit",
                str(exits),
                "--hog",
                str(hogs),
                "--spare",
                str(spare),
            ],
            cwd=directory,
            env=clean_environment(TRACKSIDE_CONTROLLER=format_address(address), TMPDIR=str(directory), **env),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.out: list[str] = []
        self.err: list[str] = []
        self._readers = [
            threading.Thread(target=_read, args=(stream, lines), daemon=True)
            for stream, lines in ((self.process.stdout, self.out), (self.process.stderr, self.err))
        ]
        for reader in self._readers:
            reader.start()

    # --- looking -----------------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The page's address, as the rank was told to print it."""
        return wait_for(lambda: next(iter(re.findall(r"http://[^ ]+", "".join(self.err))), None), 30, "a URL line")

    def get(self, path: str) -> Any:
        """JSON of one address of the page."""
        with urllib.request.urlopen(f"{self.url.rstrip('/')}/{path}", timeout=10) as answer:
            return json.loads(answer.read())

    def document(self) -> dict[str, Any]:
        return json.loads((self.controller.folder / "run.json").read_text())

    def step(self) -> int:
        """The step the controller has heard of."""
        (entry,) = self.get("api/v1/ranks")
        return entry["step"] or 0

    def wait_for_step(self, step: int) -> None:
        wait_for(lambda: self.step() >= step, 120, f"step {step}")

    def events(self) -> list[dict[str, Any]]:
        lines = (self.controller.folder / "events.jsonl").read_text().splitlines()
        return list({event["id"]: event for event in map(json.loads, lines)}.values())

    def points(self) -> list[tuple[int, float]]:
        """(step, loss) as pandas alone reads it."""
        import pandas as pd

        frame = pd.read_parquet(self.controller.folder / "points")
        return sorted(frame[frame.series == "loss"][["step", "value"]].itertuples(index=False, name=None))

    def report(self) -> dict[str, Any]:
        """The data inside the report."""
        text = (self.controller.folder / "report.html").read_text()
        begin = text.index(">", text.index('id="trackside-data"')) + 1
        return json.loads(text[begin : text.index("</script>", begin)])

    # --- the end -----------------------------------------------------------------------------------------------------

    @property
    def steps(self) -> int:
        """How many there were; known at the end."""
        return int("".join(self.out).split()[-1])

    def told(self) -> int:
        """How many calls of log() have returned."""
        return int.from_bytes(self._count.read_bytes()[:8], "little")

    def assert_nothing_lost(self) -> int:
        """After it was killed: every call of log() that had returned is there, once. Returns how many there are."""
        steps = [step for step, _ in self.points()]
        assert steps == list(range(len(steps)))
        assert self.told() <= len(steps) <= self.told() + 1
        return len(steps)

    def assert_nothing_left_behind(self) -> None:
        """No file of its sessions is in the machine's memory, or in the temporary folder."""
        wait_for(lambda: not self._left_behind(), 5, "no file left behind")

    def _left_behind(self) -> list[Path]:
        """Files of this run, and rings whose session has none beside it."""
        files = [path for path in _kept_files(self.controller.directory) if path not in self._before]
        spools = [path for path in files if path.suffix != RING_SUFFIX]
        sessions = {path.name.partition(".")[0].rpartition("-")[0] for path in spools}
        run = self.controller.address.run.encode()
        return [
            *(path for path in spools if path.exists() and run in path.read_bytes()),
            *(path for path in files if path.suffix == RING_SUFFIX and path.stem not in sessions and path.exists()),
        ]

    def end(self, seconds: float = 90) -> str:
        """Let the training end; it must have become what it becomes without us. Returns its stderr."""
        self._stop.touch()
        code = self.process.wait(seconds)
        for reader in self._readers:
            reader.join(10)
        bare = bare_light_output(self.steps) if self._steps is None else bare_output(self._steps)
        assert ("".join(self.out), code) == (bare, self.exits), "".join(self.err)
        return "".join(self.err)

    def settle(self, seconds: float = 60) -> None:
        """Wait for the controller's own end."""
        assert self.controller.wait(seconds) == 0, self.controller.stderr

    def assert_complete(self) -> None:
        """Every step is there exactly once."""
        found = Counter(step for step, _ in self.points())
        missing = [step for step in range(self.steps) if step not in found]
        double = [step for step, count in found.items() if count > 1]
        assert (missing, double) == ([], [])

    def close(self) -> None:
        """Idempotent."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(20)
        for reader in self._readers:
            reader.join(10)
        self.link.close()
        self.controller.close()
