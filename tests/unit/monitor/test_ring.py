"""The ring: what `log()` was told outlives its process, whole, once, and within bounds."""

import os
import random
from itertools import pairwise
from pathlib import Path

import pytest

from trackside.monitor import ring as ring_module
from trackside.monitor import spool as spool_module
from trackside.monitor.buffer import COPIES_AHEAD, Buffer, encode_call, keep_nothing, packed
from trackside.monitor.encode import Numbers
from trackside.monitor.ring import Ring, leave_calls
from trackside.wire import ring as wire_ring
from trackside.wire.columns import unpack
from trackside.wire.ring import FIRST_SERIES, PAGE_BYTES, points_of, process_namespace, read_ring

SESSION = b"s" * 16


@pytest.fixture(autouse=True)
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "memory"
    folder.mkdir(mode=0o700)
    monkeypatch.setattr(ring_module, "memory_folder", lambda: folder)
    monkeypatch.setattr(ring_module, "memory_share", lambda: 4 * 4096)
    return folder


def log(buffer: Buffer, step: int, **values: float) -> None:
    buffer.put((-1, 1.5 + step, step, values), len(values))


def opened(buffer: Buffer) -> Ring:
    ring = Ring(SESSION, buffer)
    ring.turn(0, 1)
    return ring


def test_a_call_is_in_the_ring_as_soon_as_it_is_made(memory: Path) -> None:
    buffer = Buffer()
    ring = opened(buffer)
    (path,) = memory.glob("*.ring")
    assert path.stat().st_mode & 0o777 == 0o600
    log(buffer, 7, loss=0.5, lr=1)
    log(buffer, 8, loss=float("inf"))
    found = read_ring(path)
    assert (found.namespace, found.through, found.next_seq) == (process_namespace(), 0, 1)
    assert found.calls == [(-1, 8.5, 7, {"loss": 0.5, "lr": 1}, 1), (-1, 9.5, 8, {"loss": float("inf")}, 2)]
    assert buffer.take() == found.calls
    ring.turn(2, 5)
    found = read_ring(path)
    assert (found.through, found.next_seq) == (2, 5)
    ring.close()
    ring.close()
    assert list(memory.iterdir()) == []
    assert buffer.keep is keep_nothing


def test_the_halves_take_turns_and_nothing_that_is_in_no_frame_is_wiped(memory: Path) -> None:
    buffer = Buffer()
    ring = opened(buffer)
    (path,) = memory.glob("*.ring")
    through = 0
    for step in range(3000):
        log(buffer, step, loss=step / 7)
        if step % 13 == 12:
            through = buffer.take()[-1][4]
            ring.turn(through, step)
            found = [call[4] for call in read_ring(path).calls if call[4] > through]
            assert found == []
        else:
            found = [call[4] for call in read_ring(path).calls if call[4] > through]
            assert found == list(range(through + 1, step + 2))
    ring.close()


def test_of_calls_that_come_quicker_than_two_hundred_a_second_so_many_are_copied(memory: Path) -> None:
    buffer = Buffer()
    ring = opened(buffer)
    for step in range(1_000):
        buffer.put((-1, step / 1_000, step, {"loss": 1.0}), 1)
        if step % 100 == 99:
            ring.turn(buffer.take()[-1][4] - 100, 2)
    found = [call[2] for call in read_ring(next(memory.glob("*.ring"))).calls if call[2] >= 800]
    assert {after - before for before, after in pairwise(found)} <= {4, 5, 6}
    ring.close()
    buffer = Buffer()
    ring = opened(buffer)
    for step in range(100):
        log(buffer, 0, **{f"m{step}": 1.0})
    assert len(read_ring(next(memory.glob("*.ring"))).calls) == 100 < COPIES_AHEAD
    ring.close()


def test_a_full_ring_stops_nothing(memory: Path) -> None:
    buffer = Buffer()
    ring = opened(buffer)
    for step in range(1000):
        log(buffer, step, loss=1.0)
    assert len(buffer.take()) == 1000
    assert 50 < len(read_ring(next(memory.glob("*.ring"))).calls) < 1000
    assert buffer.keep is keep_nothing
    ring.turn(1000, 2)
    log(buffer, 1000, loss=1.0)
    assert read_ring(next(memory.glob("*.ring"))).calls[-1][4] == 1001
    ring.close()


@pytest.mark.parametrize("seed", range(20))
def test_a_call_that_was_cut_off_is_left_out_and_those_before_are_whole(memory: Path, seed: int) -> None:
    """What a kill leaves of a copy under way: a part from the left, from the right, or both without the middle."""
    chance = random.Random(seed)
    buffer = Buffer()
    ring = opened(buffer)
    for step in range(5):
        log(buffer, step, **{f"m{j}": chance.random() for j in range(chance.randrange(1, 30))})
    (path,) = memory.glob("*.ring")
    whole = read_ring(path).calls
    raw = bytearray(path.read_bytes())
    ends = [i for i in range(PAGE_BYTES, PAGE_BYTES + 4096) if raw[i]]
    records = [*map(encode_call, buffer.calls)]
    begin = ends[-1] + 1 - len(records[-1])
    cut = chance.randrange(begin, ends[-1] + 1)
    raw[cut : ends[-1] + 1] = bytes(ends[-1] + 1 - cut)
    path.write_bytes(raw)
    assert read_ring(path).calls == whole[:4]
    ring.close()


