import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest

from tests.unit.server.made_run import MadeRun, rank
from trackside.server import hub as hub_module
from trackside.server import subscriber as subscriber_module
from trackside.server.hub import Hub, pause_s
from trackside.server.subscriber import Subscriber
from trackside.wire.columns import PointBatch
from trackside.wire.documents import EpochRecord, EventRecord, ResourceRecord

Event = tuple[str, str | None, Any]


def events_of(chunk: bytes) -> list[Event]:
    """(name, id, data) of every event in a piece of a stream."""
    found = []
    for block in chunk.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line and not line.startswith(":"))
        if "event" in fields:
            found.append((fields["event"], fields.get("id"), json.loads(fields["data"])))
    return found


def names(events: list[Event]) -> list[str]:
    return [name for name, _, _ in events]


async def next_events(subscriber: Subscriber, seconds: float = 2.0) -> list[Event]:
    assert await subscriber.wait(seconds), "nothing came"
    return events_of(subscriber.take())


async def events_until(subscriber: Subscriber, name: str) -> list[Event]:
    found: list[Event] = []
    while name not in names(found):
        found += await next_events(subscriber)
    return found


def batch(*rows: tuple[int, int, float], metric: int = 0) -> PointBatch:
    """Rows of (rank, step, value)."""
    count = len(rows)
    return PointBatch(
        metric=np.full(count, metric, np.int32),
        rank=np.array([row[0] for row in rows], np.int32),
        generation=np.zeros(count, np.int32),
        epoch=np.full(count, -1, np.int32),
        step=np.array([row[1] for row in rows], np.int64),
        time=np.full(count, 1000.0),
        value=np.array([row[2] for row in rows]),
    )


def event(number: int, count: int = 1) -> EventRecord:
    return EventRecord(id=number, time=1.0, path="root", kind="user", severity="info", text="x", count=count)


def epoch(number: int) -> EpochRecord:
    return EpochRecord(
        epoch=number,
        seconds=1.0,
        metrics={},
        samples=None,
        batches=None,
        throughput=None,
        ranks=1,
        complete=True,
        ended_at=1.0,
    )


Scene = Callable[[MadeRun, Hub], Awaitable[None]]


def play(scene: Scene) -> None:
    async def run() -> None:
        source = MadeRun()
        hub = Hub(source, "boot", lambda: 1234.5)
        hub.define_metric(0, "loss", "mean")
        hub.define_rank()
        await scene(source, hub)
        hub.close()

    asyncio.run(run())


def test_a_client_gets_the_whole_state_first_and_then_what_changes():
    async def scene(source: MadeRun, hub: Hub) -> None:
        source.epoch_list, source.event_list = [epoch(0)], [event(1)]
        source.resource_list = [ResourceRecord(time=1.0, path="root/node-a", host="node-a", rank=None)]
        hub.push_window(batch((0, 0, 1.0), (1, 0, 3.0)))
        await asyncio.sleep(0)
        client = hub.subscribe("root", None)
        state = await next_events(client)
        assert names(state) == ["hello", "run", "ranks", "epoch", "event", "resources", "points"]
        assert state[0][2] == {
            "protocol": 1, "version": hub_module.__version__, "run": "run-a", "path": "root", "server_time": 1234.5,
            "resumed": False,
        }  # fmt: skip
        assert [identity for _, identity, _ in state[:-1]] == [None] * 6
        hub.push_event(event(2))
        news = await events_until(client, "event")
        assert news[-1][2]["id"] == 2

    play(scene)


def test_nothing_falls_between_the_state_and_what_follows():
    async def scene(source: MadeRun, hub: Hub) -> None:
        hub.push_window(batch((0, 0, 1.0)))
        client = hub.subscribe("root", None)
        hub.push_window(batch((0, 1, 2.0)))
        found = await events_until(client, "points")
        while max(_steps(found), default=-1) < 1:
            found += await next_events(client)
        assert set(_steps(found)) == {0, 1}

    play(scene)


def _steps(events: list[Event]) -> list[int]:
    return [
        step for name, _, data in events if name == "points" for m in data["metrics"].values() for step in m["step"]
    ]


