import errno
import os
import threading
import time
from pathlib import Path

import msgspec
import pandas as pd
import pytest

from tests.unit.ingest.fake_rank import session_id
from tests.unit.store.station import Station, new_folder, wait_until
from trackside.errors import StoreError
from trackside.store import RunFolder, StoreStatus, read_rows
from trackside.store.journal import AppendFile, Checkpoint, Frame, read_journal
from trackside.store.records import read_events
from trackside.wire.documents import EpochRecord, EventRecord, ResourceRecord

pytestmark = pytest.mark.usefixtures("leak_check")


class SickDisk:
    """A disk whose `fdatasync` can be made to fail, or to hang until it is healed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.failure: OSError | None = None
        self.well = threading.Event()
        self.well.set()
        self._sync = os.fdatasync
        monkeypatch.setattr("os.fdatasync", self.sync)

    def sync(self, descriptor: int) -> None:
        self.well.wait(20)
        if self.failure is not None:
            raise self.failure
        self._sync(descriptor)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> SickDisk:
    monkeypatch.setattr("trackside.store.writer.STALL_SECONDS", 0.1)
    monkeypatch.setattr("trackside.store.writer.RETRY_SECONDS", 0.05)
    monkeypatch.setattr("trackside.store.settler.RETRY_SECONDS", 0.05)
    monkeypatch.setattr("trackside.store.writer.NOTICE_SECONDS", 0.01)
    return SickDisk(monkeypatch)


def event(number: int, text: str = "", count: int = 1) -> EventRecord:
    return EventRecord(id=number, time=1.0, path="root", kind="user", severity="info", text=text, count=count)


def epoch(number: int, loss: float) -> EpochRecord:
    return EpochRecord(
        epoch=number,
        seconds=1.0,
        metrics={"loss": loss},
        samples=None,
        batches=3,
        throughput=None,
        ranks=1,
        complete=True,
        ended_at=2.0,
    )


def names_in(folder: RunFolder) -> list[str]:
    return sorted(str(path.relative_to(folder.path)) for path in folder.path.rglob("*") if path.is_file())


def test_what_is_acknowledged_is_in_the_journal(station: Station) -> None:
    station.greet(0)
    station.log(0, 0, [{"loss": 1.0}])
    assert station.durable == {}
    station.wait_durable()
    assert station.durable == {session_id(0): 1}
    entries = list(read_journal(station.folder.journal_files()))
    assert [type(entry) for entry in entries] == [Frame, Frame]
    assert [entry.session for entry in entries if isinstance(entry, Frame)] == [session_id(0)] * 2


def test_a_commit_takes_no_longer_than_a_tenth_of_a_second(station: Station) -> None:
    station.greet(0)
    delays = []
    for step in range(10):
        began = time.monotonic()
        station.log(0, step, [{"loss": 1.0}])
        station.wait_durable()
        delays.append(time.monotonic() - began)
    assert sorted(delays)[5] < 0.1


def test_a_rotation_begins_a_file_with_the_state(station: Station) -> None:
    station.greet(0)
    station.log(0, 0, [{"loss": 1.0}])
    station.rotate()
    assert names_in(station.folder) == ["journal/000002.log", "points/000001.parquet"]
    first = next(iter(read_journal(station.folder.journal_files())))
    assert isinstance(first, Checkpoint)
    assert station.writer.table.hot_rows == 0
    assert station.writer.status().points == 1


def test_a_checkpoint_is_wanted_when_a_file_is_large(station: Station, monkeypatch) -> None:
    monkeypatch.setattr("trackside.store.writer.ROTATE_ROWS", 100)
    station.greet(0)
    station.log(0, 0, [{"loss": 1.0}] * 99)
    station.wait_durable()
    assert station.checkpoints_wanted == 0
    station.log(0, 99, [{"loss": 1.0}] * 2)
    wait_until(lambda: station.checkpoints_wanted == 1, "the wish for a checkpoint")


def test_an_idle_run_wants_no_checkpoint(station: Station, monkeypatch) -> None:
    monkeypatch.setattr("trackside.store.writer.ROTATE_SECONDS", 0.0)
    station.greet(0)
    wait_until(lambda: station.checkpoints_wanted == 1, "the wish for a checkpoint")
    station.rotate()
    commits = station.writer.status().commits
    station.writer.write_file(station.folder.document, b"{}")
    wait_until(lambda: station.writer.status().commits > commits, "another turn")
    assert station.checkpoints_wanted == 1


def test_a_clean_end_leaves_few_files_and_no_journal(folder: RunFolder) -> None:
    station = Station(folder)
    station.greet(0)
    for step in range(3):
        station.log(0, step, [{"loss": 1.0}])
        station.writer.resource(ResourceRecord(time=float(step), path="root/h", host="h", rank=None))
        station.rotate()
    station.log(0, 3, [{"loss": 1.0}])
    station.writer.event(event(1))
    station.writer.epoch(epoch(0, 0.5))
    station.writer.write_file(folder.document, b"{}")
    assert station.close()
    assert names_in(folder) == [
        "epochs.parquet",
        "events.jsonl",
        "points/000001-000004.parquet",
        "resources/000001-000003.parquet",
        "run.json",
    ]
    assert station.close()
    assert len(pd.read_parquet(folder.points)) == 4
    assert pd.read_parquet(folder.resources).time.tolist() == [0.0, 1.0, 2.0]
    assert dict(pd.read_parquet(folder.epochs).metrics[0]) == {"loss": 0.5}


def test_a_run_without_points_still_has_a_file_for_pandas(folder: RunFolder) -> None:
    assert Station(folder).close()
    frame = pd.read_parquet(folder.points)
    assert len(frame) == 0
    assert list(frame.columns) == ["series", "path", "rank", "generation", "epoch", "step", "time", "value"]


def test_many_segments_become_few_while_the_run_goes_on(station: Station, monkeypatch) -> None:
    monkeypatch.setattr("trackside.store.settler.MOST_FILES", 3)
    station.greet(0)
    for step in range(8):
        station.log(0, step, [{"loss": float(step)}])
        station.rotate()
    wait_until(lambda: len(station.folder.point_files()) <= 3, "the merge")
    assert sorted(row[7] for row in read_rows(station.folder.path)) == [float(step) for step in range(8)]
    assert station.writer.status().points == 8


def test_an_amended_event_is_written_again_and_the_last_counts(folder: RunFolder) -> None:
    folder.events.write_bytes(b'{"id": 9, "torn')
    station = Station(folder)
    station.writer.event(event(1, "a"))
    station.writer.event(event(2, "b"))
    station.writer.event(event(1, "a", count=7))
    station.close()
    assert len(folder.events.read_bytes().splitlines()) == 4
    assert read_events(folder.events) == [event(1, "a", count=7), event(2, "b")]


def test_amended_epochs_replace_those_of_an_earlier_life(folder: RunFolder) -> None:
    station = Station(folder)
    station.greet(0)
    for number in range(3):
        station.writer.epoch(epoch(number, float(number)))
    station.close(clean=False)
    station = Station.resume(folder)
    station.writer.epoch(epoch(2, 20.0))
    station.writer.epoch(epoch(3, 30.0))
    station.close()
    frame = pd.read_parquet(folder.epochs)
    assert [dict(metrics)["loss"] for metrics in frame.metrics] == [0.0, 1.0, 20.0, 30.0]


def test_a_file_outside_the_folder_is_refused_and_stops_nothing(station: Station, tmp_path: Path) -> None:
    station.writer.write_file(tmp_path / "outside", b"")
    station.greet(0)
    station.log(0, 0, [{"loss": 1.0}])
    station.wait_durable()
    assert not (tmp_path / "outside").exists()
    with pytest.raises(StoreError):
        station.folder.write_whole(tmp_path / "outside", b"")


# --- disks that refuse, hang, fill ------------------------------------------------------------------------------------


def test_a_full_disk_is_said_and_nothing_is_lost_when_it_recovers(station: Station, disk: SickDisk) -> None:
    station.greet(0)
    station.log(0, 0, [{"loss": 0.0}])
    station.wait_durable()
    disk.failure = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    for step in range(1, 4):
        station.log(0, step, [{"loss": float(step)}])
    wait_until(lambda: bool(station.said), "the word that it stalls")
    stalled = station.said[0]
    assert stalled.reason == "No space left on device"
    assert stalled.not_persisted_since is not None
    assert stalled.waiting_bytes > 0
    assert station.durable == {session_id(0): 1}
    disk.failure = None
    station.wait_durable()
    wait_until(lambda: len(station.said) == 2, "the word that it goes on")
    assert (station.said[1].not_persisted_since, station.said[1].reason) == (None, None)
    assert station.close()
    assert sorted(pd.read_parquet(station.folder.points)["value"]) == [0.0, 1.0, 2.0, 3.0]


def test_lesson_a_hung_shared_mount_stalls_the_store_thread_only(station: Station, disk: SickDisk) -> None:
    """It stalled the writer: whoever calls must not wait, and must be told."""
    station.greet(0)
    disk.well.clear()
    station.log(0, 0, [{"loss": 0.0}])
    slowest = 0.0
    deadline = time.monotonic() + 20
    step = 1
    while not station.said and time.monotonic() < deadline:
        began = time.monotonic()
        station.log(0, step, [{"loss": 1.0}])
        status = station.writer.status()
        slowest, step = max(slowest, time.monotonic() - began), step + 1
        time.sleep(0.002)
    assert slowest < 3
    assert station.said[0].reason is not None
    assert "has not answered for" in station.said[0].reason
    assert status.points == step
    assert station.writer.table.hot_rows == step
    disk.well.set()
    station.wait_durable()
    assert station.close()


def test_a_hung_disk_does_not_hold_up_the_end(folder: RunFolder, disk: SickDisk) -> None:
    station = Station(folder)
    station.greet(0)
    disk.well.clear()
    station.log(0, 0, [{"loss": 0.0}])
    began = time.monotonic()
    assert not station.writer.close(clean=True, deadline_seconds=0.3)
    assert time.monotonic() - began < 15
    disk.well.set()


def test_a_full_disk_at_the_end_keeps_the_journal(folder: RunFolder, disk: SickDisk, monkeypatch) -> None:
    station = Station(folder)
    station.greet(0)
    station.log(0, 0, [{"loss": 0.0}])
    station.wait_durable()

    def full(*_args: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("trackside.store.segments.sync_path", full)
    assert not station.writer.close(clean=True, deadline_seconds=0.3)
    assert [row[7] for row in read_rows(folder.path)] == [0.0]


def test_segments_that_fail_hold_up_no_commit(station: Station, disk: SickDisk, monkeypatch) -> None:
    def broken(*_args: object) -> Path:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    station.greet(0)
    station.log(0, 0, [{"loss": 0.0}])
    with monkeypatch.context() as patch:
        patch.setattr("trackside.store.segments.write_segment", broken)
        station.checkpoint()
        for step in range(1, 5):
            station.log(0, step, [{"loss": 1.0}])
            station.wait_durable()
        assert station.writer.status().reason == "Input/output error"
        assert len(station.folder.journal_files()) == 2
    wait_until(lambda: len(station.folder.journal_files()) == 1, "the segment")
    wait_until(lambda: station.writer.status().reason is None, "the recovery")


def test_a_folder_that_was_removed_is_made_again(station: Station, disk: SickDisk) -> None:
    station.greet(0)
    station.rotate()
    for path in [*station.folder.journal.iterdir()]:
        path.unlink()
    station.folder.journal.rmdir()
    station.log(0, 0, [{"loss": 1.0}])
    station.checkpoint()
    wait_until(lambda: len(station.folder.point_files()) == 1, "the segment")


def test_beyond_the_memory_bound_frames_wait_with_their_rank(station: Station, disk: SickDisk, monkeypatch) -> None:
    monkeypatch.setattr("trackside.store.writer.MAX_WAITING_BYTES", 4000)
    station.greet(0)
    station.log(0, 0, [{"loss": 0.0}])
    station.wait_durable()
    disk.well.clear()
    for step in range(1, 100):
        station.log(0, step, [{"loss": float(step)}])
    assert station.reader.counters.frames_held == 1
    assert 4000 < station.writer.status().waiting_bytes < 5000
    disk.well.set()
    while (taken := station.reader.highest_seq(session_id(0))) < 100:
        wait_until(lambda: station.durable[session_id(0)] == taken and station.writer.has_room(), "the recovery")
        send_the_rest(station, 100)
    station.wait_durable()
    assert station.close()
    assert sorted(pd.read_parquet(station.folder.points)["value"]) == [float(step) for step in range(100)]


def test_beyond_the_bound_of_hot_values_frames_wait_with_their_rank(station: Station, monkeypatch) -> None:
    """A rank that is faster than segments are written loses nothing, and is acknowledged to the end."""
    monkeypatch.setattr("trackside.store.writer.MAX_HOT_ROWS", 20)
    station.greet(0)
    for step in range(50):
        station.log(0, step, [{"loss": float(step)}])
    assert station.reader.highest_seq(session_id(0)) == 21
    for _ in range(2):
        station.rotate()
        send_the_rest(station, 50)
    assert station.reader.highest_seq(session_id(0)) == 50
    station.wait_durable()
    assert station.close()
    assert sorted(pd.read_parquet(station.folder.points)["value"]) == [float(step) for step in range(50)]


def send_the_rest(station: Station, count: int) -> None:
    """What a rank of one value a frame does when it is asked to send again."""
    station.reader.ask_for_held(time.time())
    assert station.asked.pop() == session_id(0)
    station.seqs[0] = first = station.durable[session_id(0)]
    for step in range(first, count):
        station.log(0, step, [{"loss": float(step)}])


def test_beyond_the_memory_bound_records_are_counted(station: Station, monkeypatch) -> None:
    monkeypatch.setattr("trackside.store.writer.MAX_WAITING_RECORDS", 0)
    station.writer.event(EventRecord(id=1, time=1.0, path="root", kind="user", severity="info", text="x", count=1))
    station.writer.epoch(
        EpochRecord(
            epoch=1,
            seconds=1.0,
            metrics={},
            samples=None,
            batches=None,
            throughput=None,
            ranks=1,
            complete=True,
            ended_at=1.0,
        )
    )
    assert station.writer.status().dropped_records == 2


def test_short_writes_are_completed(tmp_path: Path, monkeypatch) -> None:
    write = os.write
    monkeypatch.setattr("os.write", lambda descriptor, data: write(descriptor, bytes(data[:7])))
    file = AppendFile(tmp_path / "a", is_new=True)
    file.append([b"x" * 100])
    file.close()
    assert (tmp_path / "a").read_bytes() == b"x" * 100


def test_status_is_a_document() -> None:
    assert msgspec.json.decode(msgspec.json.encode(StoreStatus()), type=StoreStatus) == StoreStatus()


def test_a_second_writer_of_a_folder_leaves_the_first_ones_files(tmp_path: Path) -> None:
    first, second = Station(new_folder(tmp_path)), Station(new_folder(tmp_path))
    assert first.folder.path != second.folder.path
    first.close()
    second.close()
