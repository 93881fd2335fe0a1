"""What sessions left is found, taken in once, and removed when it is on the disk."""

import asyncio
import os
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from trackside.controller.intake import Intake
from trackside.ingest.reader import FrameReader
from trackside.monitor import ring as ring_module
from trackside.monitor.buffer import Buffer
from trackside.monitor.encode import Encoder
from trackside.monitor.heir import Heir
from trackside.monitor.ring import Ring
from trackside.run.inputs import MetricAppeared, PointsArrived, SessionOpened
from trackside.store import DiskThreads, RunFolder
from trackside.wire import codec, messages
from trackside.wire import estate as estate_module
from trackside.wire.estate import find_estates
from trackside.wire.machine import machine_id
from trackside.wire.spool import pack_spooled, stem_of

SESSION = b"s" * 16
NOBODY = 2**22 + 1
"""A process id that no process has."""


@pytest.fixture(autouse=True)
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "memory"
    folder.mkdir(mode=0o700)
    monkeypatch.setattr(ring_module, "memory_folder", lambda: folder)
    monkeypatch.setattr(ring_module, "memory_share", lambda: 4 * 4096)
    monkeypatch.setattr(estate_module, "memory_path", lambda: folder)
    monkeypatch.setattr(estate_module, "private_path", lambda: tmp_path / "none")
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path / "runs", "test", 0.0)


class Dead:
    """A rank that was killed: what its send thread had done, and what it had not."""

    def __init__(self, memory: Path, *, pid: int = NOBODY, machine: str | None = None, run: str = "r1") -> None:
        self.buffer, self.encoder = Buffer(), Encoder(lambda name, reason: None, lambda text: None)
        self.ring = Ring(SESSION, self.buffer)
        self.frames: list[bytes] = []
        self.greeting = messages.Hello(
            session=SESSION,
            role="rank",
            run=run,
            identity=messages.Identity(rank=0, local_rank=0, world_size=1),
            host=messages.HostFacts(host="here", machine_id=machine or machine_id()),
            process=messages.ProcessFacts(pid=pid),
            sent_at=0.0,
        )
        self.hello = codec.encode(self.greeting)
        self.spool = memory / f"{stem_of(SESSION)}-000001.part"
        self.spool.write_bytes(pack_spooled(self.hello))
        self.ring.turn(0, 1)

    def log(self, steps: Iterable[int]) -> None:
        self.log_at((step, float(step)) for step in steps)

    def log_at(self, steps: Iterable[tuple[int, float]]) -> None:
        for step, at in steps:
            self.buffer.put((-1, at, step, {"loss": step / 2}), 1)

    def turn(self, *, is_told: bool = True) -> None:
        """Frames of what was logged; `is_told`: the ring hears of it."""
        for message in self.encoder.encode(self.buffer.take()):
            self.frames.append(codec.encode(message, len(self.frames) + 1))
            with self.spool.open("ab") as file:
                file.write(pack_spooled(self.frames[-1]))
        if is_told:
            self.ring.turn(self.encoder.numbers.through, len(self.frames) + 1)


class Controller:
    """A reader, and what it made of what came."""

    def __init__(self, folder: RunFolder, elsewhere: tuple[Path, ...] = ()) -> None:
        self.inputs: list[Any] = []
        self.kept: list[tuple[int, bytes]] = []
        self.room: Callable[[], bool] = lambda: True
        self.reader = FrameReader(
            "r1",
            keep=lambda session, seq, at, frame: self.kept.append((seq, frame)),
            send=lambda *_: None,
            ask_again=lambda *_: None,
            has_room=lambda is_bulk: self.room() or not is_bulk,
        )
        self._folder, self._elsewhere = folder, elsewhere
        self.intake: Intake | None = None

    def take_in(self, of: Iterable[bytes] | None = None) -> list[bytes]:
        return asyncio.run(self._take_in(of))

    async def _take_in(self, of: Iterable[bytes] | None) -> list[bytes]:
        disk = DiskThreads("test-disk")
        self.intake = Intake(
            self._folder,
            "r1",
            self._elsewhere,
            reader=self.reader,
            apply=lambda: self.inputs.extend(self.reader.take()),
            disk=disk,
        )
        try:
            return await self.intake.take_in(of)
        finally:
            disk.close()

    def steps(self) -> list[int]:
        self.inputs.extend(self.reader.take())
        return [step for i in self.inputs if isinstance(i, PointsArrived) for step in i.batch.step.tolist()]


