"""Frames until they are durable: in memory, then on disk, in order, bounded."""

from pathlib import Path

import pytest

from trackside.monitor import spool as spool_module
from trackside.monitor.outbox import Outbox
from trackside.wire.spool import read_spool

SESSION = b"s" * 16


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
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


def test_what_memory_cannot_hold_comes_back_from_disk_in_order(temporary: Path) -> None:
    outbox = filled(40)
    assert len(list(temporary.rglob("*.part"))) == 1
    seen: list[int] = []
    while len(outbox):
        seen += send_all(outbox, 2)
        outbox.acknowledge(seen[-1])
    assert seen == list(range(1, 41))
    assert list(temporary.rglob("*.part")) == []


def test_a_live_spool_can_be_read_by_others_at_any_time(temporary: Path) -> None:
    outbox = filled(8)
    (part,) = temporary.rglob("*.part")
    assert list(read_spool(part)) == [b"hello", frame(6), frame(7), frame(8)]
    assert part.stat().st_mode & 0o077 == 0
    outbox.close()


def test_what_is_left_lies_in_files_that_sort_in_order(tmp_path: Path) -> None:
    outbox = filled(8)
    outbox.acknowledge(1)
    paths = outbox.leave_on_disk(tmp_path / "run" / "spool")
    assert [path.name[-8:] for path in paths] == ["-0.spool", "-1.spool"]
    frames = [found for path in sorted(paths, key=lambda path: path.name) for found in read_spool(path)]
    assert [found for found in frames if found != b"hello"] == [frame(seq) for seq in range(2, 9)]
    assert paths[0].parent == tmp_path / "run" / "spool"
    assert len(outbox) == 0


def test_a_folder_that_cannot_be_had_is_no_matter(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (path,) = filled(1).leave_on_disk(tmp_path / "file" / "spool")
    assert list(read_spool(path)) == [b"hello", frame(1)]


def test_a_full_spool_refuses_and_what_it_has_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool_module, "MAX_BYTES", 60)
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
    assert list(temporary.rglob("*.spool")) == []
