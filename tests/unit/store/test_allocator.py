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
