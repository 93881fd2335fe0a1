"""One rank knows no measure; seven others log ten times a second and notice nothing."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.browser.fleet import Fleet
from tests.process.job import wait_for
from tests.process.scripts.flood import KINDS
from tests.process.stream import Stream
from trackside.wire.address import format_address

FLOOD = Path(__file__).parent / "scripts" / "flood.py"
CALM = 7
MOST_BYTES = 1.2e9
"""Of the controller, whatever floods it."""


class Shore:
    """A controller with seven calm ranks, one page that looks at all and one that looks at a rank."""

    def __init__(self, directory: Path) -> None:
        self.fleet = Fleet(directory, ("node-a",) * CALM, world_size=CALM + 1)
        self.process = psutil.Process(self.fleet.controller.process.pid)
        self.step = 0
        self.log()
        wait_for(lambda: len(self.fleet.read("api/v1/ranks")) >= CALM, 30, "the calm ranks")
        self.page = Stream(self.fleet.url)
        self.own = Stream(self.fleet.url, "root/node-a/rank3")
        self.peak_bytes = 0

    def log(self) -> None:
        """One value of every calm rank."""
        self.fleet.log({"calm": [float(self.step)]}, step=self.step)
        self.step += 1

    def is_seen(self, step: int) -> bool:
        """Whether both pages show a step of all calm ranks."""
        self.peak_bytes = max(self.peak_bytes, self.process.memory_info().rss)
        return step in self.own.curve("calm") and counts(self.page).get(step) == CALM

    def stays_live(self, what: str) -> None:
        """A value that is logged now is on both pages within moments."""
        self.log()
        wait_for(lambda: self.is_seen(self.step - 1), 20, f"step {self.step - 1} on the pages, {what}")

    def flood(self, kind: str, seconds: float) -> dict[str, Any]:
        """Let the eighth rank flood while the others go on; returns what it says at its end."""
        command = [sys.executable, str(FLOOD), format_address(self.fleet.controller.address), kind, str(seconds)]
        return dict(json.loads(self.outlast(command, kind)))

    def outlast(self, command: list[str], what: str) -> str:
        """Stay live as long as a command runs, and return what it printed."""
        running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert running.stdout is not None
        try:
            while running.poll() is None:
                self.stays_live(f"while {what}")
                time.sleep(0.1)
            assert running.returncode == 0
            said = running.stdout.read()
        finally:
            running.kill()
            running.wait()
            running.stdout.close()
        self.stays_live(f"after {what}")
        return said

    def counters(self) -> dict[str, int]:
        return dict(self.fleet.read("healthz")["counters"])

    def warnings(self) -> dict[str, str]:
        """What the page warns of, by kind."""
        return {warning["kind"]: warning["text"] for warning in self.fleet.read("api/v1/run")["warnings"]}

    def events(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.fleet.read("api/v1/events") if event["kind"] == kind]

    def close(self) -> None:
        self.page.close()
        self.own.close()
        self.fleet.close()


def counts(stream: Stream) -> dict[int, int]:
    """How many ranks' values the stream has shown of each step."""
    best: dict[int, int] = {}
    for name, data in list(stream.events):
        update = data["metrics"].get("calm") if name == "points" else None
        for step, count in zip(update["step"], update["count"], strict=True) if update else []:
            best[step] = max(best.get(step, 0), count)
    return best


@pytest.fixture(scope="module")
def shore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shore]:
    """One controller for all floods: what one leaves behind is the next one's trouble."""
    made = Shore(tmp_path_factory.mktemp("shore"))
    yield made
    made.close()


SAID = {
    "names": ("values left out", "put what changes into the step, not the name"),
    "long_names": ("values left out", "put what changes into the step, not the name"),
    "metadata": ("metadata refused", "it may have 1,048,576"),
    "wide_epochs": ("epoch values left out", "put what changes into the epoch, not the name"),
    "events": ("events left out", "events were only counted: there were more than 100 within 10 s"),
    "notices": ("events left out", "events were only counted: there were more than 100 within 10 s"),
    "noise": ("messages left out", "could not be read and were left out"),
}
"""The event that says what was limited, and words of it."""
COUNTED = {
    "names": ("values_over_name_limit", 10_000),
    "long_names": ("values_over_name_limit", 100),
    "noise": ("frames_malformed", 1000),
}


QUICK = ("values", "names", "metadata", "wide_epochs", "events", "sessions")


@pytest.mark.parametrize("kind", QUICK)
def test_one_flood_the_others_do_not_notice(shore: Shore, kind: str) -> None:
    flood_and_look(shore, kind, 0.7)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_ten_seconds_of_flood_the_others_do_not_notice(shore: Shore, kind: str) -> None:
    flood_and_look(shore, kind, 10.0)


def flood_and_look(shore: Shore, kind: str, seconds: float) -> None:
    """One flood, and whether all is well and everything that was limited is said."""
    before = shore.counters()
    said = shore.flood(kind, seconds)
    assert said["acknowledged"], said
    assert shore.peak_bytes < MOST_BYTES, f"{shore.peak_bytes / 1e6:.0f} MB"
    if kind in SAID:
        event, words = SAID[kind]
        found = wait_for(lambda: shore.events(event), 10, f"the event {event!r}")
        assert words in found[-1]["text"]
        if event != "metadata refused":
            assert event in shore.warnings(), "a warning as long as it lasts"
    if kind in COUNTED:
        counter, least = COUNTED[kind]
        assert shore.counters()[counter] - before[counter] >= least
    print(f"{kind}: {said}, {shore.peak_bytes / 1e6:.0f} MB")


def test_after_all_floods_everything_works_and_nothing_of_the_calm_is_missing(shore: Shore) -> None:
    shore.stays_live("after all floods")
    answer = shore.fleet.read("api/v1/series?metric=calm&points=10000")
    assert (answer["total_points"], set(answer["count"])) == (CALM * shore.step, {CALM})
    assert answer["x"] == list(range(shore.step)) == answer["min"]
    for document in ("run", "ranks", "metrics", "epochs", "events", "resources", "tree", "heat"):
        shore.fleet.read(f"api/v1/{document}")
    metrics = shore.fleet.read("api/v1/metrics")
    assert len(metrics) <= 10_000
    assert sum(len(metric["name"]) for metric in metrics) <= 2_097_152
    assert {entry["state"] for entry in shore.fleet.read("api/v1/ranks") if entry["rank"] < CALM} == {"alive"}
