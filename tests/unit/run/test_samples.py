"""Resource samples as they are kept: what is read is what was told, and a path costs a bounded number of bytes."""

import tracemalloc

import msgspec
import pytest

from tests.unit.run.play import Play
from trackside.run.samples import PathSamples
from trackside.wire import messages
from trackside.wire.documents import ResourceRecord

GPU = messages.GpuSample(
    index=3, uuid="GPU-3", name="Accelerator", util=0.5, memory_used=1 << 35, clock_limits=["heat"]
)


def record(at: int, **fields: object) -> ResourceRecord:
    told = {"cpu": at / 7, "memory_used": (8 << 30) + at, "cpu_limit_source": "cgroup v2", "gpus": [GPU]}
    return ResourceRecord(time=1.7e9 + at, path="root/a/rank5", host="a", rank=5, **{**told, **fields})


def test_samples_are_read_as_they_were_told() -> None:
    told = [record(at) for at in range(9)] + [record(9, gpus=[], cpu=None)]
    kept = PathSamples(told[0])
    size = sum(kept.add(one, keep_gpus=True) for one in told[1:])
    assert len(kept) == 10
    assert kept.spread(10) == kept.spread(100) == told
    assert kept.spread(3) == [told[3], told[6], told[9]]
    assert kept.spread(1) == [told[9]]
    assert kept.spread(0) == []
    assert size == sum(len(packed) + 41 for packed in kept.older)
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(kept), type=PathSamples)
    assert again.spread(10) == told


def test_only_the_newest_lists_gpus_where_that_is_asked() -> None:
    kept = PathSamples(record(0))
    kept.add(record(1), keep_gpus=False)
    assert [one.gpus for one in kept.spread(2)] == [[], [GPU]]


def test_every_second_one_of_the_older_half_goes_unless_there_are_few() -> None:
    kept = PathSamples(record(0))
    size = sum(kept.add(record(at), keep_gpus=True) for at in range(1, 9))
    assert kept.thin(9) == 0
    assert len(kept) == 9
    size -= kept.thin(8)
    assert [one.time - 1.7e9 for one in kept.spread(99)] == [0, 2, 4, 5, 6, 7, 8]
    assert size == sum(len(packed) + 41 for packed in kept.older)


def test_what_a_rank_costs_does_not_grow_with_the_hours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trackside.run.resources.KEPT_BYTES", 40_000)
    play = Play()
    sessions = [play.hello(rank, world=4) for rank in range(4)]

    def go_on(seconds: range) -> int:
        for second in seconds:
            play.at = float(second)
            for session in sessions:
                mine = messages.RankSample(cpu=second / 9, memory=(8 << 30) + second, gpu=GPU)
                play.tell(session, messages.ResourceSample(time=play.at, interval_seconds=1.0, rank=mine))
            play.said.clear()
        return tracemalloc.get_traced_memory()[0]

    go_on(range(400))
    tracemalloc.start()
    try:
        first, second = go_on(range(400, 1200)), go_on(range(1200, 3600))
    finally:
        tracemalloc.stop()
    assert play.machine.state.samples_bytes <= 40_000
    assert second - first < 20_000
