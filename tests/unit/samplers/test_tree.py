"""The process tree, on a made /proc for the sums and on real processes for the rest."""

import os
import subprocess
import sys
import time
from pathlib import Path

from trackside.monitor.samplers.tree import ProcessTree

TICKS = os.sysconf("SC_CLK_TCK")


class Proc:
    """A /proc of our own making."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, pid: int, parent: int, own: int, reaped: int = 0, children: str = "", pages: int = 10) -> None:
        folder = self.root / str(pid)
        (folder / "task" / str(pid)).mkdir(parents=True, exist_ok=True)
        fields = ["S", str(parent), *["0"] * 9, str(own - 1), "1", str(reaped), "0", *["0"] * 8]
        (folder / "stat").write_text(f"{pid} (a) name) {' '.join(fields)}\n")
        (folder / "statm").write_text(f"100 {pages} 0\n")
        (folder / "task" / str(pid) / "children").write_text(children)

    def remove(self, pid: int) -> None:
        for path in sorted((self.root / str(pid)).rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()
        (self.root / str(pid)).rmdir()


def cpu_ticks(tree: ProcessTree) -> float:
    reading = tree.read()
    assert reading is not None
    return reading.cpu_seconds * TICKS


def test_d22_children_count(tmp_path: Path) -> None:
    proc = Proc(tmp_path)
    proc.put(1, 0, own=100, children="2 3")
    proc.put(2, 1, own=50, children="4")
    proc.put(3, 1, own=50)
    proc.put(4, 2, own=50, pages=20)
    tree = ProcessTree(1, tmp_path)
    proc.put(1, 0, own=110, children="2 3")
    proc.put(4, 2, own=57, pages=30)
    reading = tree.read()
    assert reading is not None
    assert (reading.cpu_seconds * TICKS, reading.processes) == (17, 4)
    assert reading.memory_bytes == 60 * os.sysconf("SC_PAGE_SIZE")


def test_a_child_that_ended_is_counted_once(tmp_path: Path) -> None:
    proc = Proc(tmp_path)
    proc.put(1, 0, own=100, children="2")
    proc.put(2, 1, own=500)
    tree = ProcessTree(1, tmp_path)
    proc.remove(2)
    proc.put(1, 0, own=103, reaped=520)
    assert cpu_ticks(tree) == 3 + 20
    assert cpu_ticks(tree) == 0


def test_a_whole_branch_that_ended_is_counted_once(tmp_path: Path) -> None:
    proc = Proc(tmp_path)
    proc.put(1, 0, own=100, children="2")
    proc.put(2, 1, own=50, children="3")
    proc.put(3, 2, own=70)
    tree = ProcessTree(1, tmp_path)
    proc.remove(3)
    proc.remove(2)
    proc.put(1, 0, own=100, reaped=130)
    assert cpu_ticks(tree) == 10


def test_a_child_nobody_waited_for_takes_nothing_away(tmp_path: Path) -> None:
    proc = Proc(tmp_path)
    proc.put(1, 0, own=100, children="2")
    proc.put(2, 1, own=900)
    tree = ProcessTree(1, tmp_path)
    proc.remove(2)
    proc.put(1, 0, own=104)
    assert cpu_ticks(tree) == 4


def test_a_child_that_came_and_went_between_two_readings_counts(tmp_path: Path) -> None:
    proc = Proc(tmp_path)
    proc.put(1, 0, own=100)
    tree = ProcessTree(1, tmp_path)
    proc.put(1, 0, own=101, reaped=30)
    assert cpu_ticks(tree) == 31


def test_a_new_child_counts_from_its_start_and_a_reused_number_is_a_new_process(tmp_path: Path) -> None:
    proc = Proc(tmp_path)
    proc.put(1, 0, own=100, children="2")
    proc.put(2, 1, own=500)
    tree = ProcessTree(1, tmp_path)
    proc.put(1, 0, own=100, children="2 3")
    proc.put(2, 1, own=5)
    proc.put(3, 1, own=7)
    assert cpu_ticks(tree) == 12


def test_a_root_that_has_gone_has_no_figures(tmp_path: Path) -> None:
    proc = Proc(tmp_path)
    proc.put(1, 0, own=100)
    tree = ProcessTree(1, tmp_path)
    proc.remove(1)
    assert tree.read() is None


def test_d22_real_children_that_burn_and_end_never_make_it_negative() -> None:
    child = "import time; d = time.monotonic() + 0.15\nwhile time.monotonic() < d: pass"
    tree = ProcessTree(os.getpid())
    with subprocess.Popen([sys.executable, "-S", "-c", child]) as process:
        deadline, most = time.monotonic() + 10, 0
        while process.poll() is None and time.monotonic() < deadline:
            reading = tree.read()
            assert reading is not None
            assert reading.cpu_seconds >= 0
            most = max(most, reading.processes)
            time.sleep(0.01)
    after = tree.read()
    assert most >= 2
    assert after is not None
    assert after.cpu_seconds >= 0
    assert after.processes < most + 1
