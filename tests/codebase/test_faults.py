"""The page of faults is what the tests last found, and no test of a fault is without a row."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.outcomes import Outcome, Shown, show


def collected(root: Path) -> set[str]:
    """Ids of all tests of `tests/faults`, without the numbers of promises and complaints."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "tests/faults"],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout
    named = (line for line in done.stdout.splitlines() if "::" in line)
    return {re.sub(r"::test_(?:[bd]\d\d_)+", "::test_", line) for line in named}


def test_every_test_of_a_fault_has_a_row_and_no_other(root: Path) -> None:
    outcomes = json.loads((root / "tests/faults/outcomes.json").read_text())
    assert outcomes.keys() == collected(root), "FAULT_OUTCOMES=tests/faults/outcomes.json pytest tests/faults"


FAULTS = {
    "a process is killed by SIGKILL": (
        "killed_rank_loses_nothing",
        "controller_killed_again",
        "everything_on_the_host_dies",
    ),
    "a process is stopped by SIGSTOP": ("controller_that_stands_still", "rank_that_stands_still"),
    "the network is cut, delayed, a black hole, reset, truncated, doubled, reordered, forged, replayed": (
        *(f"fault_that_passes_costs_no_point[{fault}]" for fault in ("cut", "delay", "blackhole", "reset", "truncate")),
        *(f"fault_that_passes_costs_no_point[{fault}]" for fault in ("duplicate", "reorder", "corrupt")),
        "what_a_rank_has_sent_is_of_no_use",
    ),
    "the disk is full, refuses, hangs": (
        "full_disk_stops_nothing",
        "once_it_takes_again[122-",
        "once_it_takes_again[30-",
        "disk_that_hangs",
        "mount_that_hangs",
    ),
    "the clock jumps": ("wall_clock_that_jumps", "[-300-"),
    "descriptors, processor, memory are used up": (
        "rank_without_descriptors",
        "controller_without_descriptors",
        "starved_processor",
        "kernel_kills_for_its_memory",
    ),
    "others at the ports": (
        "reads_a_hundred_times_too_slowly",
        "bytes_at_a_port_harm_nobody[page]",
        "bytes_at_a_port_harm_nobody[link]",
    ),
    "the program's own ways": (
        *(
            "programs_process_is_left_as_it_was",
            "collect_garbage[fork]",
            "collect_garbage[spawn]",
            "garbage[forkserver]",
        ),
        *(
            "eight threads]",
            "exception]",
            "exception in a thread]",
            "os._exit]",
            "KeyboardInterrupt]",
            "SystemExit(3)]",
        ),
        *("log() while the interpreter ends]", "log() after finish()]", "log() before anything]", "os.fork makes]"),
    ),
    "it is preempted": ("preempted_program", "asked_to_end_and_killed_five_seconds_later"),
}
"""What may happen, and parts of the names of the tests that make it happen."""


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_that_may_happen_is_made(root: Path, fault: str) -> None:
    told = json.loads((root / "tests/faults/outcomes.json").read_text())
    assert [part for part in FAULTS[fault] if not any(part in test for test in told)] == []


def test_what_was_not_shown_is_not_told() -> None:
    shown = show("same", 1, 1)
    told = Outcome()
    told.tell("a fault", training=shown, points=(shown, show("all", [], [])), page=shown, report=shown)
    assert told.row == {"fault": "a fault", "training": "same", "points": "same; all", "page": "same", "report": "same"}
    with pytest.raises(AssertionError, match="same: 1 is not 2"):
        show("same", 1, 2)
    with pytest.raises(TypeError, match="come from show"):
        Shown("same")
    for cell in ("same", ("same",), (), None):
        with pytest.raises(TypeError, match="was not shown"):
            told.tell("a fault", training=shown, points=shown, page=cell, report=shown)  # type: ignore[arg-type]


def test_the_page_of_faults_is_current(root: Path) -> None:
    done = subprocess.run([sys.executable, "scripts/faults.py", "--check"], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_stale_page_and_an_unknown_group_are_seen(root: Path, tmp_path: Path) -> None:
    for name in ("scripts/faults.py", "tests/faults/outcomes.json", "docs/explanation/faults.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, tmp_path / name)
    written = tmp_path / "docs/explanation/faults.md"
    assert len(re.findall(r"^\| (?!fault|---)", written.read_text(), re.M)) == len(
        json.loads((root / "tests/faults/outcomes.json").read_text())
    ), "a file of tests that scripts/faults.py does not know"
    written.write_text(written.read_text().replace("| same |", "| other |", 1))
    command = [sys.executable, "scripts/faults.py", "--check"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True).returncode == 1
