"""Killed at any moment, a run folder holds every acknowledged point once."""

import asyncio
import contextlib
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest

from tests.unit.ingest.fake_rank import points, session_id
from tests.unit.store.station import Station, new_folder, wait_until
from trackside.store import FolderSource, RunFolder, find_resumption, read_rows
from trackside.store.journal import Damage, Frame

Point = tuple[str, int, int, int, float]


class Camera:
    """Copies the run folder before and after each of the steps that make a segment."""

    def __init__(self, folder: RunFolder, shots: Path) -> None:
        self.shots: list[tuple[RunFolder, Counter[Point]]] = []
        self.truth: Counter[Point] = Counter()
        self._folder, self._base = folder, shots
        self._lock = threading.Lock()
        self._is_armed = False

    @contextlib.contextmanager
    def armed(self) -> Iterator[None]:
        """Shoot only now: elsewhere points are on their way, and the truth is not settled."""
        with self._lock:
            self._is_armed = True
        yield
        with self._lock:
            self._is_armed = False

    def wrap(self, step: Callable[..., object]) -> Callable[..., object]:
        def watched(*args: object, **options: object) -> object:
            self.shoot()
            result = step(*args, **options)
            self.shoot()
            return result

        return watched

    def shoot(self) -> None:
        with self._lock:
            if self._is_armed:
                copy = self._base / str(len(self.shots))
                shutil.copytree(self._folder.path, copy)
                self.shots.append((RunFolder(copy), Counter(self.truth)))


def log(station: Station, camera: Camera, rank: int, step: int, value: float) -> None:
    station.log(rank, step, [{"loss": value, "lr": value / 2}])
    generation = 0
    camera.truth[("loss", rank, generation, step, value)] += 1
    camera.truth[("lr", rank, generation, step, value / 2)] += 1


def points_in(folder: RunFolder) -> Counter[Point]:
    return Counter((row[0], row[2], row[3], row[5], row[7]) for row in read_rows(folder.path))


@pytest.fixture
def camera(folder: RunFolder, tmp_path: Path, monkeypatch) -> Camera:
    camera = Camera(folder, tmp_path / "shots")
    (tmp_path / "shots").mkdir()
    monkeypatch.setattr(Path, "replace", camera.wrap(Path.replace))
    monkeypatch.setattr(Path, "unlink", camera.wrap(Path.unlink))
    monkeypatch.setattr("shutil.rmtree", camera.wrap(shutil.rmtree))
    return camera


def play(folder: RunFolder, camera: Camera) -> None:
    """Two ranks, three journal files, a merge and a clean end."""
    station = Station(folder)
    for rank in (0, 1):
        station.greet(rank)
    for phase in range(3):
        for step in range(phase * 4, phase * 4 + 4):
            for rank in (0, 1):
                log(station, camera, rank, step, phase + step / 10 + rank)
        station.wait_durable()
        if phase < 2:
            with camera.armed():
                station.rotate()
    with camera.armed():
        assert station.close()


