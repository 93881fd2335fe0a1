"""Memory that was freed is the machine's again."""

import subprocess
from pathlib import Path

import pytest

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
    smalls.append(bytearray(b"x") * 60_000)  # larger than any hole there is
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


MERGES = """
import sys, time
from pathlib import Path
import numpy as np
import psutil
from trackside.store import RunFolder, StoreWriter, keep_frames_out, map_large_blocks, settler, writer
from trackside.wire.columns import PointBatch

map_large_blocks()
keep_frames_out()
settler.MOST_FILES, settler.MERGED_ROWS, writer.COMMIT_SECONDS = 4, 800_000, 0.001
asked = []
store = StoreWriter(
    RunFolder(Path(sys.argv[1])), on_durable=len, on_status=id, on_checkpoint_wanted=lambda: asked.append(1)
)
store.folder.make_parts()
store.start()
for metric in range(20):
    store.define_metric(metric, f"train/metric{metric}")
ranks, steps = 256, 20
for rank in range(ranks):
    store.define_rank(rank, 0, f"root/a/rank{rank}")
rows = ranks * steps * 20
sizes = []
for turn in range(10):
    step = turn * steps + np.tile(np.repeat(np.arange(steps), 20), ranks)
    zeros = np.zeros(rows, np.int32)
    store.points(
        PointBatch(
            metric=np.tile(np.arange(20, dtype=np.int32), ranks * steps), rank=np.repeat(np.arange(ranks), steps * 20).astype(np.int32),
            generation=zeros, epoch=zeros - 1, step=step, time=1.7e9 + step, value=np.random.default_rng(turn).normal(size=rows),
        )
    )
    store.checkpoint(b"state")
    deadline = time.monotonic() + 30
    while store.status().points_in_memory and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.3)
    sizes.append(psutil.Process().memory_info().rss)
print(store.status().segments, min(sizes[-3:]) - sizes[1])
store.close(clean=False, deadline_seconds=30)
"""


@pytest.mark.long
def test_what_a_merge_of_segments_took_goes_back(python: str, tmp_path: Path) -> None:
    command = [python, "-c", MERGES, str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    segments, grown = map(int, done.stdout.split())
    assert segments < 8
    assert grown < 40e6
