import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pandas as pd
import pytest

from tests.unit.run.play import graph
from tests.unit.store.station import Station, wait_until
from tests.unit.store.test_writer import epoch, event
from trackside.errors import RunFolderError
from trackside.sinks.protocol import RunSource
from trackside.store import FolderSource, RunFolder, list_runs, plan_baked
from trackside.store.lock import FILE
from trackside.wire.documents import MetricEntry, RankCounts, RankEntry, ResourceRecord, RunDocument
from trackside.wire.machine import machine_id


def run_document(state: str = "finished") -> RunDocument:
    return RunDocument(
        id="r1",
        name="train",
        state=state,
        state_detail=None,
        started_at=1000.0,
        ended_at=None,
        elapsed_seconds=3.0,
        epoch=None,
        epochs=None,
        step=4,
        steps=None,
        eta_seconds=None,
        world_size=2,
        generation=0,
        ranks=RankCounts(),
        hosts=["node-a"],
        label=None,
        hash=None,
        hardware=None,
        metadata=None,
        warnings=[],
        version="1",
    )


def rank_entry(rank: int, path: str | None = None) -> RankEntry:
    unknown = dict.fromkeys(RankEntry.__struct_fields__[:21])
    known = {"rank": rank, "path": path or f"root/node-a/rank{rank}", "label": "", "generation": 0, "state": "finished"}
    return RankEntry(**{**unknown, **known, "host": "node-a"})


def write_document(folder: RunFolder, state: str = "finished", metrics: tuple[str, ...] = ("loss",)) -> None:
    document = msgspec.to_builtins(run_document(state)) | {
        "schema_version": 1,
        "rank_entries": msgspec.to_builtins([rank_entry(0), rank_entry(1)]),
        "metrics": msgspec.to_builtins([MetricEntry(name=name, unit="nats", reduction="max") for name in metrics]),
    }
    folder.write_whole(folder.document, msgspec.json.encode(document))


def fill(folder: RunFolder) -> Station:
    station = Station(folder)
    for rank in (0, 1):
        station.greet(rank)
        station.log(rank, 0, [{"loss": step + rank, "b": 1.0} for step in range(4)])
    station.writer.event(event(1, "a"))
    station.writer.epoch(epoch(0, 0.5))
    for rank in (0, 1):
        path = f"root/node-a/rank{rank}"
        station.writer.resource(ResourceRecord(time=1.0, path=path, host="node-a", rank=rank, cpu=0.5))
    station.wait_durable()
    return station


async def ask(source: FolderSource, path: str = "root"):
    return await source.series("loss", path, "step", None, None, 100)


def test_a_finished_run_is_all_there(folder: RunFolder) -> None:
    station = fill(folder)
    write_document(folder)
    assert station.close()
    folder.graph.write_bytes(msgspec.json.encode(graph("net", recorded=True)))
    folder.svg.write_text("<svg/>")
    source = FolderSource(folder.path)
    protocol: RunSource = source
    assert protocol.run() == run_document()
    assert [entry.rank for entry in source.ranks()] == [0, 1]
    assert [(entry.name, entry.reduction) for entry in source.metrics()] == [("loss", "max")]
    assert source.epochs() == [epoch(0, 0.5)]
    assert source.events() == [event(1, "a")]
    assert [record.rank for record in source.resources("root")] == [0, 1]
    assert [record.rank for record in source.resources("root/node-a/rank1")] == [1]
    assert source.resources("root/node-a/rank11") == []
    assert (source.graph(), source.svg()) == (graph("net", recorded=True), "<svg/>")
    assert asyncio.run(source.last_values()) == [
        ("b", 0, "node-a", 1.0),
        ("b", 1, "node-a", 1.0),
        ("loss", 0, "node-a", 3.0),
        ("loss", 1, "node-a", 4.0),
    ]
    assert source.counters() == {"points": 16, "journal_damaged": 0, "segments_unreadable": 0}
    answer = asyncio.run(ask(source))
    assert (answer.x, answer.mean, answer.count) == ([0, 1, 2, 3], [1.0, 2.0, 3.0, 4.0], [2] * 4)
    assert asyncio.run(ask(source, "root/node-a/rank0")).mean == [0.0, 1.0, 2.0, 3.0]
    assert [series.path for series in asyncio.run(source.baked_series(100))] == [
        "root",
        "root/node-a/rank0",
        "root/node-a/rank1",
    ]
    with pytest.raises(KeyError, match="nothing"):
        asyncio.run(source.series("nothing", "root", "step", None, None, 100))
    with pytest.raises(KeyError, match="root/node-b"):
        asyncio.run(ask(source, "root/node-b"))
    source.close()
    source.close()