def test_a_step_is_amended_as_ranks_arrive():
    async def scene(source: MadeRun, hub: Hub) -> None:
        client = hub.subscribe("root", None)
        client.take()
        hub.push_window(batch((0, 5, 1.0)))
        (first,) = await events_until(client, "points")
        hub.push_window(batch((1, 5, 3.0)))
        (second,) = await events_until(client, "points")
        loss = [points[2]["metrics"]["loss"] for points in (first, second)]
        assert [(m["mean"], m["min"], m["max"], m["count"]) for m in loss] == [
            ([1.0], [1.0], [1.0], [1]),
            ([2.0], [1.0], [3.0], [2]),
        ]

    play(scene)


def test_the_first_change_goes_out_at_once_and_the_rest_ten_times_a_second():
    async def scene(source: MadeRun, hub: Hub) -> None:
        client = hub.subscribe("root", None)
        client.take()
        loop = asyncio.get_running_loop()
        waits = []
        for _ in range(5):  # of which the machine may be busy in some
            await asyncio.sleep(hub_module.TICK_S * 1.2)
            began = loop.time()
            hub.push_event(event(1))
            await next_events(client)
            waits.append(loop.time() - began)
        assert min(waits) < hub_module.TICK_S / 2
        gaps, last = [], loop.time()
        while len(gaps) < 5:
            hub.push_event(event(1, count=len(gaps)))
            await asyncio.sleep(0.002)
            if events_of(client.take()):
                gaps, last = [*gaps, loop.time() - last], loop.time()
        assert sum(gaps) > 4 * hub_module.TICK_S
        assert min(gaps) < 2 * hub_module.TICK_S

    play(scene)


def test_a_path_gets_its_own_ranks_and_no_others():
    async def scene(source: MadeRun, hub: Hub) -> None:
        hub.push_window(batch((0, 0, 1.0), (1, 0, 3.0)))
        client = hub.subscribe("root/node-b/rank1", None)
        state = {name: data for name, _, data in await next_events(client)}
        assert [entry["rank"] for entry in state["ranks"]] == [1]
        assert state["points"]["metrics"]["loss"]["mean"] == [3.0], "it begins with what came lately"
        hub.push_window(batch((0, 1, 1.0)))
        hub.push_window(batch((1, 1, 7.0)))
        hub.push_resources(ResourceRecord(time=1.0, path="root/node-a/rank0", host="node-a", rank=0))
        hub.push_resources(ResourceRecord(time=1.0, path="root/node-b/rank1", host="node-b", rank=1))
        found = await events_until(client, "resources")
        points = next(data for name, _, data in found if name == "points")
        assert points["metrics"]["loss"]["mean"] == [7.0]
        records = [record["rank"] for name, _, data in found if name == "resources" for record in data["records"]]
        assert records == [1]

    play(scene)


def test_what_a_path_costs_is_its_own():
    async def scene(source: MadeRun, hub: Hub) -> None:
        asked: list[str] = []
        ranks = source.ranks
        source.ranks = lambda path="root": (asked.append(path), ranks(path))[1]  # type: ignore[method-assign]
        client = hub.subscribe("root/node-b", None)
        await next_events(client)
        hub.define_rank()
        hub.push_run()
        hub.push_window(batch((1, 5, 1.0)))
        found = await events_until(client, "points")
        assert "ranks" in names(found)
        assert set(asked) == {"root/node-b"}

    play(scene)


def test_a_rank_that_moved_belongs_to_its_new_path():
    async def scene(source: MadeRun, hub: Hub) -> None:
        client = hub.subscribe("root/node-b", None)
        await next_events(client)
        source.entries = [rank(0, "node-b"), rank(1, "node-a")]
        hub.define_rank()
        hub.push_window(batch((0, 2, 4.0), (1, 2, 9.0)))
        found = await events_until(client, "points")
        assert found[-1][2]["metrics"]["loss"]["mean"] == [4.0]

    play(scene)


def test_a_client_that_comes_back_gets_what_it_missed():
    async def scene(source: MadeRun, hub: Hub) -> None:
        client = hub.subscribe("root", None)
        last = (await next_events(client))[-1][1]
        hub.push_event(event(1))
        last = (await next_events(client))[-1][1]
        hub.unsubscribe("root", client)
        hub.push_event(event(2))
        hub.push_window(batch((0, 3, 1.0)))
        await asyncio.sleep(hub_module.TICK_S * 1.5)
        again = hub.subscribe("root", last)
        missed = await next_events(again)
        assert missed[0][2]["resumed"] is True
        assert sorted(names(missed)) == ["event", "hello", "points"]
        assert next(data["id"] for name, _, data in missed if name == "event") == 2

    play(scene)


