"""Resource samples as columns: bounded, the newest among them, and nothing that nobody measured."""

import msgspec

from trackside.run.gauges import MOST_SAMPLES, gauges_of
from trackside.wire.documents import GaugeTrack, ResourceRecord
from trackside.wire.messages import GpuSample


def record(at: float, path: str = "root/node-a/rank0", **fields: object) -> ResourceRecord:
    rank = int(path.rpartition("rank")[2]) if "rank" in path else None
    values = {"time": at, "path": path, "host": "node-a", "rank": rank, **fields}
    return msgspec.convert(values, ResourceRecord)


def test_columns_hold_what_was_measured_and_nothing_else() -> None:
    records = [record(100.25, gpu_util=0.912345, vram_used=61_234_567_890), record(102.25, vram_used=0)]
    answer = gauges_of(records, 10)
    assert answer.origin == 100
    assert answer.tracks == [
        GaugeTrack(
            path="root/node-a/rank0",
            host="node-a",
            rank=0,
            time=[0.25, 2.25],
            values={"gpu_util": [0.9123, None], "vram_used": [61_230_000_000, 0]},
        )
    ]
    assert answer.latest == []


def test_the_newest_sample_of_each_host_comes_whole() -> None:
    gpu = GpuSample(index=0, clock_limits=["power cap"])
    host, whole = record(2, "root/node-a", gpus=[gpu]), record(3, "root", gpus=[gpu])
    assert gauges_of([record(1, "root/node-a", gpus=[gpu]), host, whole], 10).latest == [host]


def test_each_path_is_thinned_evenly_to_its_newest_sample() -> None:
    answer = gauges_of([record(float(at), path) for at in range(1000) for path in ("root/a", "root/b")], 10)
    assert [track.time for track in answer.tracks] == [[at - 0.0 for at in range(99, 1000, 100)]] * 2


def test_very_many_paths_share_one_bound() -> None:
    ranks, samples = 2000, 40
    records = [record(float(at), f"root/node-a/rank{rank}", cpu=0.5) for at in range(samples) for rank in range(ranks)]
    answer = gauges_of(records, 1000)
    assert sum(len(track.time) for track in answer.tracks) <= MOST_SAMPLES
    assert {track.time[-1] for track in answer.tracks} == {samples - 1}


def test_no_sample_is_no_track() -> None:
    assert gauges_of([], 10).tracks == []
