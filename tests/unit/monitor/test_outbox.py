"""Frames until they are durable: in memory, then on disk, in order, bounded."""

import os
from pathlib import Path

import pytest

from trackside.monitor import trail as trail_module
from trackside.monitor.outbox import Outbox, named_shortly, undelivered_line
from trackside.wire.spool import read_spool

SESSION = b"s" * 16


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("trackside.monitor.spool.memory_share", lambda: 0)
    monkeypatch.setattr("trackside.monitor.trail.memory_share", lambda: 0)
    return tmp_path


def frame(seq: int) -> bytes:
    return f"{seq:03d}".encode().ljust(10, b".")


def filled(count: int, memory_bytes: int = 50) -> Outbox:
    outbox = Outbox(SESSION, memory_bytes)
    outbox.hello = b"hello"
    for seq in range(1, count + 1):
        assert outbox.add(frame(seq), seq)
    return outbox


def send_all(outbox: Outbox, upto: int = 1000) -> list[int]:
    sent = []
    while len(sent) < upto and (found := outbox.next_unsent()) is not None:
        outbox.mark_sent()
        sent.append(int(found[:3]))
    return sent


def test_frames_are_sent_once_and_again_after_a_rewind() -> None:
    outbox = filled(4)
    assert send_all(outbox) == [1, 2, 3, 4]
    assert send_all(outbox) == []
    outbox.acknowledge(2)
    assert send_all(outbox) == []
    outbox.rewind(3)
    assert send_all(outbox) == [4]
    outbox.acknowledge(4)
    assert len(outbox) == 0


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.part"))


def frames_in(paths: list[Path]) -> list[bytes]:
    return [found for path in paths for found in read_spool(path) if found != b"hello"]


def test_what_memory_cannot_hold_comes_back_from_disk_in_order(temporary: Path) -> None:
    outbox = filled(40)
    assert len(files(temporary)) == 1
    seen: list[int] = []
    while len(outbox):
        seen += send_all(outbox, 2)
        outbox.acknowledge(seen[-1])
    assert seen == list(range(1, 41))
    outbox.close()
    assert files(temporary) == []


def test_every_frame_is_on_the_trail_before_it_is_sent(temporary: Path) -> None:
    outbox = Outbox(SESSION)
    assert outbox.add(frame(1), 1)
    assert files(temporary) == []
    outbox.open_trail(b"hello")
    assert outbox.add(frame(2), 2)
    (part,) = files(temporary)
    assert list(read_spool(part)) == [b"hello", frame(1), frame(2)]
    assert part.stat().st_mode & 0o077 == 0
    assert outbox.unkept_frames == 0
    outbox.close()
    assert files(temporary) == []


def test_the_trail_is_a_row_of_short_files_and_those_that_are_done_go(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trail_module, "DISK_FILE_BYTES", 60)
    outbox = Outbox(SESSION)
    outbox.open_trail(b"hello")
    for seq in range(1, 8):
        assert outbox.add(frame(seq), seq)
    assert [len(frames_in([path])) for path in files(temporary)] == [2, 2, 2, 1]
    outbox.acknowledge(3)
    assert frames_in(files(temporary)) == [frame(seq) for seq in (3, 4, 5, 6, 7)]
    outbox.acknowledge(7)
    assert len(files(temporary)) == 1
    assert outbox.add(frame(8), 8)
    assert frames_in(files(temporary))[-1] == frame(8)
    outbox.close()


def test_another_hello_begins_another_file_with_all_that_waits(temporary: Path) -> None:
    outbox = filled(3)
    outbox.open_trail(b"hello")
    outbox.open_trail(b"it is me")
    assert outbox.add(frame(4), 4)
    (part,) = files(temporary)
    assert list(read_spool(part)) == [b"it is me", *(frame(seq) for seq in range(1, 5))]
    outbox.close()


