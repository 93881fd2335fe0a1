"""Odd names and odd numbers from `log()` through everything that a run leaves, in a process that speaks ASCII only."""

import csv
import io
import json
import math
import re
import struct
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.process.job import SCRIPTS, TRACKSIDE, Job, clean_environment, wait_for
from tests.process.scripts.odd_values import NAMES, STEPS, UNSENDABLE, VALUES

ASCII_ONLY = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONWARNINGS": "ignore"}
SENT = [*NAMES, *UNSENDABLE.values()]
POINTS = (len(VALUES) + 1) * len(SENT) + len(STEPS) + 2


class OddRun:
    """The job's answers while it ran, and what it left."""

    def __init__(self, job: Job, directory: Path) -> None:
        self.directory = directory
        self.url = job.url(30)
        wait_for(lambda: sum(m["points"] for m in self.get("api/v1/metrics")) == POINTS, 20, "every point")
        wait_for(lambda: self.get("api/v1/epochs"), 10, "the epoch")
        self.metrics, self.epochs = self.get("api/v1/metrics"), self.get("api/v1/epochs")
        self.ranks, self.events = self.get("api/v1/ranks"), self.get("api/v1/events")
        self.series = {name: self.one(name) for name in [*SENT, "odd step"]}
        self.prometheus = self.text("metrics")
        self.run = self.get("api/v1/run")
        (directory / "go").touch()
        self.code = job.wait()
        wait_for_end(job)
        self.job = job

    def text(self, path: str) -> str:
        with urllib.request.urlopen(f"{self.url}/{path}", timeout=20) as answer:
            return str(answer.read().decode())

    def get(self, path: str) -> Any:
        return json.loads(self.text(path), parse_constant=pytest.fail)

    def one(self, name: str) -> Any:
        return self.get("api/v1/series?" + urllib.parse.urlencode({"metric": name}))


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OddRun]:
    directory = tmp_path_factory.mktemp("größe")
    job = Job([sys.executable, str(SCRIPTS / "odd.py")], directory, **ASCII_ONLY)
    try:
        yield OddRun(job, directory)
    finally:
        job.close()


def wait_for_end(job: Job) -> None:
    """Until the controller, which outlives the script a little, has left its folder in order."""
    folder = job.folder()
    wait_for(lambda: (folder / "report.html").exists() and not (folder / "journal").exists(), 60, "the folder in order")


def bits(values: list[float]) -> list[bytes]:
    """To the last bit; every NaN is a NaN."""
    return [b"nan" if math.isnan(value) else struct.pack("d", value) for value in values]


def real(value: float | str) -> float:
    return float(value.replace("Infinity", "inf")) if isinstance(value, str) else float(value)


def logged(series: Any) -> list[float]:
    """The values of the steps that were logged with `VALUES`."""
    return [real(value) for x, value in zip(series["x"], series["mean"], strict=True) if x < len(VALUES)]


def export(odd: OddRun, format: str) -> str:
    command = [*TRACKSIDE, "export", str(odd.job.folder()), "--format", format]
    done = subprocess.run(command, capture_output=True, timeout=60, env=clean_environment(**ASCII_ONLY))
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def test_d65_d66_no_name_and_no_number_ends_a_training(odd: OddRun) -> None:
    assert (odd.code, odd.job.stdout) == (0, "done\n"), odd.job.stderr
    assert {metric["name"] for metric in odd.metrics} == {*SENT, "odd step", "bad", "worse"}


def test_d47_d60_values_come_back_to_the_last_bit_from_every_answer(odd: OddRun) -> None:
    for name in SENT:
        assert bits(logged(odd.series[name])) == bits(VALUES), name
    assert odd.series["odd step"]["x"] == STEPS


def test_d60_values_come_back_to_the_last_bit_from_parquet_csv_and_json_lines(odd: OddRun) -> None:
    points = odd.job.points()
    assert len(points) == POINTS
    rows = [json.loads(line, parse_constant=pytest.fail) for line in export(odd, "jsonl").splitlines()]
    table = list(csv.DictReader(io.StringIO(export(odd, "csv"), newline="")))
    assert len(rows) == len(table) == POINTS
    for name in SENT:
        cell = f"'{name}" if name.startswith(("=", "+", "-", "@", "\t", "\r")) else name
        own = points[(points.series == name) & (points.step < len(VALUES))].sort_values("step")
        found = [
            own.value.tolist(),
            [real(row["value"]) for row in rows if row["series"] == name and row["step"] < len(VALUES)],
            [real(row["value"]) for row in table if row["series"] == cell and int(row["step"]) < len(VALUES)],
        ]
        assert [bits(values) for values in found] == [bits(VALUES)] * 3, name


def test_d61_what_is_not_finite_is_marked_counted_and_said(odd: OddRun) -> None:
    for name in NAMES:
        assert odd.series[name]["non_finite"] == [[6, "NaN"], [7, "Infinity"], [8, "-Infinity"]], name
    assert odd.ranks[0]["non_finite"] == 3 * len(SENT) + 2
    assert {metric["name"]: metric["non_finite"] for metric in odd.metrics}["loss"] == 3
    assert any(event["text"].startswith("loss is NaN at step 6") for event in odd.events)