@pytest.mark.parametrize("last", ["other-1", "boot-99999", "boot-x", "boot--1", "", "🚀", "boot-" + "9" * 30])
def test_an_id_nobody_gave_gets_the_whole_state(last):
    async def scene(source: MadeRun, hub: Hub) -> None:
        client = hub.subscribe("root", last)
        (hello, *rest) = await next_events(client)
        assert hello[2]["resumed"] is False
        assert "run" in names(rest)

    play(scene)


def test_lesson_a_slow_client_gets_a_fresh_state_and_slows_nobody(monkeypatch):
    monkeypatch.setattr(subscriber_module, "QUEUE_FRAMES", 3)
    monkeypatch.setattr(hub_module, "TICK_S", 0.0)

    async def scene(source: MadeRun, hub: Hub) -> None:
        slow, quick = hub.subscribe("root", None), hub.subscribe("root", None)
        slow.take(), quick.take()
        heard = 0
        for number in range(10):
            hub.push_event(event(number))
            heard += len(await next_events(quick))
        assert heard == 10
        assert slow.stale
        assert hub.counters()["stream_clients_reset"] == 1
        source.event_list = [event(9)]
        hub.renew("root", slow)
        state = await next_events(slow)
        assert names(state)[:2] == ["hello", "run"]
        assert state[0][2]["resumed"] is False
        assert len([name for name in names(state) if name == "event"]) == 1

    play(scene)


def test_lesson_client_queues_are_bounded(monkeypatch):
    monkeypatch.setattr(subscriber_module, "QUEUE_BYTES", 100)
    queue = Subscriber()
    assert queue.put(b"x" * 1000), "one frame always fits, else nothing would ever come"
    assert not queue.put(b"y")
    assert queue.stale
    assert queue.take() == b""


def test_a_large_state_is_sent_to_its_end_and_in_pieces(monkeypatch):
    monkeypatch.setattr(subscriber_module, "QUEUE_BYTES", 100)
    queue = Subscriber()
    queue.put_all([b"a" * 1000, b"b" * 1000])
    assert queue.put(b"c" * 90)
    assert not queue.put(b"d" * 90), "what is live has its bound however much of the state waits"
    pieces = [queue.take(300)]
    queue.mark_stale()
    while piece := queue.take(300):
        pieces.append(piece)
    assert queue.is_due
    assert b"".join(pieces) == b"a" * 1000 + b"b" * 1000
    assert max(map(len, pieces)) == 300


def test_many_clients_at_once_share_one_large_state():
    async def scene(source: MadeRun, hub: Hub) -> None:
        made = []
        source.epoch_list = [epoch(number) for number in range(3000)]
        listed = source.epochs
        source.epochs = lambda: made.append(1) or listed()  # type: ignore[method-assign, func-returns-value]
        clients = []
        for number in range(20):
            hub.push_window(batch((0, number, float(number))))
            hub.push_epoch(epoch(3000 + number))
            clients.append(hub.subscribe("root", None))
        late = clients[-1]
        found = await events_until(late, "points")
        while not any(name == "epoch" and data["epoch"] == 3019 for name, _, data in found):
            found += await next_events(late)
        assert len(made) == 1
        assert {data["epoch"] for name, _, data in found if name == "epoch"} == set(range(3020))
        steps = {step for name, _, data in found if name == "points" for step in data["metrics"]["loss"]["step"]}
        assert steps == set(range(20))

    play(scene)


def test_b28_the_end_is_told_and_the_stream_stays_open():
    async def scene(source: MadeRun, hub: Hub) -> None:
        client = hub.subscribe("root", None)
        await next_events(client)
        hub.push_window(batch((0, 8, 1.0)))
        source.change(state="finished", ended_at=1005.0)
        hub.complete()
        found = await events_until(client, "complete")
        assert names(found)[-1] == "complete"
        assert "points" in names(found)
        assert found[-1][2]["state"] == "finished"
        assert not client.closed
        late = await next_events(hub.subscribe("root", None))
        assert names(late)[-1] == "complete"

    play(scene)


def test_closing_ends_the_streams_after_what_waits():
    async def scene(source: MadeRun, hub: Hub) -> None:
        client = hub.subscribe("root", None)
        hub.close()
        assert client.closed
        assert names(await next_events(client))[0] == "hello"
        hub.push_event(event(1))

    play(scene)


