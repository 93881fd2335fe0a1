"""The listener with real sockets, in one loop."""

import asyncio
import socket
import subprocess
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import zmq

from tests.unit.ingest.fake_rank import hello, points, session_id
from trackside.errors import PortTakenError
from trackside.ingest import listener as listener_module
from trackside.ingest.keys import LinkKeys, make_keys
from trackside.ingest.listener import Listener
from trackside.ingest.reader import FrameReader
from trackside.run.inputs import FrameRefused, MessageArrived, PointsArrived
from trackside.wire import codec, messages

pytestmark = pytest.mark.usefixtures("leak_check")


class End:
    """The controller's end, and the ranks' sockets."""

    def __init__(self) -> None:
        self.keys = make_keys()
        self.inputs: list[Any] = []
        self.reader = FrameReader(
            "run-a",
            keep=lambda *_: None,
            send=self.answer,
            ask_again=lambda session: None,
            has_room=lambda **_: True,
        )
        self.listener = Listener(self.keys, self.reader, lambda: self.inputs.extend(self.reader.take()))
        self.listener.bind("127.0.0.1")
        self.listener.start(asyncio.get_running_loop())
        self.context: zmq.Context[Any] = zmq.Context()
        self.ranks: list[zmq.Socket[bytes]] = []

    def answer(self, session: bytes, message: messages.Downward) -> None:
        self.listener.send(session, message)

    def rank(self, number: int, keys: LinkKeys | None = None) -> zmq.Socket[bytes]:
        keys = keys or self.keys
        link = self.context.socket(zmq.DEALER)
        link.setsockopt(zmq.ROUTING_ID, session_id(number))
        link.setsockopt(zmq.LINGER, 0)
        link.curve_serverkey = self.keys.server_public.encode()
        link.curve_publickey = keys.client_public.encode()
        link.curve_secretkey = keys.client_secret.encode()
        link.connect(f"tcp://127.0.0.1:{self.listener.port}")
        self.ranks.append(link)
        return link

    async def until(self, look: Callable[[], Any], seconds: float = 15.0) -> Any:
        deadline = time.monotonic() + seconds
        while not (found := look()):
            assert time.monotonic() < deadline, "not in time"
            self.listener.nudge()
            await asyncio.sleep(0.005)
        return found

    def close(self) -> None:
        for link in self.ranks:
            link.close()
        self.context.term()
        self.listener.close()


def play(scene: Callable[[End], Any]) -> None:
    async def run() -> None:
        end = End()
        try:
            await scene(end)
        finally:
            end.close()

    asyncio.run(run())


def of(end: End, kind: type) -> list[Any]:
    return [event for event in end.inputs if isinstance(event, kind)]


def test_frames_come_in_and_answers_go_out():
    async def scene(end: End) -> None:
        rank = end.rank(0)
        rank.send(hello(0))
        rank.send(codec.encode(points([{0: 1.5}], names={0: "loss"}), 1))
        await end.until(lambda: of(end, PointsArrived))
        end.listener.send(session_id(0), messages.Ack(durable_seq=1))
        await end.until(lambda: rank.poll(0))
        assert codec.decode_body(codec.open_envelope(rank.recv())) == messages.Ack(durable_seq=1)

    play(scene)


def test_an_answer_to_nobody_is_counted():
    async def scene(end: End) -> None:
        end.listener.send(b"s" * 16, messages.Ack(durable_seq=1))
        assert end.reader.counters.replies_undelivered == 1

    play(scene)


def test_only_the_runs_key_opens_the_door():
    async def scene(end: End) -> None:
        end.rank(1, make_keys()).send(hello(1))
        rank = end.rank(0)
        rank.send(hello(0))
        await end.until(lambda: end.reader.counters.peers_refused)
        await end.until(lambda: end.reader.counters.frames)
        end.inputs.extend(end.reader.take())
        assert [event.kind for event in of(end, FrameRefused)] == ["wrong key"]
        assert end.reader.counters.frames == 1

    play(scene)


def test_who_does_not_speak_our_language_is_counted():
    async def scene(end: End) -> None:
        count = lambda: end.reader.counters.handshakes_failed  # noqa: E731
        for number, garbage in enumerate((b"GET / HTTP/1.1\r\n\r\n" * 9, b"\xff" + bytes(8) + b"\x7f\3\1NULL", b""), 1):
            with socket.create_connection(("127.0.0.1", end.listener.port)) as stranger:
                stranger.sendall(garbage)
            await end.until(lambda number=number: count() == number)
        plain = end.context.socket(zmq.DEALER)
        end.ranks.append(plain)
        plain.connect(f"tcp://127.0.0.1:{end.listener.port}")
        await end.until(lambda: count() >= 4)
        plain.close()
        seen = count()
        end.rank(1, make_keys()).send(hello(1))
        await end.until(lambda: end.reader.counters.peers_refused)
        rank = end.rank(0)
        rank.send(hello(0))
        await end.until(lambda: end.reader.counters.frames == 1)
        assert count() <= seen + 1, "who showed a wrong key is counted as that"

    play(scene)


