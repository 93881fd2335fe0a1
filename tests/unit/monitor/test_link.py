"""The link against a small controller: in order, exactly once, bounded, whatever the other side does."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.monitor.fake_controller import FakeController
from trackside.ingest.keys import make_keys
from trackside.monitor import link as link_module
from trackside.monitor.link import Link
from trackside.wire import codec, messages
from trackside.wire.address import ControllerAddress
from trackside.wire.messages import HostFacts, Identity, ProcessFacts, UserEvent
from trackside.wire.spool import read_spool

pytestmark = pytest.mark.usefixtures("leak_check")


class Feed:
    def __init__(self, address: ControllerAddress | None) -> None:
        self.address = address
        self.heard: list[Any] = []

    def locate(self) -> ControllerAddress | None:
        return self.address

    def collect(self, *, flush: bool) -> Iterable[messages.Upward]:
        return ()

    is_behind = False
    left: tuple[Path, int] | None = None

    def leave(self, folder: Path, next_seq: int) -> list[Path]:
        self.left = folder, next_seq
        return [folder / "left"] if self.is_behind else []

    def kept(self, next_seq: int) -> None:
        """Nothing waits for that."""

    def heartbeat(self) -> messages.Heartbeat:
        return messages.Heartbeat(sent_at=time.time(), uptime_seconds=1.0)

    def received(self, message: messages.Downward) -> None:
        self.heard.append(message)

    def turned(self) -> None:
        pass


Connect = Callable[[ControllerAddress | None], tuple[Link, Feed]]


@pytest.fixture
def connect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connect]:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made: list[Link] = []

    def begin(address: ControllerAddress | None) -> tuple[Link, Feed]:
        feed = Feed(address)
        facts = (HostFacts(host="h", machine_id="m"), ProcessFacts(pid=1))
        made.append(Link("rank", Identity(rank=0, local_rank=0, world_size=1), lambda: facts, feed))
        made[-1].start()
        return made[-1], feed

    yield begin
    for link in made:
        link.close(0.0)


def event(number: int) -> UserEvent:
    return UserEvent(time=0.0, title=str(number))


def titles(found: list[Any]) -> list[int]:
    return [int(message.title) for message in found if isinstance(message, UserEvent)]


def until(look: Callable[[], object], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.005)


def test_hello_first_then_all_in_order_and_close_waits_for_the_disk(connect: Connect) -> None:
    with FakeController() as controller:
        link, _ = connect(controller.address)
        for number in range(50):
            link.send(event(number))
        assert link.close(5, messages.Goodbye(time=0.0))
        assert isinstance(controller.frames[0][1], messages.Hello)
        assert controller.frames[0][1].run == "r1"
        assert controller.sequenced() == list(range(1, 52))
        assert titles(controller.taken_once()) == list(range(50))
        assert isinstance(controller.taken_once()[-1], messages.Goodbye)
        assert link.close(5), "idempotent"


def test_what_was_not_durable_is_sent_again_to_a_controller_that_comes_back(connect: Connect) -> None:
    keys, durable = make_keys(), {}
    with FakeController(keys, durable=durable, acks=False) as first:
        link, _ = connect(first.address)
        for number in range(20):
            link.send(event(number))
        until(lambda: len(titles(first.taken_once())) == 20)
        durable[link.session] = 7
    link.send(event(20))
    with FakeController(keys, first.port, durable) as second:
        assert link.close(10)
        assert second.sequenced()[0] == 8
        assert titles(second.taken_once()) == list(range(7, 21))


def test_a_second_welcome_sends_again_what_is_not_durable(connect: Connect) -> None:
    with FakeController(acks=False) as controller:
        link, _ = connect(controller.address)
        link.send(event(0))
        until(lambda: titles(controller.taken_once()) == [0])
        controller.say(messages.Welcome(run="r1", name="n", directory="/", machine_id="x", durable_seq=0))
        until(lambda: controller.sequenced() == [1, 1])
        controller.acks = True
        controller.say(messages.Welcome(run="r1", name="n", directory="/", machine_id="x", durable_seq=0))
        assert link.close(5)


def test_a_feed_that_is_behind_to_the_end_leaves_the_rest_behind_the_last_word(connect: Connect) -> None:
    with FakeController(acks=False) as controller:
        link, feed = connect(controller.address)
        link.send(event(0))
        until(lambda: controller.sequenced() == [1])
        feed.is_behind = True
        assert not link.close(0.3, messages.Goodbye(time=0.0))
        spool, left = link.undelivered
        assert left == spool.with_name("left")
        assert feed.left == (spool.parent, 3)
        assert [codec.open_envelope(frame).kind for frame in read_spool(spool)] == ["hello", "event", "goodbye"]


def test_a_refusal_is_told_once_and_nothing_more_is_sent(connect: Connect) -> None:
    with FakeController(refuse="another run") as controller:
        link, feed = connect(controller.address)
        until(lambda: link.refused)
        link.send(event(1))
        began = time.monotonic()
        assert not link.close(5)
        assert time.monotonic() - began < 4.5
        assert [message.reason for message in feed.heard] == ["another run"]
        assert controller.sequenced() == []


def test_a_controller_that_listens_late_gets_everything(connect: Connect) -> None:
    keys = make_keys()
    with FakeController(keys) as once:
        address = once.address
    link, _ = connect(address)
    for number in range(5):
        link.send(event(number))
    with FakeController(keys, address.port) as controller:
        until(lambda: titles(controller.taken_once()) == list(range(5)))
        assert link.close(5)


def test_the_next_host_is_tried_when_one_does_not_answer(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "PATIENCE_S", 0.2)
    with FakeController() as controller:
        address = controller.address
        several = ControllerAddress(**{**_fields(address), "hosts": ["no such host", "127.0.0.1"]})
        link, _ = connect(several)
        link.send(event(1))
        until(lambda: titles(controller.taken_once()) == [1])
        assert link.close(5)


def test_a_wrong_key_is_never_let_in(connect: Connect) -> None:
    with FakeController() as controller:
        stranger = make_keys()
        keys = {"client_public": stranger.client_public, "client_secret": stranger.client_secret}
        link, _ = connect(ControllerAddress(**{**_fields(controller.address), **keys}))
        link.send(event(1))
        assert not link.connected.wait(0.5)
        assert not link.close(0.1)
        assert controller.frames == []


def test_what_nobody_takes_lies_in_a_file_that_can_be_read_in_order(connect: Connect, tmp_path: Path) -> None:
    with FakeController(acks=False) as controller:
        link, _ = connect(controller.address)
        for number in range(10):
            link.send(event(number))
        until(lambda: len(titles(controller.taken_once())) == 10)
        assert not link.close(0.2, messages.Goodbye(time=0.0))
    (path,) = link.undelivered
    assert path.is_relative_to(tmp_path)
    envelopes = [codec.open_envelope(frame) for frame in read_spool(path)]
    assert [envelope.kind for envelope in envelopes] == ["hello", *["event"] * 10, "goodbye"]
    assert [envelope.seq for envelope in envelopes] == list(range(12))
    assert link.undelivered_frames == 11


def test_without_a_controller_the_end_is_at_once(connect: Connect) -> None:
    link, _ = connect(None)
    link.give_up()
    link.send(event(1))
    began = time.monotonic()
    assert not link.close(5)
    assert time.monotonic() - began < 4.5


def test_b33_the_clock_offset_is_measured(connect: Connect) -> None:
    with FakeController() as controller:
        controller.clock_ahead_s = 7.0
        link, _ = connect(controller.address)
        until(lambda: link.offset.offset is not None)
        assert link.offset.offset == pytest.approx(7.0, abs=0.2)
        assert link.offset.round_trip is not None
        link.close(2)


def test_b30_heartbeats_flow_from_a_thread_of_its_own(connect: Connect) -> None:
    with FakeController() as controller:
        link, _ = connect(controller.address)
        until(lambda: len(controller.of(messages.Heartbeat)) >= 3, 5)
        link.close(2)


def test_a_frame_that_is_too_large_is_dropped_and_the_rest_goes_on(connect: Connect) -> None:
    with FakeController() as controller:
        link, _ = connect(controller.address)
        link.send(event(1))
        link.send(messages.SetMetadata(text="x" * (codec.MAX_FRAME_BYTES + 1)))
        link.send(event(2))
        assert link.close(5)
        assert titles(controller.taken_once()) == [1, 2]
        assert link.dropped_messages == 1


def test_an_appointment_and_a_line_reach_the_owner(connect: Connect) -> None:
    with FakeController() as controller:
        link, feed = connect(controller.address)
        assert link.connected.wait(5)
        controller.say(messages.Appoint(sample_host=True))
        controller.say(messages.Say(line="hello"))
        until(lambda: len(feed.heard) == 3)
        assert link.samples_host
        assert [type(message).__name__ for message in feed.heard] == ["Welcome", "Appoint", "Say"]
        link.close(2)


def _fields(address: ControllerAddress) -> dict[str, Any]:
    return {name: getattr(address, name) for name in address.__struct_fields__}


def test_nothing_follows_the_last_word(connect: Connect) -> None:
    """A controller that has heard it may be gone; whoever sends later would be waited for in vain."""
    with FakeController(acks=False) as controller:
        link, _ = connect(controller.address)
        link.send(event(1))
        ending = threading.Thread(target=link.close, args=(1.0, messages.Goodbye(time=0.0)))
        ending.start()
        until(lambda: controller.of(messages.Goodbye))
        link.send(event(2))
        until(lambda: link.dropped_messages == 1)
        ending.join(30)
        assert [type(message) for message in controller.taken_once()] == [UserEvent, messages.Goodbye]
        assert link.undelivered_frames == 2


def test_messages_beyond_the_queue_are_counted_and_admitted(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeController() as controller:
        link, _ = connect(controller.address)
        monkeypatch.setattr(link_module, "MAX_QUEUE", 0)
        for number in range(7):
            link.send(event(number))
        monkeypatch.setattr(link_module, "MAX_QUEUE", 100)
        assert link.close(5, messages.Goodbye(time=0.0))
        notices = [said for said in controller.taken_once() if isinstance(said, messages.Notice)]
        assert {notice.about for notice in notices} == {"messages dropped"}
        assert sum(notice.count for notice in notices) == 7 == link.dropped_messages
        assert titles(controller.taken_once()) == []