def test_a_run_whose_controller_was_killed_here_says_so(folder: RunFolder) -> None:
    station = fill(folder)
    try:
        source = FolderSource(folder.path)
        assert source.run().warnings == []
        source.close()
        ended = subprocess.Popen([sys.executable, "-c", ""])
        ended.wait()
        (folder.path / FILE).write_text(json.dumps({"pid": ended.pid, "host": "here", "machine": machine_id()}))
        if not folder.document.exists():
            folder.document.write_text("{}")
        os.utime(folder.document, (1.0, 1.0))
        source = FolderSource(folder.path)
        (warning,) = source.run().warnings
        assert (warning.kind, warning.severity) == ("controller gone", "critical")
        assert f"`trackside recover {folder.path}` ends the run" in warning.text
        source.close()
    finally:
        station.close(clean=False)


def test_a_killed_run_is_all_there_without_its_document(folder: RunFolder, tmp_path: Path) -> None:
    """Killed before the first run.json: everything is known from the journal."""
    station = fill(folder)
    copy = RunFolder(shutil.copytree(folder.path, tmp_path / "copy"))
    station.close(clean=False)
    source = FolderSource(copy.path)
    assert (source.run().state, source.run().name) == ("waiting", "copy")
    assert source.run().state_detail == "the run folder is not closed: its controller is still running, or was killed"
    assert [(entry.rank, entry.path, entry.state) for entry in source.ranks()] == [
        (0, "root/node-a/rank0", "lost"),
        (1, "root/node-a/rank1", "lost"),
    ]
    assert source.metrics() == [
        MetricEntry(
            name=name,
            paths=["root/node-a/rank0", "root/node-a/rank1"],
            rank_count=2,
            points=8,
            first_step=0,
            last_step=3,
            last=last,
        )
        for name, last in (("loss", 3.5), ("b", 1.0))
    ]
    assert asyncio.run(ask(source)).mean == [0.5, 1.5, 2.5, 3.5]
    source.close()


def test_a_running_run_is_followed(folder: RunFolder) -> None:
    station = fill(folder)
    write_document(folder, "running")
    source = FolderSource(folder.path)
    assert source.run().state == "running"
    assert source.metrics()[0].reduction == "max"
    assert source.counters()["points"] == 16
    wait_until(lambda: not source.reload(), "nothing new, events written too")
    station.log(0, 4, [{"loss": 9.0}])
    station.wait_durable()
    assert source.reload()
    assert source.counters()["points"] == 17
    station.rotate()
    station.log(0, 5, [{"loss": 10.0}])
    station.wait_durable()
    source.reload()
    assert source.counters()["points"] == 18
    assert asyncio.run(ask(source)).x == [0, 1, 2, 3, 4, 5]
    assert len(source.resources("root")) == 2
    write_document(folder)
    assert station.close()
    assert source.reload()
    assert source.run().state == "finished"
    assert asyncio.run(ask(source)).total_points == 10
    source.close()


def test_d53_following_a_writer_sees_every_point_once(folder: RunFolder, monkeypatch) -> None:
    monkeypatch.setattr("trackside.store.settler.MOST_FILES", 2)
    station = Station(folder)
    station.greet(0)
    station.log(0, 0, [{"loss": 0.0}])
    station.wait_durable()
    source = FolderSource(folder.path)
    for step in range(1, 30):
        station.log(0, step, [{"loss": 0.0}])
        if step % 3 == 0:
            station.checkpoint()
        source.reload()
        answer = asyncio.run(ask(source))
        assert answer.x == list(range(len(answer.x)))
        assert set(answer.count) == {1}
    station.wait_durable()
    source.reload()
    assert len(asyncio.run(ask(source)).x) == 30
    station.close()
    source.close()