def test_one_noisy_rank_does_not_starve_the_others(monkeypatch):
    monkeypatch.setattr(listener_module, "SHARE_BYTES", 100_000)
    arrivals: list[tuple[int, int]] = []

    async def scene(end: End) -> None:
        noisy, quiet = end.rank(0), end.rank(1)
        noisy.send(hello(0))
        quiet.send(hello(1))
        await end.until(lambda: end.reader.counters.frames == 2)
        loud = points([{0: float(n)} for n in range(4000)], names={0: "loss"})
        feed = end.reader.feed
        monkeypatch.setattr(
            end.reader,
            "feed",
            lambda session, frame, at: (arrivals.append((session[-1], len(frame))), feed(session, frame, at)),
        )
        for seq in range(1, 41):
            noisy.send(codec.encode(loud, seq))
        quiet.send(codec.encode(messages.Heartbeat(sent_at=0.0, uptime_seconds=0.0)))
        await end.until(lambda: of(end, MessageArrived))
        before = arrivals.index(next(a for a in arrivals if a[0] == 1))
        assert before < 10, "a heartbeat waits for no more than a few of another's frames"
        await end.until(lambda: end.reader.counters.values == 40 * 4000)
        assert end.reader.counters.frames_ahead == 0, "what was put off kept its order"

    play(scene)


def test_a_frame_beyond_the_limit_never_reaches_us():
    async def scene(end: End) -> None:
        rank = end.rank(0)
        rank.send(hello(0))
        await end.until(lambda: end.reader.counters.frames == 1)
        rank.send(b"x" * (codec.MAX_FRAME_BYTES + 1))
        other = end.rank(1)
        other.send(hello(1))
        await end.until(lambda: end.reader.counters.frames == 2)
        assert end.reader.counters.frames_malformed == 0

    play(scene)


def test_messages_of_a_wrong_number_of_parts_are_counted():
    async def scene(end: End) -> None:
        rank = end.rank(0)
        rank.send_multipart([b"a", b"b", b"c"])
        rank.send(hello(0))
        await end.until(lambda: end.reader.counters.frames == 1)
        assert end.reader.counters.frames_malformed == 1

    play(scene)


def test_a_taken_port_is_an_error():
    async def scene(end: End) -> None:
        other = End()
        try:
            with pytest.raises(PortTakenError, match=str(end.listener.port)):
                other.listener.bind("127.0.0.1", end.listener.port)
        finally:
            other.close()

    play(scene)


def test_closing_twice_is_closing_once():
    async def scene(end: End) -> None:
        end.listener.close()
        end.listener.close()

    play(scene)


def test_keys_are_fresh_and_hidden():
    assert make_keys() != make_keys()
    assert msgspec.json.decode(msgspec.json.encode(make_keys()), type=LinkKeys)


UNREAD = """
import sys, time
import zmq
from trackside.ingest.gatekeeper import Gatekeeper
from trackside.ingest.keys import make_keys
from trackside.ingest.listener import _router

keys = make_keys()
context, others = zmq.Context(), zmq.Context()
gate = Gatekeeper(context, keys.client_public, lambda *_: None)
router = _router(context, keys)
router.bind("tcp://127.0.0.1:*")
rank = others.socket(zmq.DEALER)
rank.setsockopt(zmq.LINGER, 0)
rank.curve_serverkey = keys.server_public.encode()
rank.curve_publickey, rank.curve_secretkey = keys.client_public.encode(), keys.client_secret.encode()
rank.connect(router.getsockopt_string(zmq.LAST_ENDPOINT))
rank.send(b"hello")
deadline = time.monotonic() + 30
while not router.poll(10) and time.monotonic() < deadline:
    gate.answer()
for _ in range(900):
    rank.send(bytes(100_000), zmq.NOBLOCK)
time.sleep(1)
rank.close()
others.term()
time.sleep(12)
print("alive")
"""


@pytest.mark.long
def test_a_rank_that_goes_while_much_of_it_waits_unread_does_not_end_the_controller(python: str) -> None:
    """A controller that held the interpreter for ten seconds; ZeroMQ's heartbeats would have called `abort`."""
    done = subprocess.run([python, "-c", UNREAD], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.returncode) == ("alive\n", 0), done.stderr
