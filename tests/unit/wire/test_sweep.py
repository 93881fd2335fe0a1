"""What killed sessions left in memory goes to a disk, whole and once; what lives, or is not ours, is not touched."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from trackside.wire import codec, messages, sweep
from trackside.wire import estate as estate_module
from trackside.wire.estate import find_estates, frames_of
from trackside.wire.spool import stem_of
from trackside.wire.sweep import CROWD_SETTLED_S, Moved, survey

pytestmark = pytest.mark.usefixtures("leak_check")

RUN = "0123456789abcdef"
OLD = 3600.0

SESSION = """
import os, sys, time
from pathlib import Path
from trackside.monitor import ring as ring_module, spool as spool_module, trail as trail_module
from trackside.monitor.buffer import Buffer
from trackside.monitor.encode import Encoder
from trackside.monitor.ring import Ring
from trackside.monitor.trail import Trail
from trackside.wire import codec, messages
from trackside.wire.machine import machine_id
from trackside.wire.spool import stem_of

memory, folder, session = Path(sys.argv[1]), sys.argv[2], bytes.fromhex(sys.argv[3])
logged, framed = int(sys.argv[4]), int(sys.argv[5])
for module in (ring_module, trail_module):
    module.memory_folder = lambda: memory
    module.memory_share = lambda: 64 * 4096
hello = codec.encode(messages.Hello(
    directory=folder or None,
    session=session, role="rank", run=sys.argv[6], identity=messages.Identity(rank=0, local_rank=0, world_size=1),
    host=messages.HostFacts(host="here", machine_id=machine_id()), process=messages.ProcessFacts(pid=os.getpid()),
    sent_at=0.0))
buffer, encoder = Buffer(), Encoder(lambda name, reason: None, lambda text: None)
trail, ring = Trail(session, hello), Ring(session, buffer)
ring.turn(0, 1)
seq = 0
def log(steps):
    for step in steps:
        buffer.put((-1, float(step), step, {"loss": step / 2}), 1)
log(range(framed))
for message in encoder.encode(buffer.take()):
    seq += 1
    trail.append(codec.encode(message, seq))
ring.turn(encoder.numbers.through, seq + 1)
if not trail.paths:
    spool = spool_module.Spool(memory, f"{stem_of(session)}-000001", hello)
log(range(framed, logged))
if "forks" in sys.argv:
    pid = os.fork()
    if not pid:
        time.sleep(60)
