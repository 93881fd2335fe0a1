"""Files of a run folder may be damaged, or made by somebody else: all that can be read is shown, the rest is said, in words."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
from functools import partial
from pathlib import Path

import msgspec
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.security.hostile import TEXTS
from tests.unit.store.station import Station
from trackside.cli import main
from trackside.controller.viewing import ViewedFolder
from trackside.errors import TracksideError
from trackside.server.built import read_files
from trackside.sinks.report import ReportSink
from trackside.store import RunFolder
from trackside.wire import documents
from trackside.wire.spool import pack_spooled, read_spool

COMMANDS = ("ls", "export", "diagnose")
FILES = (
    "run.json",
    "events.jsonl",
    "epochs.parquet",
    "resources",
    "points",
    "graph.json",
    "graph.svg",
    "heat.json",
    "journal",
)
HARDER = ("cut", "gone", "empty", "noise", "folder", "ring")
VALUES = [None, True, -1, 2**70, 1e308, "x", "\x1b]0;x\x07", [], {}, [[[]]], {"a": {"b": []}}, list(TEXTS.values())]


def make_run(base: Path, *, ended: bool) -> RunFolder:
    """Two segments, a journal when it has not ended, and one of every other file."""
    folder = RunFolder.create(base, "made", 1e9)
    station = Station(folder)
    station.greet(0)
    for step in range(4):
        station.log(0, step, [{"loss": float(step), TEXTS["terminal"]: 1.0}])
        if step % 2:
            station.rotate()
    station.writer.resource(documents.ResourceRecord(time=1.0, path="root/node-a", host="node-a", rank=None))
    station.writer.event(documents.EventRecord(id=1, time=1.0, path="root", kind="user", severity="info", text="said"))
    station.writer.epoch(
        documents.EpochRecord(
            epoch=0,
            seconds=1.0,
            metrics={"loss": 0.5},
            samples=1,
            batches=1,
            throughput=1.0,
            ranks=1,
            complete=True,
            ended_at=1.0,
        )
    )
    station.log(0, 9, [{"loss": 9.0}])
    station.wait_durable()
    assert station.close(clean=ended)
    folder.document.write_bytes(_document(folder, "finished" if ended else "running"))
    folder.heat.write_bytes(
        msgspec.json.encode(
            documents.HeatAnswer(ranks=[0], step=[0], time=[1.0], own=[[1.0]], data=[[1.0]], wall=[[1.0]])
        )
    )
    folder.graph.write_text("null")
    folder.svg.write_text('<svg xmlns="http://www.w3.org/2000/svg"><path d="M0 0"/></svg>')
    return folder


def _document(folder: RunFolder, state: str) -> bytes:
    from tests.browser.made import run_document

    document = msgspec.to_builtins(run_document(state=state, directory=str(folder.path)))
    return msgspec.json.encode(document | {"schema_version": 1, "rank_entries": [], "metrics": []})


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Path]:
    """A run that has ended, and one whose controller was killed."""
    return {ended: make_run(tmp_path_factory.mktemp("made"), ended=ended).path for ended in (True, False)}


def look(folder: Path) -> list[str]:
    """Read everything in every way; return the errors that were told. Anything but our own errors is let through."""
    told = []
    for command in COMMANDS:
        try:
            main([command, str(folder.parent if command == "ls" else folder)])
        except TracksideError as error:  # pragma: no cover - main turns them into a line
            told.append(str(error))
    try:
        view(folder)
    except TracksideError as error:
        told.append(str(error))
    for line in told:
        assert str(folder) in line or "points" in line, line
    return told


def view(folder: Path) -> ViewedFolder:
    """All that the page and the report of `trackside view` ask for."""
    seen = ViewedFolder(folder)
    try:
        for answer in (seen.run(), seen.ranks(), seen.metrics(), seen.epochs(), seen.events(), seen.counters()):
            json.loads(msgspec.json.encode(answer), parse_constant=pytest.fail)
        msgspec.json.encode(
            [seen.resources("root"), seen.heat("root"), seen.graph(), seen.svg(), asyncio.run(seen.last_values())]
        )
        report = asyncio.run(ReportSink(seen.source, read_files(), folder / "r.html", lambda: 1.0).render())
        assert b'id="trackside-data"' in report
    finally:
        seen.source.close()
    return seen


def parts_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.relative_to(folder).parts[0] in FILES)


def spoil(path: Path, how: str, chance: random.Random) -> None:
    content = bytearray(path.read_bytes())
    if how == "gone":
        path.unlink()
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "cut":
        path.write_bytes(content[: chance.randrange(len(content))])
    elif how == "noise":
        path.write_bytes(chance.randbytes(chance.randrange(1, 2000)))
    elif how == "folder":
        path.unlink()
        path.mkdir()
    elif how == "ring":
        path.unlink()
        path.symlink_to(path.name)
    else:
        for _ in range(1 + len(content) // 200):
            content[chance.randrange(len(content))] = chance.randrange(256)
        path.write_bytes(content)


@pytest.mark.parametrize("ended", [True, False], ids=["ended", "killed"])
@pytest.mark.parametrize("how", ["bytes", *(pytest.param(how, marks=pytest.mark.long) for how in HARDER)])
def test_any_file_may_be_damaged(runs: dict[bool, Path], tmp_path: Path, how: str, ended: bool, capsys) -> None:
    chance = random.Random(how)
    for number, part in enumerate(parts_of(runs[ended])):
        folder = tmp_path / str(number) / "run"
        shutil.copytree(runs[ended], folder)
        spoil(folder / part.relative_to(runs[ended]), how, chance)
        told = look(folder)
        assert not told or part.name == "run.json", (part.name, told)
        shutil.rmtree(folder.parent)
    printed = capsys.readouterr()
    assert "\x1b" not in printed.err
    assert "Traceback" not in printed.err


@pytest.mark.long
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32), ended=st.booleans(), how=st.sampled_from(["cut", "bytes", "noise"]))
def test_several_files_may_be_damaged(
    runs: dict[bool, Path], tmp_path_factory: pytest.TempPathFactory, seed: int, ended: bool, how: str
) -> None:
    chance = random.Random(seed)
    folder = tmp_path_factory.mktemp("spoilt") / "run"
    shutil.copytree(runs[ended], folder)
    parts = parts_of(folder)
    for part in chance.sample(parts, chance.randrange(1, len(parts))):
        spoil(part, how, chance)
    look(folder)
    shutil.rmtree(folder.parent)


@pytest.mark.parametrize(
    "file",
    ["run.json", *(pytest.param(f, marks=pytest.mark.long) for f in ("graph.json", "heat.json", "events.jsonl"))],
)
def test_json_that_is_whole_and_says_nonsense(runs: dict[bool, Path], tmp_path: Path, file: str, capsys) -> None:
    """Every field in turn is of every other kind; and a document that is deeper than any parser likes."""
    folder = tmp_path / "run"
    shutil.copytree(runs[True], folder)
    document = json.loads((runs[True] / file).read_text().splitlines()[0])
    fields: list[str] = list(document) if isinstance(document, dict) else []
    for content in [
        *VALUES[:4],
        *({**document, field: VALUES[at % len(VALUES)]} for at, field in enumerate(fields[::3])),
    ]:
        (folder / file).write_text(json.dumps(content))
        look(folder)
    (folder / file).write_text("[" * 200_000)
    look(folder)
    printed = capsys.readouterr()
    assert "\x1b" not in printed.err


def test_what_stands_in_whole_segments_is_shown_and_the_rest_is_said(runs: dict[bool, Path], tmp_path: Path) -> None:
    """The values of a segment are damaged, not its end, which is all that is read when it is opened."""
    folder = tmp_path / "run"
    shutil.copytree(runs[False], folder)
    segment = min((folder / "points").glob("*.parquet"))
    content = bytearray(segment.read_bytes())
    content[4:200] = bytes(196)
    segment.write_bytes(content)
    seen = view(folder)
    assert [warning.text for warning in seen.run().warnings] == [
        f"points/{segment.name} is damaged; what cannot be read of it is missing here"
    ]
    assert seen.counters()["segments_unreadable"] == 1


@pytest.mark.parametrize("format", ["csv", "jsonl", "parquet"])
def test_an_export_holds_what_can_be_read_and_names_what_is_missing(
    runs: dict[bool, Path], tmp_path: Path, format: str, capsys
) -> None:
    """One segment's values are damaged, and another one's end; the others are whole."""
    folder = tmp_path / "run"
    shutil.copytree(runs[False], folder)
    first, second, *whole = sorted((folder / "points").glob("*.parquet"))
    first.write_bytes(first.read_bytes()[:4] + bytes(196) + first.read_bytes()[200:])
    second.write_bytes(second.read_bytes()[:100])
    target = tmp_path / f"points.{format}"
    command = ["export", str(folder), "--format", format, "--output", str(target)]
    assert main(command) == 1
    said = capsys.readouterr().err
    assert f"points/{first.name} is damaged: 4 of its 4 points could not be read and are missing" in said
    assert f"points/{second.name} is damaged: an unknown number of points could not be read and are missing" in said
    rows = {"csv": pd.read_csv, "parquet": pd.read_parquet, "jsonl": partial(pd.read_json, lines=True)}[format](target)
    assert sorted(rows.step) == sorted(step for path in whole for step in pd.read_parquet(path).step)
    assert whole
    assert main([*command, "--json"]) == 1
    assert len(json.loads(capsys.readouterr().out)["missing"]) == 2


@pytest.mark.parametrize("damage", ["cut", "bytes", "noise"])
def test_a_spool_is_read_up_to_its_damage(tmp_path: Path, damage: str) -> None:
    frames = [bytes([n]) * (10 * n + 1) for n in range(12)]
    records = [pack_spooled(frame) for frame in frames]
    path = tmp_path / "a.spool"
    chance = random.Random(damage)
    whole = b"".join(records)
    for at in range(0, len(whole), 7):
        content = bytearray(whole)
        if damage == "cut":
            content = content[:at]
        elif damage == "bytes":
            content[at] ^= 1 + chance.randrange(255)
        else:
            content[at:] = chance.randbytes(40)
        path.write_bytes(content)
        before = sum(1 for n in range(len(records)) if len(b"".join(records[: n + 1])) <= at)
        found = list(read_spool(path))
        assert found[:before] == frames[:before]
        assert all(frame in frames for frame in found)
