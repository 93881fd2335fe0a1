import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trackside.store.journal import (
    CHECKPOINT,
    MAGIC,
    ROLL,
    AppendFile,
    Checkpoint,
    Damage,
    Frame,
    RollCall,
    pack,
    pack_frame,
    read_file,
    read_journal,
)

SESSION = b"s" + b"\1" * 15
same_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)

frames_of = st.lists(st.binary(max_size=60) | st.just(MAGIC * 3), min_size=1, max_size=12).map(
    lambda payloads: [Frame(SESSION, float(at), data) for at, data in enumerate(payloads)]
)


def written(path: Path, frames: list[Frame]) -> list[int]:
    """Write a journal; return where each record ends."""
    records = [pack_frame(frame) for frame in frames]
    path.write_bytes(b"".join(records))
    return [sum(map(len, records[: at + 1])) for at in range(len(records))]


def test_what_was_written_is_read_in_order(tmp_path: Path) -> None:
    first, second = tmp_path / "000001.log", tmp_path / "000002.log"
    a, b, c = (Frame(SESSION, 1.5, data) for data in (b"a", b"", b"c" * 100_000))
    first.write_bytes(pack_frame(a) + pack_frame(b))
    second.write_bytes(pack(CHECKPOINT, b"state") + pack(ROLL, b"roll") + pack_frame(c))
    assert list(read_journal([first, second])) == [a, b, Checkpoint(b"state"), RollCall(b"roll"), c]


def test_a_file_that_has_gone_is_left_out(tmp_path: Path) -> None:
    assert list(read_journal([tmp_path / "gone.log"])) == []


def test_a_record_of_a_kind_that_is_not_known_here_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "000001.log"
    frame = Frame(SESSION, 0.0, b"x")
    path.write_bytes(pack(77, b"from the future") + pack_frame(frame))
    assert list(read_journal([path])) == [frame]


@same_folder
@given(frames=frames_of, data=st.data())
def test_a_torn_tail_loses_the_last_record_only(tmp_path: Path, frames: list[Frame], data: st.DataObject) -> None:
    path = tmp_path / "000001.log"
    ends = written(path, frames)
    cut = data.draw(st.integers(0, ends[-1]))
    path.write_bytes(path.read_bytes()[:cut])
    whole = sum(end <= cut for end in ends)
    found = list(read_journal([path]))
    assert [entry for entry in found if not isinstance(entry, Damage)] == frames[:whole]
    start = ([0, *ends])[whole]
    expected = [] if cut == start else [Damage(path, start, cut - start, is_torn_tail=True)]
    assert found[whole:] == expected


@same_folder
@given(frames=frames_of, data=st.data())
def test_a_flipped_bit_loses_one_record_and_is_reported(
    tmp_path: Path, frames: list[Frame], data: st.DataObject
) -> None:
    path = tmp_path / "000001.log"
    ends = written(path, frames)
    at = data.draw(st.integers(0, ends[-1] - 1))
    content = bytearray(path.read_bytes())
    content[at] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(content)
    hit = sum(end <= at for end in ends)
    found = list(read_journal([path]))
    assert [entry for entry in found if not isinstance(entry, Damage)] == frames[:hit] + frames[hit + 1 :]
    assert [type(entry) for entry in found].index(Damage) == hit
    assert sum(isinstance(entry, Damage) for entry in found) == 1


@same_folder
@given(garbage=st.binary(max_size=300))
def test_garbage_never_raises(tmp_path: Path, garbage: bytes) -> None:
    path = tmp_path / "000001.log"
    path.write_bytes(garbage)
    assert all(isinstance(entry, Damage) for entry in read_journal([path]))


def test_zeros_behind_the_last_record_are_a_torn_tail(tmp_path: Path) -> None:
    path = tmp_path / "000001.log"
    frame = Frame(SESSION, 0.0, b"x")
    path.write_bytes(pack_frame(frame) + b"\0" * 4096)
    assert list(read_journal([path]))[1:] == [Damage(path, len(pack_frame(frame)), 4096, is_torn_tail=True)]


def test_looking_for_the_next_record_has_an_end(tmp_path: Path) -> None:
    """A frame full of record heads that claim to be long must not cost a checksum of all that follows, each."""
    path = tmp_path / "000001.log"
    heads = struct.pack("<4sBII", MAGIC, 2, 3_000_000, 0) * 300_000
    path.write_bytes(b"x" + heads)
    (damage,) = read_journal([path])
    assert isinstance(damage, Damage)


def test_reading_goes_on_where_it_stopped(tmp_path: Path) -> None:
    path = tmp_path / "000001.log"
    a, b = Frame(SESSION, 0.0, b"a"), Frame(SESSION, 1.0, b"b")
    file = AppendFile(path, is_new=True)
    file.append([pack_frame(a)])
    ((_, end),) = read_file(path)
    file.append([pack_frame(b)])
    file.close()
    assert [entry for entry, _ in read_file(path, end)] == [b]


def test_an_append_that_fails_is_taken_back(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "000001.log"
    a, b = Frame(SESSION, 0.0, b"a" * 1000), Frame(SESSION, 1.0, b"b" * 1000)
    file = AppendFile(path, is_new=True)
    file.append([pack_frame(a)])

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fdatasync", full)
        with pytest.raises(OSError, match="No space"):
            file.append([pack_frame(b)])
    assert list(read_journal([path])) == [a]
    file.append([pack_frame(b)])
    file.close()
    assert list(read_journal([path])) == [a, b]


def test_a_new_file_never_takes_anothers_place(tmp_path: Path) -> None:
    (tmp_path / "000001.log").touch()
    with pytest.raises(FileExistsError):
        AppendFile(tmp_path / "000001.log", is_new=True)
