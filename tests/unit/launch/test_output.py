"""The ranks' lines: whole, prefixed, on the stream they were written to."""

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.unit.launch.polling import eventually
from trackside.launch.output import RankOutput, RankStream


@pytest.fixture
def stream() -> Iterator[RankStream]:
    made = RankStream("[gpu-02:r3] ")
    yield made
    made.close()


def write(path: str, text: bytes) -> None:
    with Path(path).open("ab") as file:
        file.write(text)


def test_b47_each_line_carries_host_and_rank(stream: RankStream) -> None:
    write(stream.path, b"one\ntwo\n")
    assert stream.read(0.0) == b"[gpu-02:r3] one\n[gpu-02:r3] two\n"
    assert stream.read(0.0) == b""


def test_a_line_is_shown_when_it_is_whole(stream: RankStream) -> None:
    write(stream.path, b"par")
    assert stream.read(0.0) == b""
    write(stream.path, b"ts\nrest")
    assert stream.read(0.0) == b"[gpu-02:r3] parts\n"
    assert stream.read(0.0, last=True) == b"[gpu-02:r3] rest\n"


def test_bytes_that_are_no_text_go_through(stream: RankStream) -> None:
    write(stream.path, b"\xff\xfe\n\n")
    assert stream.read(0.0) == b"[gpu-02:r3] \xff\xfe\n[gpu-02:r3] \n"


def test_a_progress_bar_is_shown_now_and_then(stream: RankStream) -> None:
    write(stream.path, b"\r 10%\r 20%")
    assert stream.read(10.0) == b"[gpu-02:r3]  20%\n"
    write(stream.path, b"\r 30%")
    assert stream.read(10.5) == b""
    assert stream.read(11.5) == b"[gpu-02:r3]  30%\n"
    write(stream.path, b"\r100%\n")
    assert stream.read(11.6) == b"[gpu-02:r3] 100%\n"


def test_a_line_without_end_is_cut(stream: RankStream) -> None:
    write(stream.path, b"x" * 100_000)
    assert stream.read(0.0) == b"[gpu-02:r3] " + b"x" * 100_000 + b"\n"


def test_a_backlog_without_end_costs_lines_and_says_so(stream: RankStream) -> None:
    with Path(stream.path).open("r+b") as file:
        file.truncate(80 << 20)
        file.seek(0, os.SEEK_END)
        file.write(b"\nlast\n")
    shown = stream.read(0.0)
    assert b"bytes of output were not shown)\n" in shown
    assert shown.endswith(b"[gpu-02:r3] last\n")
    assert len(shown) < 1 << 20


def test_what_was_shown_is_given_back(stream: RankStream) -> None:
    line = b"y" * 1023 + b"\n"
    write(stream.path, line * 8192)
    assert len(stream.read(0.0)) == 8192 * (1024 + 12)
    assert Path(stream.path).stat().st_blocks * 512 < 1 << 20


@pytest.fixture
def pipes() -> Iterator[tuple[RankOutput, Callable[[int], bytes], list[int]]]:
    """An output into two pipes, how to read what came through one, and the pipes' reading ends."""
    made = [os.pipe() for _ in range(2)]
    collected = [bytearray(), bytearray()]

    def drain(at: int) -> None:
        while chunk := os.read(made[at][0], 65536):
            collected[at].extend(chunk)

    readers = [threading.Thread(target=drain, args=(at,)) for at in range(2)]
    for reader in readers:
        reader.start()
    output = RankOutput(made[0][1], made[1][1])
    yield output, lambda at: bytes(collected[at]), [made[0][0], made[1][0]]
    output.close()
    for _, writing in made:
        os.close(writing)
    for reader in readers:
        reader.join(5)
    for reading, _ in made:
        os.close(reading)


def test_streams_stay_apart_and_are_live(pipes: tuple[RankOutput, Callable[[int], bytes], list[int]]) -> None:
    output, seen, _ = pipes
    write(output.open("[h:r0] ", to_stderr=False), b"out\n")
    write(output.open("[h:r0] ", to_stderr=True), b"err\n")
    eventually(lambda: (seen(0), seen(1)) == (b"[h:r0] out\n", b"[h:r0] err\n"))


def test_the_end_shows_the_rest(pipes: tuple[RankOutput, Callable[[int], bytes], list[int]]) -> None:
    output, seen, _ = pipes
    write(output.open("[h:r1] ", to_stderr=False), b"no line end")
    output.close()
    output.close()
    eventually(lambda: seen(0) == b"[h:r1] no line end\n")


def test_a_reader_that_leaves_harms_nobody() -> None:
    reading, writing = os.pipe()
    output = RankOutput(writing, writing)
    path = output.open("[h:r1] ", to_stderr=False)
    os.close(reading)
    write(path, b"into the void\n")
    output.close()
    os.close(writing)