def test_calls_become_a_message_with_names_of_its_own() -> None:
    (points,) = points_of(
        [(2, 1.5, 7, {"a": 1.0, "b": 2}, 1), (-1, 2.5, 8, {"b": True, 5: 4.0, "": 1.0, "t": "no"}, 2)]
    )
    assert [(d.id - FIRST_SERIES, d.name) for d in points.defs] == [(0, "a"), (1, "b"), (2, "5")]
    columns = unpack(points)
    assert (columns.series - FIRST_SERIES).tolist() == [0, 1, 1, 2]
    assert (columns.step.tolist(), columns.epoch.tolist()) == ([7, 7, 8, 8], [2, 2, -1, -1])
    assert (columns.value.tolist(), columns.time.tolist()) == ([1.0, 2.0, 1.0, 4.0], [1.5, 1.5, 2.5, 2.5])


@pytest.mark.parametrize("damage", [b"", b"x" * PAGE_BYTES, bytes(PAGE_BYTES + 8192)])
def test_what_is_no_ring_is_refused(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "x.ring").write_bytes(damage)
    with pytest.raises(ValueError, match="no ring"):
        read_ring(tmp_path / "x.ring")


def test_a_link_in_its_place_is_not_followed(memory: Path, tmp_path: Path) -> None:
    (tmp_path / "theirs").write_bytes(b"theirs")
    buffer = Buffer()
    (memory / Ring(SESSION, buffer)._name).symlink_to(tmp_path / "theirs")
    opened(buffer)
    assert buffer.keep is keep_nothing
    assert (tmp_path / "theirs").read_bytes() == b"theirs"
    with pytest.raises(OSError, match="symbolic"):
        read_ring(memory / Ring(SESSION, buffer)._name)


def test_without_a_memory_file_system_there_is_no_ring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring_module, "memory_folder", lambda: None)
    buffer = Buffer()
    ring = opened(buffer)
    log(buffer, 1, loss=1.0)
    assert buffer.take() == [(-1, 2.5, 1, {"loss": 1.0}, 1)]
    ring.close()


def test_a_small_memory_file_system_is_left_to_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = list(os.statvfs(tmp_path))
    found[1], found[2], found[4] = 4096, 16384, 16384  # 64 MB, as a container has them
    monkeypatch.setattr(spool_module, "MEMORY", Path("/"))
    monkeypatch.setattr("os.statvfs", lambda path: os.statvfs_result(found))
    assert spool_module.memory_share() == 256 * 1024
    found[4] = 500
    assert spool_module.memory_share() == 0
    monkeypatch.setattr(spool_module, "MEMORY", tmp_path / "none")
    assert spool_module.memory_share() == 0


def test_numbers_that_two_threads_swapped_are_known_and_one_that_never_comes_holds_nothing_up() -> None:
    numbers = Numbers()
    for number in (1, 3, 4, 2, 6):
        numbers.take(number)
    assert (numbers.through, numbers.beyond) == (4, {6})
    for number in range(7, 1010):
        numbers.take(number)
    assert (numbers.through, numbers.beyond) == (1009, set())


@pytest.mark.parametrize("count", [0, 1, 15, 16, 65_535, 65_536])
def test_calls_that_are_left_are_packed_one_behind_the_other(tmp_path: Path, count: int) -> None:
    calls = [(-1, 0.5, step, {"a": 1.0}, step + 1) for step in range(count)]
    pieces, lost = packed(calls)
    path = leave_calls(tmp_path, SESSION, pieces, through=0, next_seq=1)
    assert (lost, read_ring(path).calls) == (0, calls)


def test_a_call_that_cannot_be_packed_is_lost_alone_and_counted() -> None:
    calls = [(-1, 0.5, step, {object() if step == 2 else "a": 1.0, "b": 2.0}, step + 1) for step in range(4)]
    pieces, lost = packed([*calls, b"encoded"])
    assert (lost, len(pieces), pieces[0]) == (2, 4, b"encoded")


def test_a_ring_that_was_closed_holds_no_descriptor(memory: Path) -> None:
    """Each mapping has one; a process may have one session after the other."""
    before = len(list(Path("/proc/self/fd").iterdir()))
    buffer = Buffer()
    ring = opened(buffer)
    assert len(list(Path("/proc/self/fd").iterdir())) > before
    writes = buffer.keep
    ring.close()
    writes(b"a call that was under way")
    del writes
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_calls_that_get_into_no_frame_are_left_in_a_file_and_become_messages_that_are_not_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire_ring, "FRAME_VALUES", 4)
    buffer = Buffer()
    for step in range(5):
        log(buffer, step, **({"a": step, "b": 1.0} if step < 4 else {"c": 9.0}))
    path = leave_calls(tmp_path, SESSION, packed(buffer.take())[0], through=1, next_seq=12)
    assert path.stat().st_mode & 0o777 == 0o600
    found = read_ring(path)
    assert (found.through, found.next_seq, len(found.calls)) == (1, 12, 5)
    whole = list(points_of(found.calls))
    assert [[d.name for d in message.defs] for message in whole] == [["a", "b"], [], ["c"]]
    assert [unpack(message).step.tolist() for message in whole] == [[0, 0, 1, 1], [2, 2, 3, 3], [4]]
    assert [(unpack(message).series - FIRST_SERIES).tolist() for message in whole] == [[0, 1] * 2, [0, 1] * 2, [2]]
    with pytest.raises(FileExistsError):
        leave_calls(tmp_path, SESSION, [], through=1, next_seq=12)
