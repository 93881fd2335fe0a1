"""Memory that was freed is the machine's again."""

import subprocess

HOLES = """
import psutil
from trackside.store.allocator import give_back

process = psutil.Process()
filled = [bytes(2000) for _ in range(60_000)]
kept, full = filled[::1000], process.memory_info().rss
del filled
held = process.memory_info().rss
give_back()
print(full - held, full - process.memory_info().rss)
"""


def test_what_was_freed_between_things_that_are_kept_goes_back(python: str) -> None:
    done = subprocess.run([python, "-c", HOLES], capture_output=True, text=True, timeout=60, check=True)
    by_itself, after = map(int, done.stdout.split())
    assert by_itself < 60e6
    assert after > 90e6


LARGE = """
import sys
import psutil
from trackside.store.allocator import map_large_blocks

process = psutil.Process()
if sys.argv[1:]:
    map_large_blocks()
first = bytearray(24_000_000)
del first  # glibc takes what is smaller from its arenas from now on
larges, smalls = [], []
for _ in range(100):
    larges.append(bytearray(b"x") * 1_000_000)
    smalls.append(bytes(2000))
full = process.memory_info().rss
del larges
print(full - process.memory_info().rss)
"""


def test_large_blocks_go_back_at_once_whatever_small_ones_lie_between(python: str) -> None:
    by_itself, mapped = (
        int(subprocess.run([python, "-c", LARGE, *how], capture_output=True, text=True, timeout=60, check=True).stdout)
        for how in ([], ["mapped"])
    )
    assert by_itself < 20e6
    assert mapped > 90e6