print("ready", *([pid] if "forks" in sys.argv else []), flush=True)
time.sleep(60)
"""


class Place:
    """This user's folders of one test, sessions in real processes, and runs to take them in."""

    def __init__(self, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.memory, self.lasting, self.run = base / "memory", base / "lasting", base / "runs" / "one"
        self.memory.mkdir(mode=0o700)
        self.run.mkdir(parents=True)
        (self.run / "run.json").write_text(json.dumps({"id": RUN}))
        (base / "session.py").write_text(SESSION)
        self._base, self._living = base, []
        for module in (sweep, estate_module):
            monkeypatch.setattr(module, "memory_path", lambda: self.memory)
            monkeypatch.setattr(module, "private_path", lambda: base / "private")
            monkeypatch.setattr(module, "lasting_path", lambda: self.lasting)

    def live(
        self, *words: str, session: bytes = b"s" * 16, folder: Path | None = None, calls: tuple[int, int] = (20, 12)
    ) -> "subprocess.Popen[str]":
        """A session that has logged calls, the first of which are in frames."""
        numbers = [str(number) for number in calls]
        where = str(self.run if folder is None else folder) if folder != Path() else ""
        command = [sys.executable, str(self._base / "session.py"), str(self.memory), where, session.hex()]
        process = subprocess.Popen([*command, *numbers, RUN, *words], stdout=subprocess.PIPE, text=True)
        self._living.append(process)
        assert process.stdout is not None
        self.said = process.stdout.readline().split()
        assert self.said[:1] == ["ready"]
        return process

    def kill(self, process: "subprocess.Popen[str]", ago_s: float = OLD) -> None:
        """As `kill -9` does, so long ago."""
        process.kill()
        process.wait()
        self.age(ago_s)

    def killed(self, *words: str, ago_s: float = OLD, **options: object) -> None:
        """A session that was killed."""
        self.kill(self.live(*words, **options), ago_s)  # type: ignore[arg-type]

    def age(self, ago_s: float = OLD) -> None:
        for path in self.memory.iterdir():
            os.utime(path, (time.time() - ago_s,) * 2, follow_symlinks=False)

    def steps(self, spool: Path | None = None) -> list[int]:
        """Of all calls that whoever takes it in would find."""
        found = []
        for estate in find_estates(RUN, spool):
            for frame in frames_of(estate):
                body = codec.decode_body(codec.open_envelope(frame))
                if isinstance(body, messages.Points):
                    found += list(memoryview(body.step).cast("q"))
        return found

    def close(self) -> None:
        for process in self._living:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    made = Place(tmp_path, monkeypatch)
    yield made
    made.close()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_what_a_killed_session_left_goes_to_its_run_whole_and_is_taken_in_from_there(place: Place) -> None:
    place.killed()
    size = sum(path.stat().st_size for path in place.memory.iterdir())
    (moved,) = sweep.sweep()
    assert moved == Moved(RUN, 1, size, place.run / "spool", place.run)
    assert f"trackside recover {place.run}" in str(moved)
    stem = stem_of(b"s" * 16)
    assert names(place.run / "spool") == [f"{stem}-000001.spool", f"{stem}.ring"]
    assert {path.stat().st_mode & 0o777 for path in (place.run / "spool").iterdir()} == {0o600}
    assert names(place.memory) == []
    assert place.steps(place.run / "spool") == list(range(20))
    assert sweep.sweep() == []


def test_what_lives_is_never_touched_however_old_its_files_are(place: Place) -> None:
    process = place.live()
    place.age()
    before = names(place.memory)
    assert (survey(), sweep.sweep(0.0)) == ([], [])
    assert names(place.memory) == before
    place.kill(process)
    assert len(survey()) == 1


def test_what_a_child_of_a_killed_session_still_has_open_waits_for_the_child(place: Place) -> None:
    process = place.live("forks")
    child = int(place.said[1])
    try:
        place.kill(process)
        assert sweep.sweep() == []
    finally:
        os.kill(child, 9)
    deadline = time.monotonic() + 20
    while not (moved := sweep.sweep()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(moved) == 1


def test_what_was_just_left_is_for_those_who_are_to_take_it_in(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.killed(ago_s=CROWD_SETTLED_S + 30)
    assert sweep.sweep() == []
    assert len(sweep.sweep(crowd_bytes=1000)) == 1, "where memory is short, it goes sooner"
    place.killed(session=b"t" * 16, ago_s=CROWD_SETTLED_S / 2)
    assert sweep.sweep(crowd_bytes=1000) == []


@pytest.mark.parametrize("why", ["never told", "gone", "of another run", "a link", "no folder", "no document"])
def test_where_the_run_is_out_of_reach_it_waits_on_a_disk_and_is_found_there(
    place: Place, why: str, tmp_path: Path
) -> None:
    place.killed(folder=Path() if why == "never told" else None)
    document = place.run / "run.json"
    if why == "gone":
        shutil.rmtree(place.run)
    elif why == "of another run":
        document.write_text(json.dumps({"id": "another"}))
    elif why == "a link":
        place.run.rename(tmp_path / "elsewhere")
        place.run.symlink_to(tmp_path / "elsewhere")
    elif why == "no folder":
        shutil.rmtree(place.run)
        place.run.write_text("")
    elif why == "no document":
        document.write_text("[" * 100_000)
    (moved,) = sweep.sweep()
    assert (moved.target, moved.folder) == (place.lasting, None)
    assert names(place.memory) == []
    assert place.lasting.stat().st_mode & 0o777 == 0o700
    assert place.steps() == list(range(20))
    assert [left.run for left in survey()] == [RUN], "the doctor lists it"
    assert sweep.sweep() == [], "and it stays there"
    assert place.steps() == list(range(20))


def test_what_waits_on_a_disk_goes_to_its_run_once_that_can_be_reached(place: Place, tmp_path: Path) -> None:
    place.killed()
    place.run.rename(tmp_path / "unmounted")
    sweep.sweep()
    (tmp_path / "unmounted").rename(place.run)
    (moved,) = sweep.sweep()
    assert moved.folder == place.run
    assert names(place.lasting) == []
    assert place.steps(place.run / "spool") == list(range(20))


def test_what_had_all_been_delivered_goes_without_a_word(place: Place) -> None:
    place.killed(calls=(0, 0))
    assert len(names(place.memory)) == 2
    assert [left.is_empty for left in survey()] == [True]
    assert sweep.sweep() == []
    assert names(place.memory) == []
    assert not place.lasting.exists()


@pytest.mark.parametrize("calls", [(12, 12), (20, 12)])
def test_a_ring_whose_frames_are_not_here_waits_on_a_disk_if_it_holds_more_than_they(
    place: Place, calls: tuple[int, int]
) -> None:
    """Its trail may be in the temporary folder of a job that has its own."""
    place.killed(calls=calls)
    for path in place.memory.glob("*.part"):
        path.rename(place.run.parent / "carried.part")
    moved = sweep.sweep()
    assert names(place.memory) == []
    assert len(moved) == (calls[0] > calls[1])
    assert len(names(place.lasting)) == len(moved)


def test_a_session_that_was_never_told_the_folder_goes_where_the_others_of_its_run_go(place: Place) -> None:
    place.killed()
    place.killed(session=b"t" * 16, folder=Path())
    (moved,) = sweep.sweep()
    assert (moved.sessions, moved.folder) == (2, place.run)


def test_what_is_not_this_users_alone_is_neither_read_nor_moved(place: Place, tmp_path: Path) -> None:
    place.killed()
    treasure = tmp_path / "treasure"
    treasure.write_text("of another")
    link = place.memory / f"{stem_of(b'l' * 16)}.ring"
    link.symlink_to(treasure)
    (place.memory / f"{stem_of(b'h' * 16)}-000001.part").hardlink_to(treasure)
    os.mkfifo(place.memory / f"{stem_of(b'f' * 16)}-000001.part")
    (place.memory / "theirs").write_text("of somebody else")
    place.age()
    place.memory.chmod(0o755)
    assert (survey(), sweep.sweep()) == ([], []), "others could have put it there"
    place.memory.chmod(0o700)
    assert len(sweep.sweep()) == 1
    assert len(names(place.memory)) == 4
    assert treasure.read_text() == "of another"


def test_a_link_in_the_place_of_the_runs_spool_is_not_followed(place: Place, tmp_path: Path) -> None:
    place.killed()
    (tmp_path / "theirs").mkdir()
    (place.run / "spool").symlink_to(tmp_path / "theirs")
    assert sweep.sweep() == []
    assert names(tmp_path / "theirs") == []
    assert len(names(place.memory)) == 2


def test_a_disk_that_takes_nothing_costs_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.killed()
    before = {path.name: path.read_bytes() for path in place.memory.iterdir()}
    copied = shutil.copyfileobj

    def is_full(source: BinaryIO, copy: BinaryIO) -> None:
        copy.write(source.read(100))
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sweep.shutil, "copyfileobj", is_full)
    assert sweep.sweep() == []
    assert {path.name: path.read_bytes() for path in place.memory.iterdir()} == before
    assert names(place.run / "spool") == []
    monkeypatch.setattr(sweep.shutil, "copyfileobj", copied)
    assert len(sweep.sweep()) == 1


def test_a_sweep_that_was_killed_half_way_is_finished_by_the_next(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some files were there twice for a while; what is in them counts once, by its sequence."""
    place.killed()
    (place.run / "spool").mkdir()
    shutil.copy(next(place.memory.glob("*.part")), place.run / "spool" / f"{stem_of(b's' * 16)}-000001.spool")
    (place.run / "spool" / f"{stem_of(b's' * 16)}.ring.moving").write_bytes(b"half")
    assert len(sweep.sweep()) == 1
    assert len(names(place.run / "spool")) == 2
    assert place.steps(place.run / "spool") == list(range(20))


def test_sweeps_at_the_same_time_move_each_file_once(place: Place) -> None:
    for number in range(6):
        place.killed(session=bytes([65 + number]) * 16)
    moved: list[Moved] = []
    sweeps = [threading.Thread(target=lambda: moved.extend(sweep.sweep())) for _ in range(4)]
    for thread in sweeps:
        thread.start()
    for thread in sweeps:
        thread.join()
    moved += sweep.sweep()
    assert sum(each.sessions for each in moved) == 6
    assert len(names(place.run / "spool")) == 12
    assert sorted(place.steps(place.run / "spool")) == sorted(list(range(20)) * 6)


def test_noise_in_a_file_of_ours_is_kept_for_a_look(place: Place) -> None:
    place.memory.joinpath(f"{stem_of(b'n' * 16)}-000001.part").write_bytes(b"noise" * 100)
    place.age()
    (moved,) = sweep.sweep()
    assert (moved.run, moved.target) == (None, place.lasting)
    assert names(place.memory) == []