def test_a_damaged_segment_hides_no_other(folder: RunFolder) -> None:
    station = Station(folder)
    station.greet(0)
    for step in range(2):
        station.log(0, step, [{"loss": float(step)}])
        station.rotate()
    station.close(clean=False)
    folder.point_files()[0].write_bytes(b"PAR1 no")
    source = FolderSource(folder.path)
    assert source.counters() == {"points": 1, "journal_damaged": 0, "segments_unreadable": 1}
    assert asyncio.run(ask(source)).x == [1]
    source.close()


def test_a_document_of_another_version_is_said(folder: RunFolder) -> None:
    folder.document.write_text('{"schema_version": 1, "name": "only"}')
    with pytest.raises(RunFolderError, match=r"run.json is not of this version: .*missing required field"):
        FolderSource(folder.path)


def test_a_reports_curves_are_bounded() -> None:
    metrics = [MetricEntry(name=str(at)) for at in range(20)]
    few = plan_baked(metrics, [rank_entry(rank) for rank in range(8)], 1000, 0.0)
    assert len(few) == 20 + 160
    assert sum(query.points for query in few) <= 24_000
    many = plan_baked(metrics, [rank_entry(rank) for rank in range(1024)], 1000, 0.0)
    assert [query.path for query in many] == ["root"] * 20
    hosted = [rank_entry(rank, path=f"root/node-{rank % 2}/rank{rank}") for rank in range(8)]
    both = plan_baked(metrics[:1], hosted, 1000, 0.0)
    assert [(query.path, query.ranks) for query in both[1:3]] == [
        ("root/node-0", frozenset({0, 2, 4, 6})),
        ("root/node-1", frozenset({1, 3, 5, 7})),
    ]
    assert len(both) == 1 + 2 + 8
    crowded = [rank_entry(rank, path=f"root/node-{rank % 2}/rank{rank}") for rank in range(12)]
    assert len(plan_baked(metrics, crowded, 1000, 0.0)) == 20 + 240, "ranks go before hosts"
    wide = plan_baked([MetricEntry(name=str(at)) for at in range(10_000)], [rank_entry(0)], 1000, 0.0)
    assert {query.points for query in wide} == {50}
    assert plan_baked([], [], 1000, 0.0) == []


def test_runs_are_listed_newest_first(tmp_path: Path) -> None:
    old, new = (RunFolder.create(tmp_path, name, wall) for name, wall in (("old", 1e9), ("new", 2e9)))
    write_document(old)
    shutil.rmtree(old.journal)
    (tmp_path / "something else").mkdir()
    (tmp_path / "file").write_text("")
    broken = RunFolder.create(tmp_path, "broken", 3e9)
    broken.document.write_text("{")
    first, second, third = list_runs(tmp_path)
    assert (first.state, first.name) == ("damaged", broken.path.name)
    assert (second.directory, second.state, second.open) == (str(new.path), "unknown", True)
    assert (third.name, third.state, third.elapsed_seconds, third.open) == ("train", "finished", 3.0, False)
    with pytest.raises(RunFolderError, match="is no folder; runs lie where"):
        list_runs(tmp_path / "nothing")


def test_resources_are_thinned_evenly_and_each_path_keeps_some(folder: RunFolder, monkeypatch) -> None:
    monkeypatch.setattr("trackside.store.source.MAX_RECORDS", 20)
    station = Station(folder)
    station.greet(0)
    for second in range(50):
        for path in ("root/a", "root/b"):
            station.writer.resource(ResourceRecord(time=float(second), path=path, host=path[5:], rank=None))
    write_document(folder)
    wait_until(lambda: station.writer.status().commits > 0, "a commit")
    assert station.close()
    assert len(pd.read_parquet(folder.resources)) == 100
    source = FolderSource(folder.path)
    for path in ("root/a", "root/b"):
        times = [record.time for record in source.resources(path)]
        assert times == [4.0, 9.0, 14.0, 19.0, 24.0, 29.0, 34.0, 39.0, 44.0, 49.0]
    source.close()
