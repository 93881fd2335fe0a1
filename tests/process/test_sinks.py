"""Sinks of others in a real controller: installed like any distribution, and as bad as can be."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.process.conftest import Wire
from tests.process.wire_client import points, pump_until
from trackside.wire import messages

pytestmark = pytest.mark.usefixtures("leak_check")

SINKS = """
import json, os, time
from trackside.sinks.quiet import QuietSink

class Raising:
    def __init__(self, source):
        pass
    def __getattr__(self, name):
        raise RuntimeError(f"out of paint in {name}")

class Blocking(QuietSink):
    def push_window(self, batch):
        time.sleep(3600)

class Noting(QuietSink):
    def __init__(self, source):
        self.source, self.values, self.events = source, 0, []
    def push_window(self, batch):
        self.values += len(batch)
    def push_event(self, record, is_new):
        self.events.append(record.text)
    async def shut_down(self):
        with open(os.environ["NOTES"], "w") as file:
            json.dump({"values": self.values, "events": self.events, "state": self.source.run().state}, file)

def broken(source):
    raise ImportError("no such paint")
"""


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """The environment of a controller beside which the sinks are installed."""
    site = tmp_path / "site"
    folder = site / "paint-1.0.dist-info"
    folder.mkdir(parents=True)
    (site / "paint.py").write_text(SINKS)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: paint\nVersion: 1.0\n")
    entries = {"raising": "Raising", "blocking": "Blocking", "noting": "Noting", "broken": "broken"}
    lines = [f"{name} = paint:{made if made != 'Blocking' else 'make_blocking'}" for name, made in entries.items()]
    (site / "paint.py").write_text(SINKS + "\ndef make_blocking(source):\n    return Blocking()\n")
    (folder / "entry_points.txt").write_text("[trackside.sinks]\n" + "\n".join(lines) + "\n")
    path = os.pathsep.join(part for part in (str(site), os.environ.get("PYTHONPATH", "")) if part)
    return {"PYTHONPATH": path, "NOTES": str(tmp_path / "notes")}


def test_b27_sinks_that_raise_or_block_harm_nobody_and_are_named(
    wire: Wire, installed: dict[str, str], tmp_path: Path
) -> None:
    controller = wire.controller(**installed)
    rank = wire.rank(controller)
    url = wire.page(rank)
    names = {0: "loss"}
    for step in range(300):
        rank.send(points([{0: float(step)}], step=step, names=names if step == 0 else None))
        rank.pump()
    pump_until([rank], lambda: rank.acknowledged == rank.seq, what="everything acknowledged")

    def failures() -> dict[str, dict[str, Any]]:
        found = [e for e in json.loads(_read(url, "api/v1/events")) if e["kind"] == "sink failed"]
        return {event["text"].split()[2]: event for event in found}

    pump_until([rank], lambda: {"raising", "broken"} <= set(failures()), what="both that raise are named")
    assert "out of paint" in failures()["raising"]["text"]
    assert failures()["raising"]["count"] == 1
    assert "no such paint" in failures()["broken"]["text"]
    assert json.loads(_read(url, "api/v1/series?metric=loss&points=1000"))["x"] == list(range(300))
    counters = json.loads(_read(url, "healthz"))["counters"]
    assert counters["failed_calls_of_raising"] > 1
    assert (counters["failed_calls_of_noting"], counters["dropped_calls_of_noting"]) == (0, 0)
    rank.send(messages.Goodbye(time=time.time()))
    pump_until([rank], lambda: rank.acknowledged == rank.seq)
    assert controller.wait(60) == 0
    document = json.loads((controller.folder / "run.json").read_text())
    assert document["state"] == "finished"
    assert (controller.folder / "report.html").is_file()
    notes = json.loads((tmp_path / "notes").read_text())
    assert (notes["values"], notes["state"]) == (300, "finished")
    assert "finished" in notes["events"]
    lines = (controller.folder / "events.jsonl").read_text().splitlines()
    assert any("the sink blocking failed: it did not end within 5 s" in json.loads(line)["text"] for line in lines)


def _read(url: str, path: str) -> bytes:
    import urllib.request

    with urllib.request.urlopen(url + path, timeout=10) as answer:
        content: bytes = answer.read()
    return content