def test_memory_is_taken_first_and_the_disk_when_its_share_is_full(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = temporary / "memory"
    memory.mkdir()
    monkeypatch.setattr(trail_module, "memory_share", lambda: 240)
    monkeypatch.setattr(trail_module, "memory_folder", lambda: memory)
    outbox = Outbox(SESSION, 50)
    outbox.open_trail(b"hello")
    for seq in range(1, 11):
        assert outbox.add(frame(seq), seq)
    assert [len(frames_in([path])) for path in files(memory)] == [2, 2]
    assert frames_in(sorted(files(temporary), key=lambda path: path.name)) == [frame(seq) for seq in range(1, 11)]
    paths = outbox.leave_on_disk(temporary / "left")
    assert all(memory not in path.parents for path in paths)
    assert {*frames_in(paths)} == {frame(seq) for seq in range(1, 11)}
    assert files(temporary) == []


def test_what_cannot_be_left_stays_on_the_trail(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outbox = filled(3)
    outbox.open_trail(b"hello")
    monkeypatch.setattr("trackside.monitor.outbox.Spool", None)
    with pytest.raises(TypeError):
        outbox.leave_on_disk(temporary / "left")
    paths = outbox.abandon()
    outbox.close()
    assert frames_in(paths) == [frame(1), frame(2), frame(3)]


def test_without_a_folder_of_our_own_frames_are_in_memory_only(temporary: Path) -> None:
    (temporary / f"trackside-{os.getuid()}").symlink_to(temporary)
    outbox = Outbox(SESSION, 50)
    outbox.open_trail(b"hello")
    assert [outbox.add(frame(seq), seq) for seq in range(1, 8)] == [True] * 5 + [False] * 2
    assert outbox.unkept_frames == 5
    assert list(temporary.glob("*.part")) == []
    outbox.acknowledge(5)
    assert outbox.unkept_frames == 0


def test_what_is_left_lies_in_files_that_sort_in_order(tmp_path: Path) -> None:
    outbox = filled(8)
    outbox.acknowledge(1)
    paths = outbox.leave_on_disk(tmp_path / "run" / "spool")
    assert [path.name[-13:] for path in paths] == ["-000000.spool", "-000001.spool"]
    assert paths[0].parent == tmp_path / "run" / "spool"
    assert list(dict.fromkeys(frames_in(paths)))[:4] == [frame(seq) for seq in range(2, 6)]
    assert {*frames_in(paths)} >= {frame(seq) for seq in range(2, 9)}
    assert len(outbox) == 0


def test_a_folder_that_cannot_be_had_is_no_matter(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (path,) = filled(1).leave_on_disk(tmp_path / "file" / "spool")
    assert list(read_spool(path)) == [b"hello", frame(1)]


def test_a_full_spool_refuses_and_what_it_has_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trail_module, "MAX_BYTES", 140)
    outbox = filled(7)
    assert not outbox.add(frame(8), 8)
    assert not outbox.add(frame(9), 9)
    outbox.acknowledge(5)
    assert send_all(outbox) == [6, 7]


def test_without_a_taker_nothing_goes_to_disk(temporary: Path) -> None:
    outbox = Outbox(SESSION, 50)
    outbox.may_spool = False
    assert [outbox.add(frame(seq), seq) for seq in range(1, 8)] == [True] * 5 + [False] * 2
    assert list(temporary.rglob("*")) == []


def test_a_damaged_spool_loses_what_is_damaged_and_counts_it(temporary: Path) -> None:
    outbox = filled(8)
    (part,) = temporary.rglob("*.part")
    raw = bytearray(part.read_bytes())
    raw[-1] ^= 0xFF
    part.write_bytes(raw)
    outbox.acknowledge(5)
    assert send_all(outbox) == [6, 7]
    assert outbox.lost_frames == 1


def test_nothing_left_leaves_nothing(temporary: Path) -> None:
    outbox = filled(8)
    outbox.acknowledge(8)
    assert outbox.leave_on_disk(None) == []
    assert [path for path in temporary.rglob("*") if path.is_file()] == []


def test_many_files_are_named_in_few_words() -> None:
    paths = [
        Path(f"/{folder}/trackside-73-{n:06d}.spool") for folder, count in (("a", 1), ("b", 3)) for n in range(count)
    ]
    assert named_shortly(paths) == ["/a/trackside-73-000000.spool", "/b/trackside-73-*"]
    assert named_shortly([]) == []


def test_what_was_not_delivered_is_said_with_what_takes_it_in() -> None:
    assert undelivered_line(3, [Path("/a/trackside-73-000000.spool")]) == (
        "  trackside: 3 messages were not delivered (`trackside recover` takes them in); they lie in "
        "/a/trackside-73-000000.spool"
    )
