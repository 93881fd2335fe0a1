"""One training under a fault: the real script, the real controller, and the three questions that every fault is asked.

Did the training become what it becomes without us? Is everything that was logged there, once, or counted as lost? Do the page
and the report say so?
"""

from __future__ import annotations

import functools
import itertools
import json
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

import msgspec

from tests.faults.link import BadLink
from tests.faults.outcomes import Shown, show
from tests.faults.page import OpenPage
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
            timeout=300,
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


def report_of(path: Path) -> dict[str, Any]:
    """The data inside a report."""
    text = path.read_text()
    begin = text.index(">", text.index('id="trackside-data"')) + 1
    data: dict[str, Any] = json.loads(text[begin : text.index("</script>", begin)])
    return data


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
        self._page: OpenPage | None = None
        self._became: tuple[object, object] = ("not ended", "ended")
        """Output and exit code, and what they are without us."""

    # --- looking -----------------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The page's address, as the rank was told to print it."""
        return wait_for(lambda: next(iter(re.findall(r"http://[^ ]+", "".join(self.err))), None), 30, "a URL line")

    def get(self, path: str) -> Any:
        """JSON of one address of the page."""
        with urllib.request.urlopen(f"{self.url.rstrip('/')}/{path}", timeout=10) as answer:
            return json.loads(answer.read())

    @property
    def page(self) -> OpenPage:
        """One that is open from the first look at it to the end."""
        if self._page is None:
            self._page = OpenPage(f"{self.url.rstrip('/')}/")
        return self._page

    def document(self) -> dict[str, Any]:
        return json.loads((self.controller.folder / "run.json").read_text())

    def step(self) -> int:
        """The step the controller has heard of."""
        entry: dict[str, Any] = next(iter(self.get("api/v1/ranks")))
        return entry["step"] or 0

    def wait_for_step(self, step: int) -> None:
        """A page is open from now on."""
        wait_for(lambda: self.page, 120, "the page")
        wait_for(lambda: self.step() >= step, 120, f"step {step}")

    def moves_on(self, steps: int = 30) -> bool:
        """Wait for that many more steps on the page."""
        (at,) = wait_for(lambda: [self.step()], 60, "the page")
        return wait_for(lambda: self.step() > at + steps, 60, "news on the page")

    def stalls(self, reason: str) -> Shown:
        """The page says that nothing is persisted, since when and why, and goes on."""
        run = wait_for(
            lambda: next(iter([run for run in [self.get("api/v1/run")] if run["not_persisted_since"]]), None),
            60,
            "the page says that nothing is persisted",
        )
        said = [warning["text"] for warning in run["warnings"] if warning["kind"] == "disk"]
        stated = [reason in text for text in said], 0 < run["not_persisted_since"] <= time.time(), self.moves_on()
        return show(f"live; not persisted since when, and why: {reason}", stated, ([True], True, True))

    def persists_again(self) -> None:
        """The page says so."""
        wait_for(lambda: self.get("api/v1/run")["not_persisted_since"] is None, 60, "it persists again, on the page")

    def undelivered(self) -> list[Path]:
        """Files that were named at its end, for what was not delivered."""
        (said,) = re.findall(r"they lie in (.+)", "".join(self.err))
        named = [Path(text.strip()) for text in said.split(" and ")]
        return [path for pattern in named for path in pattern.parent.glob(pattern.name.replace("…", "*"))]

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
        return report_of(self.controller.folder / "report.html")

    # --- the end -----------------------------------------------------------------------------------------------------

    @property
    def steps(self) -> int:
        """How many there were; known at the end."""
        return int("".join(self.out).split()[-1])

    def told(self) -> int:
        """How many calls of log() have returned."""
        return int.from_bytes(self._count.read_bytes()[:8], "little")

    def lost_nothing(self, words: str = "all that it logged, each once") -> Shown:
        """After it was killed: every call of log() that had returned is there, once; one more may have been under way."""
        steps = [step for step, _ in self.points()]
        assert self.told() <= len(steps) <= self.told() + 1
        return show(words, steps, list(range(len(steps))))

    def assert_last_step_is_told(self) -> None:
        """Where it is said that the rank failed, the last step is the last one of the points."""
        (failed,) = (event for event in self.events() if event["kind"] == "rank failed")
        last = max(step for step, _ in self.points())
        assert (failed["step"], f"last step {last:,}" in failed["text"]) == (last, True), (failed, last)
        (entry,) = self.document()["rank_entries"]
        assert (entry["step"], self.document()["step"]) == (last, last)

    def assert_nothing_left_behind(self) -> None:
        """No file of its sessions is in the machine's memory, or in the temporary folder."""
        wait_for(lambda: not self._left_behind(), 15, "no file left behind")

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
        self._became = ("".join(self.out), code), (bare, self.exits)
        assert self._became[0] == self._became[1], "".join(self.err)
        return "".join(self.err)

    def same(self, words: str = "same") -> Shown:
        """It has ended, and become what it becomes without us."""
        return show(words, *self._became)

    def killed(self, number: int = signal.SIGKILL, words: str = "killed, as without us") -> Shown:
        """A signal has ended it, and it printed nothing."""
        code = self.process.wait(60)
        for reader in self._readers:
            reader.join(10)
        return show(words, (code, "".join(self.out)), (-number, ""))

    def settle(self, seconds: float = 180) -> None:
        """Wait for the controller's own end."""
        assert self.controller.wait(seconds) == 0, self.controller.stderr

    def complete(self, words: str = "all, each once") -> Shown:
        """Every step is there exactly once."""
        found = Counter(step for step, _ in self.points())
        missing = [step for step in range(self.steps) if step not in found]
        double = [step for step, count in found.items() if count > 1]
        return show(words, (missing, double), ([], []))

    def page_ended(self, state: str = "finished", words: str | None = None) -> Shown:
        """The page that was open was told how the run ended, as the run folder says it."""
        detail = self.document()["state_detail"]
        return show(words or detail or state, self.page.ending(), (state, detail))

    def page_is_gone(self) -> Shown:
        """Nothing answers at its address."""
        try:
            self.get("healthz")
        except urllib.error.URLError as error:
            reason = type(error.reason)
        return show("gone", reason, ConnectionRefusedError)

    def reported(self, state: str = "finished", words: str | None = None) -> Shown:
        """The report says how the run ended, as the run folder does, and holds every point of it."""
        report = self.report()
        run, metric = report["run"], next(metric for metric in report["metrics"] if metric["name"] == "loss")
        said = (run["state"], run["state_detail"], metric["points"])
        return show(
            words or f"{state}, with all points", said, (state, self.document()["state_detail"], len(self.points()))
        )

    def close(self) -> None:
        """Idempotent."""
        if self._page is not None:
            self._page.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(20)
        for reader in self._readers:
            reader.join(10)
        self.link.close()
        self.controller.close()
