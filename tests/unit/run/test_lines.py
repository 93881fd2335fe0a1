"""Long lines on a terminal."""

import pytest

from trackside.run.lines import hang

LONG = (
    "straggler: rank 1 on host-a is behind in forward: 24.1 ms a step, its peers 20.4 ms; see `trackside diagnose /a/b`"
)


@pytest.mark.parametrize(
    ("line", "columns", "lines"),
    [
        (
            f"  warn     {LONG}",
            65,
            [
                "  warn     straggler: rank 1 on host-a is behind in forward: 24.1",
                "           ms a step, its peers 20.4 ms; see",
                "           `trackside diagnose /a/b`",
            ],
        ),
        ("  critical rank failed: " + "x" * 70, 60, ["  critical rank failed:", " " * 11 + "x" * 70]),
        (f"             {LONG[:40]}", 50, ["             straggler: rank 1 on host-a is behind", "             in"]),
        (f"  warn     {LONG}", 0, [f"  warn     {LONG}"]),
        (f"  warn     {LONG}", 30, [f"  warn     {LONG}"]),
        (f"  warn     {LONG}", 200, [f"  warn     {LONG}"]),
        ("  dashboard  http://localhost:7117  from elsewhere: ssh -L 7117:localhost:7117 gpu", 60, None),
        ("             trackside diagnose /home/you/runs/20261130T071106Z-digits and more", 60, None),
        ("whatever else is said, by whomever it may be said, at any length", 60, None),
    ],
)
def test_a_sentence_goes_on_under_its_beginning_and_what_is_to_be_copied_stays_whole(
    line: str, columns: int, lines: list[str] | None
) -> None:
    assert hang(line, columns) == (lines or [line])