def test_every_moment_of_a_run_can_be_the_last(folder: RunFolder, camera: Camera, monkeypatch) -> None:
    play(folder, camera)
    monkeypatch.undo()
    assert len(camera.shots) > 20
    assert sum(bool(shot.journal_files()) for shot, _ in camera.shots) > 10
    for shot, truth in camera.shots:
        assert points_in(shot) == truth, f"as it lies, shot {shot.path.name}"
        if not shot.journal.is_dir():
            continue
        resumed = Station.resume(shot)
        assert set(resumed.reader.highest().values()) == {truth.total() // 4}, f"state, shot {shot.path.name}"
        assert resumed.close(), f"shot {shot.path.name}"
        assert points_in(shot) == truth, f"resumed, shot {shot.path.name}"
        assert not shot.journal.exists()


def test_a_resumed_run_takes_what_is_sent_again_once(folder: RunFolder) -> None:
    first = Station(folder)
    first.greet(0)
    for step in range(5):
        first.log(0, step, [{"loss": float(step)}])
    first.wait_durable()
    first.rotate()
    first.log(0, 5, [{"loss": 5.0}])
    first.wait_durable()
    first.close(clean=False)

    second = Station.resume(folder)
    second.greet(0)
    for step in range(8):  # the rank sends everything again, then goes on
        second.log(0, step, [{"loss": float(step)}])
    second.seqs[0] = 8
    second.wait_durable()
    assert second.close()
    frame = pd.read_parquet(folder.points)
    assert sorted(frame["value"]) == [float(step) for step in range(8)]


def test_names_from_before_a_rotation_are_known_after_a_crash(folder: RunFolder) -> None:
    """Nothing in the files that are left says hello or defines a series: the roll does."""
    station = Station(folder)
    station.greet(3)
    first = station.log(3, 0, [{"loss": 1.0}])
    station.wait_durable()
    station.rotate()
    station.feed(3, points([{0: 2.0}], step=1), first + 1)
    station.seqs[3] = first + 1
    station.wait_durable()
    assert sorted(row[:3] + row[5:6] + row[7:] for row in read_rows(folder.path)) == [
        ("loss", "root/node-a/rank3", 3, 0, 1.0),
        ("loss", "root/node-a/rank3", 3, 1, 2.0),
    ]
    source = FolderSource(folder.path)
    assert asyncio.run(source.last_values()) == [("loss", 3, "node-a", 2.0)]
    source.close()
    station.close(clean=False)


def test_three_lives(folder: RunFolder) -> None:
    """Killed twice: what the second life wrote begins with no checkpoint of its own."""
    for life in range(3):
        station = Station(folder) if life == 0 else Station.resume(folder)
        station.greet(0, session=life)
        station.log(0, life, [{"loss": float(life)}], session=life)
        station.wait_durable()
        shutil.copytree(folder.path, folder.path.with_name(f"life{life}"))
        station.close(clean=False)
        shutil.rmtree(folder.path)
        folder = RunFolder(folder.path.with_name(f"life{life}"))
    last = Station.resume(folder)
    assert last.close()
    assert sorted(pd.read_parquet(folder.points)["value"]) == [0.0, 1.0, 2.0]


def test_killed_after_an_end_that_was_not_clean(folder: RunFolder) -> None:
    """The journal file that is settled already still tells who the sessions are."""
    first = Station(folder)
    first.greet(3)
    seq = first.log(3, 0, [{"loss": 1.0}])
    first.wait_durable()
    assert first.close(clean=False)
    second = Station.resume(folder)
    second.greet(3)
    second.feed(3, points([{0: 2.0}], step=1), seq + 1)
    second.seqs[3] = seq + 1
    second.wait_durable()
    copy = RunFolder(shutil.copytree(folder.path, folder.path.with_name("copy")))
    second.close(clean=False)
    assert points_in(copy) == Counter({("loss", 3, 0, 0, 1.0): 1, ("loss", 3, 0, 1, 2.0): 1})
    third = Station.resume(copy)
    assert third.reader.highest() == {session_id(3): 2}
    assert third.close()
    assert points_in(copy).total() == 2


def test_a_resumed_run_asks_for_a_checkpoint_at_once(folder: RunFolder) -> None:
    station = Station(folder)
    station.greet(0)
    station.close(clean=False)
    assert station.checkpoints_wanted == 0
    station = Station.resume(folder)
    wait_until(lambda: station.checkpoints_wanted == 1, "the wish for a checkpoint")
    station.close(clean=False)


def test_a_damaged_journal_gives_what_is_whole(folder: RunFolder) -> None:
    station = Station(folder)
    station.greet(0)
    for step in range(10):
        station.log(0, step, [{"loss": float(step)}])
        station.wait_durable()
    (path,) = folder.journal_files()
    copy = RunFolder(shutil.copytree(folder.path, folder.path.with_name("copy")))
    station.close(clean=False)
    content = bytearray((copy.journal / path.name).read_bytes())
    content[len(content) // 2] ^= 255
    (copy.journal / path.name).write_bytes(content[:-3])
    entries = list(find_resumption(copy).frames())
    assert [type(entry) for entry in entries].count(Damage) == 2
    assert [type(entry) for entry in entries].count(Frame) == 9
    source = FolderSource(copy.path)
    assert source.counters()["points"] == 8
    assert source.counters()["journal_damaged"] == 1
    source.close()


def test_a_folder_without_a_journal_begins_anew(tmp_path: Path) -> None:
    folder = new_folder(tmp_path)
    resumption = find_resumption(folder)
    assert (resumption.checkpoint, resumption.next_file, list(resumption.frames())) == (None, 1, [])