def test_a_changed_document_is_sent_and_an_unchanged_one_is_not():
    async def scene(source: MadeRun, hub: Hub) -> None:
        client = hub.subscribe("root", None)
        client.take()
        hub.push_run()
        assert "run" in names(await events_until(client, "ranks"))
        hub.push_run()
        found = await events_until(client, "ranks")
        assert "run" not in names(found)
        source.change(step=9)
        hub.push_run()
        found = await events_until(client, "run")
        assert next(data for name, _, data in found if name == "run")["step"] == 9

    play(scene)


def test_paths_without_clients_go_after_a_while(monkeypatch):
    monkeypatch.setattr(hub_module, "KEEP_CHANNEL_S", -1.0)

    async def scene(source: MadeRun, hub: Hub) -> None:
        client = hub.subscribe("root/node-a", None)
        last = (await next_events(client))[-1][1]
        hub.unsubscribe("root/node-a", client)
        hub.unsubscribe("root/node-a", client)
        hub.push_event(event(1))
        await asyncio.sleep(0.15)
        again = await next_events(hub.subscribe("root/node-a", last))
        assert again[0][2]["resumed"] is False

    play(scene)


def test_a_failure_while_sending_is_counted_and_the_next_send_works():
    async def scene(source: MadeRun, hub: Hub) -> None:
        client = hub.subscribe("root", None)
        client.take()
        source.run, kept = None, source.run  # type: ignore[assignment,method-assign]
        hub.push_run()
        await asyncio.sleep(0.15)
        assert hub.counters()["stream_failures"] == 1
        source.run = kept  # type: ignore[method-assign]
        hub.push_event(event(1))
        assert "event" in names(await next_events(client))

    play(scene)


def test_what_is_put_off_delays_nothing_else(monkeypatch):
    monkeypatch.setattr(hub_module, "SLOT_BYTES_PER_S", 100)

    async def scene(source: MadeRun, hub: Hub) -> None:
        client = hub.subscribe("root", None)
        client.take()
        for step in (1, 2):
            source.change(step=step)
            hub.push_run()
            await asyncio.sleep(hub_module.TICK_S * 1.2)
        assert names(events_of(client.take())).count("run") == 1, "the second is put off for seconds"
        hub.push_event(event(1))
        found = await next_events(client, seconds=0.3)
        assert names(found) == ["event"]

    play(scene)


def test_large_documents_are_sent_less_often():
    assert pause_s(b"x") == hub_module.TICK_S
    assert pause_s(b"x" * 524_288) == 1.0
    assert pause_s(b"x" * 50_000_000) == hub_module.LONGEST_SLOT_S


def test_nothing_is_made_while_nobody_looks_and_who_comes_gets_it_all(monkeypatch):
    async def scene(source: MadeRun, hub: Hub) -> None:
        made: list[object] = []
        encode = hub_module.encode
        monkeypatch.setattr(hub_module, "encode", lambda document: made.append(document) or encode(document))
        monkeypatch.setattr(hub_module, "IDLE_S", 0.02)
        first = hub.subscribe("root", None)
        await next_events(first)
        hub.push_event(event(1))
        (_, seen, _), *_ = (one for one in await events_until(first, "event") if one[0] == "event")
        hub.unsubscribe("root", first)
        monkeypatch.setattr(hub_module, "KEEP_CHANNEL_S", -1.0)
        await asyncio.sleep(hub_module.TICK_S)
        made.clear()
        for step in range(5):
            source.event_list = [event(2)]
            hub.push_window(batch((0, step, float(step))))
            hub.push_event(event(2))
            hub.push_epoch(epoch(0))
            hub.push_resources(ResourceRecord(time=1.0, path="root/node-a", host="node-a", rank=None))
            hub.push_run()
            await asyncio.sleep(0.03)
        assert made == []
        monkeypatch.undo()
        again = hub.subscribe("root", seen)
        state = await next_events(again)
        assert state[0][2]["resumed"] is False
        assert names(state) == ["hello", "run", "ranks", "event", "points"]
        assert state[-1][2]["metrics"]["loss"]["step"] == [0, 1, 2, 3, 4]
        hub.push_window(batch((0, 5, 5.0)))
        news = await events_until(again, "points")
        assert news[-1][2]["metrics"]["loss"]["step"] == [5]

    play(scene)