def test_what_was_left_waits_for_room(memory: Path, folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each frame until there is some; where there is none it stays where it is."""
    dead = Dead(memory)
    for step in range(3):
        dead.log([step])
        dead.turn()
    controller = Controller(folder)
    controller.room = lambda: False
    with monkeypatch.context() as patch:
        patch.setattr("trackside.controller.intake.ROOM_S", -1.0)
        assert controller.take_in() == []
    assert (controller.steps(), dead.spool.exists()) == ([], True)
    looks = iter(range(1000))
    controller.room = lambda: next(looks) % 3 == 2
    assert controller.take_in() == [SESSION]
    assert controller.steps() == [0, 1, 2]
    assert next(looks) > 3 * len(dead.frames)


@pytest.mark.parametrize("arrived", [0, 1, 2, 3])
@pytest.mark.parametrize("is_told", [True, False])
def test_all_that_a_killed_rank_logged_is_there_once(
    memory: Path, folder: RunFolder, arrived: int, is_told: bool
) -> None:
    dead = Dead(memory)
    for first in (0, 10):
        dead.log(range(first, first + 10))
        dead.turn()
    dead.log(range(20, 30))
    dead.turn(is_told=is_told)
    dead.log(range(30, 34))
    controller = Controller(folder)
    controller.reader.feed(SESSION, dead.hello, 0.0)
    for frame in dead.frames[:arrived]:
        controller.reader.feed(SESSION, frame, 0.0)
    assert controller.take_in() == [SESSION]
    for frame in dead.frames:  # what the kernel still held comes late
        controller.reader.feed(SESSION, frame, 0.0)
    assert controller.take_in() == [SESSION]
    assert controller.steps() == list(range(34))
    assert len({i.id for i in controller.inputs if isinstance(i, MetricAppeared)}) == 1
    assert sum(isinstance(i, SessionOpened) for i in controller.inputs) == 1
    assert [seq for seq, _ in controller.kept] == [0, 1, 2, 3, 4]


def test_calls_that_no_file_but_the_ring_holds_follow_what_the_controller_has(memory: Path, folder: RunFolder) -> None:
    """The trail may be empty: everything on it had been acknowledged."""
    dead = Dead(memory)
    dead.log(range(10))
    dead.turn()
    dead.spool.write_bytes(pack_spooled(dead.hello))
    dead.log(range(10, 15))
    controller = Controller(folder)
    controller.reader.feed(SESSION, dead.hello, 0.0)
    controller.reader.feed(SESSION, dead.frames[0], 0.0)
    controller.take_in()
    assert controller.steps() == list(range(15))


def test_a_rank_that_never_came_is_there_with_what_it_logged(memory: Path, folder: RunFolder) -> None:
    dead = Dead(memory)
    dead.log(range(3))
    controller = Controller(folder)
    controller.take_in(of=[SESSION])
    assert controller.steps() == [0, 1, 2]
    assert sum(isinstance(i, SessionOpened) for i in controller.inputs) == 1


def test_files_go_when_what_they_held_is_on_the_disk(memory: Path, folder: RunFolder) -> None:
    dead = Dead(memory)
    dead.log(range(3))
    dead.turn()
    dead.log(range(3, 5))
    controller = Controller(folder)
    controller.take_in()
    assert controller.intake is not None
    controller.intake.remove_durable({SESSION: 1})
    assert len(list(memory.iterdir())) == 2
    controller.intake.remove_durable({SESSION: 2})
    assert list(memory.iterdir()) == []


def test_what_is_not_over_or_not_ours_is_left_alone(
    memory: Path, folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = Dead(memory, pid=os.getpid())
    assert find_estates("r1") == []
    os.utime(dead.spool, (0, 0))
    assert [estate.paths for estate in find_estates("r1")] == [[dead.spool, *memory.glob("*.ring")]]
    assert find_estates("r1", of=[b"t" * 16]) == []
    assert find_estates("r2") == []
    monkeypatch.setattr(estate_module, "process_namespace", lambda: 1)
    assert find_estates("r1") == []


def test_a_folder_that_others_may_write_is_not_looked_into(memory: Path, folder: RunFolder) -> None:
    Dead(memory)
    assert len(find_estates("r1")) == 1
    memory.chmod(0o755)
    assert find_estates("r1") == []


def test_what_was_carried_here_is_taken_where_it_is_named(memory: Path, folder: RunFolder, tmp_path: Path) -> None:
    dead = Dead(memory, machine="another machine")
    dead.log(range(3))
    assert find_estates("r1") == []
    memory.rename(tmp_path / "carried")
    controller = Controller(folder, elsewhere=(tmp_path / "carried",))
    controller.take_in()
    assert controller.steps() == [0, 1, 2]


def test_quick_calls_that_a_kill_took_are_counted_and_said(memory: Path, folder: RunFolder) -> None:
    """At 1 kHz one in five is copied at once; those behind the last copy nobody can know of."""
    dead = Dead(memory)
    dead.log_at([(step, step / 1000) for step in range(500)])
    dead.turn()
    dead.log_at([(step, step / 1000) for step in range(500, 535)])
    controller = Controller(folder)
    controller.take_in()
    steps = controller.steps()
    assert steps[:500] == list(range(500))
    (notice,) = [i.message for i in controller.inputs if isinstance(getattr(i, "message", None), messages.Notice)]
    assert (notice.about, notice.count) == ("calls lost", steps[-1] - 499 - len(steps[500:]))
    assert [b - a for a, b in pairwise(steps[500:])] == [5] * (len(steps) - 501)
    assert notice.text.startswith(f"{notice.count} of its last calls of log() were in no file when it ended")


def test_a_damaged_ring_costs_its_own_calls_only(memory: Path, folder: RunFolder) -> None:
    dead = Dead(memory)
    dead.log(range(3))
    dead.turn()
    (ring,) = memory.glob("*.ring")
    ring.write_bytes(b"noise")
    controller = Controller(folder)
    controller.take_in()
    assert controller.steps() == [0, 1, 2]


@pytest.mark.parametrize("pid", [None, NOBODY, NOBODY + 1])
def test_an_heir_on_another_machine_delivers_what_a_killed_rank_left_and_then_removes_it(
    memory: Path, folder: RunFolder, pid: int | None
) -> None:
    """Over its own link, as often as it likes; what had arrived is known."""
    dead = Dead(memory)
    dead.log(range(10))
    dead.turn()
    dead.log(range(10, 14))
    queued: list[messages.Upward] = []
    heir = Heir("r1", queued.append)
    heir.inherit(pid)
    heir.inherit(pid)
    assert bool(queued) == (pid != NOBODY + 1)
    if not queued:
        return
    controller = Controller(folder)
    controller.reader.feed(SESSION, dead.hello, 0.0)
    agent = b"a" * 16
    hello = msgspec.structs.replace(dead.greeting, session=agent, role="agent", identity=None)
    controller.reader.feed(agent, codec.encode(hello), 0.0)
    for seq, message in enumerate([*queued, *queued], 1):
        controller.reader.feed(agent, codec.encode(message, seq), 0.0)
    assert controller.steps() == list(range(14))
    assert sum(isinstance(i, SessionOpened) for i in controller.inputs) == 2
    restarted = Controller(folder)
    for seq, frame in controller.kept:
        is_agents = codec.open_envelope(frame).kind == "left" or (not seq and b"agent" in frame)
        restarted.reader.feed(agent if is_agents else SESSION, frame, 0.0, replaying=True)
    assert restarted.steps() == list(range(14))
    assert len(find_estates("r1")) == 1
    heir.settle()
    assert find_estates("r1") == []
    assert not dead.spool.exists()


def test_what_was_left_within_what_was_left_is_refused(folder: RunFolder) -> None:
    controller = Controller(folder)
    inner = codec.encode(messages.Left(session=SESSION, frames=[]), 1)
    hello = messages.Hello(
        session=SESSION, role="agent", run="r1", identity=None, host=messages.HostFacts(host="h", machine_id="m"),
        process=messages.ProcessFacts(pid=1), sent_at=0.0,
    )  # fmt: skip
    controller.reader.feed(SESSION, codec.encode(hello), 0.0)
    controller.reader.feed(SESSION, codec.encode(messages.Left(session=SESSION, frames=[inner]), 1), 0.0)
    assert controller.reader.counters.frames_malformed == 1
