import io

import pytest

from trackside.sinks.terminal import TerminalSink, escape_controls


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("é 🚀 中", "é 🚀 中"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("two\nlines\r", "two\\x0alines\\x0d"),
        ("right\u202eto left", "right\\u202eto left"),
        ("\u2028", "\\u2028"),
        ("\x9b31m", "\\x9b31m"),
    ],
)
def test_nothing_steers_the_terminal(text, shown):
    assert escape_controls(text) == shown


def test_a_line_is_one_line():
    stream = io.StringIO()
    TerminalSink(stream).print_line("a\nb" + "x" * 10_000)
    assert stream.getvalue().count("\n") == 1
    assert len(stream.getvalue()) < 2100
