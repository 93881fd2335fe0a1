"""The launcher's own lines."""

import contextlib
import fcntl
import os
import pty
import struct
import termios

import pytest

from trackside.launch.terminal import Terminal, duration_text


def test_entries_are_aligned_and_cannot_rewrite_the_screen() -> None:
    reading, writing = os.pipe()
    terminal = Terminal(writing)
    terminal.entry("report", "/a/b.html")
    terminal.line("  evil \x1b[2J\r name")
    os.close(writing)
    with os.fdopen(reading, "rb") as lines:
        assert lines.read() == b"  report     /a/b.html\n  evil ?[2J? name\n"


def test_on_a_narrow_terminal_a_sentence_goes_on_under_its_beginning() -> None:
    reading, writing = pty.openpty()
    fcntl.ioctl(writing, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    terminal = Terminal(writing)
    terminal.line("  warn     straggler: rank 1 on vm is behind in forward, and so on")
    terminal.entry("report", "/a/" + "b" * 60)
    os.close(writing)
    said = b""
    with contextlib.suppress(OSError):  # so a terminal ends
        while piece := os.read(reading, 4096):
            said += piece
    os.close(reading)
    assert said.decode().splitlines() == [
        "  warn     straggler: rank 1 on vm is behind in forward, and",
        "           so on",
        "  report     /a/" + "b" * 60,
    ]


def test_a_terminal_that_has_gone_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    Terminal(writing).line("nobody listens")
    os.close(writing)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.42, "420ms"),
        (0.9996, "1.0s"),
        (1.5, "1.5s"),
        (12.2, "12s"),
        (9.97, "10s"),
        (59.7, "1m 0s"),
        (272, "4m 32s"),
        (11520, "3h 12m"),
    ],
)
def test_b45_durations(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text