def test_d59_d64_no_document_holds_what_json_does_not_know(odd: OddRun) -> None:
    folder = odd.job.folder()
    document = json.loads((folder / "run.json").read_text("utf-8"), parse_constant=pytest.fail)
    for line in (folder / "events.jsonl").read_text("utf-8").splitlines():
        json.loads(line, parse_constant=pytest.fail)
    assert (document["name"], document["metadata"]["größe 🦊"]) == ("größe 🦊", "?")
    (epoch,) = odd.epochs
    assert (epoch["metrics"]["bad"], epoch["metrics"]["worse"]) == ("NaN", "Infinity")
    assert {name: epoch["metrics"][name] for name in SENT} == dict.fromkeys(SENT, 0.1)


def test_d67_d82_names_travel_in_queries_and_become_no_path(odd: OddRun) -> None:
    assert {name: answer["metric"] for name, answer in odd.series.items()} == {name: name for name in odd.series}
    outside = [path for path in odd.directory.rglob("*") if "passwd" in path.name]
    assert outside == []


def test_prometheus_escapes_every_name(odd: OddRun) -> None:
    found = set()
    for line in odd.prometheus.split("\n"):
        if line.startswith("trackside_metric{"):
            label = re.fullmatch(r'trackside_metric\{.*,name="((?:[^"\\\n]|\\[\\n"])*)"\} \S+', line)
            assert label, line[:200]
            found.add(re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], label[1]))
    assert found == {*SENT, "odd step", "bad", "worse"}


def test_d69_every_file_is_utf8_whatever_the_locale(odd: OddRun) -> None:
    folder = odd.job.folder()
    for path in (folder / "run.json", folder / "events.jsonl", folder / "report.html", odd.directory / "epochs.log"):
        assert "größe" in path.read_bytes().decode("utf-8"), path
    with (odd.directory / "epochs.csv").open(encoding="utf-8", newline="") as file:
        header, row = csv.reader(file)
    assert len(header) == len(row) == 2 + len(SENT) + 3 + 5
    assert header[:3] == ["epoch", "duration_s", "loss"]
    cells = dict(zip(header, row, strict=True))
    assert (cells["größe 🦊"], cells["a\rb"], cells["bad"], cells["worse"]) == ("0.1", "0.1", "nan", "inf")
    epochs = pd.read_parquet(folder / "epochs.parquet")
    assert "größe 🦊" in str(epochs.to_dict("records"))


def test_d69_commands_print_utf8_whatever_the_locale(odd: OddRun) -> None:
    for options in ((), ("--json",)):
        command = [*TRACKSIDE, "ls", str(odd.job.runs), *options]
        done = subprocess.run(command, capture_output=True, timeout=60, env=clean_environment(**ASCII_ONLY))
        assert (done.returncode, "größe 🦊" in done.stdout.decode("utf-8")) == (0, True), done.stderr


def test_d46_odd_arguments_are_said_once_and_end_nothing(tmp_path: Path) -> None:
    """A step, epoch, duration or count that cannot be: the call is refused by name, all that follows arrives."""
    script = tmp_path / "train.py"
    script.write_text(
        "import math, trackside\n"
        "mon = trackside.Monitor(epochs=3)\n"
        "for step in (2**70, 'x', None, 1.5, object()): mon.log({'loss': 1.0}, step=step)\n"
        "for epoch in (2**70, 'x', None): mon.log_epoch(epoch, {'acc': 1.0})\n"
        "for seconds in (math.nan, math.inf, -1, 'x'): mon.log_epoch(0, {'acc': 1.0}, seconds=seconds)\n"
        "for samples in (-1, 1.5, 'x'): mon.log_epoch(1, {'acc': 1.0}, samples=samples)\n"
        "with mon.epoch(2**70): pass\n"
        "mon.log_epoch(-3, {'acc': 0.5}, seconds=1.5, samples=5)\n"
        "mon.log({'last': 1.0}, step=-5)\n"
        "mon.finish()\n"
    )
    job = Job([sys.executable, str(script)], tmp_path)
    try:
        assert job.wait() == 0, job.stderr
        wait_for_end(job)
        frame, document = job.points(), job.document()
        assert frame[frame.series == "last"].step.tolist() == [-5]
        assert frame[frame.series == "loss"].step.tolist() == [0]
        refused = [line for line in job.stderr.splitlines() if line.startswith("  trackside: ")]
        assert [line.split(" was not taken")[0] for line in refused] == [
            "  trackside: log()",
            "  trackside: 'seconds'",
            "  trackside: 'samples'",
        ]
        assert document["state"] == "finished"
        assert "monitor fault" not in job.stderr
        epochs = pd.read_parquet(job.folder() / "epochs.parquet")
        assert sorted(epochs.epoch.tolist()) == [-3, 0, 1]
    finally:
        job.close()
