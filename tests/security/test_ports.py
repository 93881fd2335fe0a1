"""Anything may arrive on our two ports, from whoever can reach them and from who holds the key: controller and ranks live on."""

from __future__ import annotations

import os
import random
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import zmq
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.browser.fleet import Fleet, wait_for
from tests.process.wire_client import ControllerUnderTest, WireRank, points, pump_until
from tests.security.anything import MESSAGES, hellos
from trackside.ingest.keys import make_keys
from trackside.store import export_run
from trackside.store.source import FolderSource
from trackside.wire import codec, messages
from trackside.wire.ids import new_session

GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01"
NOISE = [
    b"",
    b"\0",
    b"\0" * 65_536,
    b"\xff" * 65_536,
    GREETING,
    GREETING + b"CURVE" + bytes(15) + bytes(32) + b"\x04\xc8\x05HELLO" + bytes(194),
    GREETING + b"CURVE" + bytes(15) + bytes(32) + b"\x06" + b"\xff" * 8 + b"\x05HELLO",
    GREETING + b"PLAIN" + bytes(15) + bytes(32) + b"\x04\x08\x05HELLO\1a\1b",
    GREETING + b"NULL" + bytes(16) + bytes(32) + b"\x04\x06\x05READY",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64),
    b"GET /api/v1/run HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
    b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 50_000 + b"\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\n",
    b"GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\nOrigin: http://[\r\n\r\n",
    b"GET /%ff%fe%00..%2f..%2f HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
]


def shout(address: tuple[str, int], noise: bytes) -> None:
    """Send it, take what comes back for a moment, and go."""
    with socket.create_connection(address, timeout=5) as stranger:
        stranger.settimeout(0.05)
        try:
            stranger.sendall(noise)
            while stranger.recv(65_536):
                pass
        except OSError:
            return


def see_all_well(fleet: Fleet) -> None:
    """Everything that was heard before is heard still, and nothing of ours has failed."""
    before = _points_of(fleet, "loss")
    fleet.log({"loss": [0.25]}, step=1000 + before)
    wait_for(lambda: _points_of(fleet, "loss") == before + 2, "what the ranks log now")
    assert {rank["state"] for rank in fleet.read("api/v1/ranks")[:2]} == {"alive"}
    counters = fleet.read("healthz")["counters"]
    assert {name: count for name, count in counters.items() if name.startswith("fail") and count} == {}
    assert fleet.controller.process.poll() is None
    assert "Traceback" not in fleet.controller.stderr


def _points_of(fleet: Fleet, name: str) -> int:
    return sum(metric["points"] for metric in fleet.read("api/v1/metrics") if metric["name"] == name)


def test_noise_on_the_page_and_on_the_link(fleet: Fleet) -> None:
    page = ("127.0.0.1", urlsplit(fleet.url).port or 0)
    link = ("127.0.0.1", fleet.controller.address.port)
    chance = random.Random(7)
    before = fleet.read("healthz")["counters"]["handshakes_failed"]
    for noise in [*NOISE, *(chance.randbytes(chance.randrange(1, 3000)) for _ in range(30))]:
        shout(page, noise)
        shout(link, noise)
    wait_for(lambda: fleet.read("healthz")["counters"]["handshakes_failed"] > before + 40, "all of them counted")
    see_all_well(fleet)


@pytest.fixture
def context() -> Iterator[zmq.Context[zmq.Socket[bytes]]]:
    made: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    yield made
    made.destroy(linger=0)


def dealer(context: zmq.Context[zmq.Socket[bytes]], fleet: Fleet, **keys: str | None) -> zmq.Socket[bytes]:
    address = fleet.controller.address
    own = {"server": address.server_key, "public": address.client_public, "secret": address.client_secret} | keys
    link = context.socket(zmq.DEALER)
    link.setsockopt(zmq.LINGER, 0)
    if own["server"]:
        link.curve_serverkey = own["server"].encode()
        link.curve_publickey, link.curve_secretkey = (own["public"] or "").encode(), (own["secret"] or "").encode()
    link.connect(f"tcp://127.0.0.1:{address.port}")
    return link


def test_no_key_and_other_keys_open_no_door(fleet: Fleet, context: zmq.Context[zmq.Socket[bytes]]) -> None:
    """Without a key; with another run's pair of keys; with our controller's public key and a client key of one's own."""
    other = make_keys()
    before = fleet.read("healthz")["counters"]
    strangers = [
        dealer(context, fleet, server=None),
        dealer(context, fleet, server=other.server_public, public=other.client_public, secret=other.client_secret),
        dealer(context, fleet, public=other.client_public, secret=other.client_secret),
    ]
    hello = messages.Hello(
        session=new_session(),
        role="rank",
        run=fleet.controller.address.run,
        identity=messages.Identity(rank=0, local_rank=0, world_size=2),
        host=messages.HostFacts(host="evil", machine_id="e"),
        process=messages.ProcessFacts(pid=1),
        sent_at=0.0,
    )
    for stranger in strangers:
        stranger.send(codec.encode(hello), zmq.NOBLOCK)

    def refused() -> bool:
        now = fleet.read("healthz")["counters"]
        names = ("peers_refused", "handshakes_failed")
        return all(now[name] > before[name] for name in names)

    wait_for(refused, "both kinds counted")
    assert "evil" not in fleet.read("api/v1/run")["hosts"]
    for stranger in strangers:
        stranger.close()
    see_all_well(fleet)


def test_frames_that_are_none_are_counted(fleet: Fleet, context: zmq.Context[zmq.Socket[bytes]]) -> None:
    """From who has the key: nothing, rubbish, too many parts, another version, an unknown kind, a bomb, one too large."""
    before = fleet.read("healthz")["counters"]
    bomb = b"\x94\x01\xa5event\x00" + b"\x91" * 4_000_000
    widths = codec.encode(points([{0: 1.0}], names={0: "x"}), 1).replace(b"\1\0\0\0", b"\xff\xff\xff\xff")
    other_version = b"\x94\x63" + codec.encode(messages.PortWish(), 1)[2:]
    stranger = WireRank(context, fleet.controller.address, 1, 2, host="node-b")
    stranger.send_raw(codec.encode(messages.PortWish(port=1), 1))
    stranger.hello()
    for frame in (b"", b"\xc1", bomb, other_version, widths, b"\x94\x01\xa4nope\x02\xc0"):
        stranger.send_raw(frame)
    stranger.send_raw(b"a", b"b", b"c")
    stranger.beat()

    def counted() -> bool:
        now = fleet.read("healthz")["counters"]
        more = {name: now[name] - before[name] for name in now}
        return more["frames_malformed"] >= 5 and all(
            more[name] for name in ("frames_before_hello", "frames_refused", "frames_unknown_kind")
        )

    wait_for(counted, "each of them counted")
    stranger.send_raw(b"x" * (codec.MAX_FRAME_BYTES + 1))  # ZeroMQ ends that connection by itself
    see_all_well(fleet)
    stranger.close()


def test_who_has_the_key_and_says_to_be_another_rank(fleet: Fleet, context: zmq.Context[zmq.Socket[bytes]]) -> None:
    """While the rank itself is heard, a second process of its number neither speaks nor ends for it; what it sent before,
    sent again, is known and not taken twice."""
    forger = WireRank(context, fleet.controller.address, 0, 2, host="node-a", pid=os.getpid() + 1)
    forger.hello()
    pump_until([forger], lambda: forger.welcome)
    wish = forger.send(points([{0: 7.0}], names={0: "forged"}))
    forger.beat(step=10**9, phase="forged")
    forger.send(messages.Goodbye(time=time.time()))
    pump_until([forger], lambda: forger.acknowledged == forger.seq)
    before = fleet.read("healthz")["counters"]["frames_duplicate"]
    for _ in range(3):
        forger.send_raw(codec.encode(points([{0: 7.0}], names={0: "forged"}), wish))
    wait_for(lambda: fleet.read("healthz")["counters"]["frames_duplicate"] >= before + 3, "the doubles")
    rank = fleet.read("api/v1/ranks")[0]
    assert (rank["state"], rank["phase"] != "forged", rank["step"] < 10**9) == ("alive", True, True)
    assert _points_of(fleet, "forged") == 1
    see_all_well(fleet)
    forger.close()


def tell_anything(folder: Path, data: st.DataObject) -> None:
    """A whole run with one honest rank and one that says whatever comes: it ends, and everything it leaves can be read."""
    controller = ControllerUnderTest(folder)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    honest, hostile = (WireRank(context, controller.address, rank, 2) for rank in (0, 1))
    try:
        honest.hello()
        pump_until([honest], lambda: honest.welcome)
        hostile.send_raw(codec.encode(data.draw(hellos(hostile.session, controller.address.run))))
        for message in data.draw(st.lists(MESSAGES, min_size=10, max_size=40)):
            if not isinstance(message, messages.JobEnded):
                hostile.send(message)
        honest.send(points([{0: 0.5}], names={0: "honest"}))
        honest.send(messages.Goodbye(time=time.time()))
        pump_until([honest, hostile], lambda: honest.acknowledged == honest.seq)
        controller.process.terminate()
        assert controller.wait() == 0
        see_whole(controller)
    finally:
        honest.close()
        hostile.close()
        context.destroy(linger=0)
        controller.close()


def see_whole(controller: ControllerUnderTest) -> None:
    assert "Traceback" not in controller.stderr, controller.stderr[-3000:]
    folder: Path = controller.folder
    assert (folder / "report.html").stat().st_size > 10_000
    assert not (folder / "journal").exists()
    source = FolderSource(folder)
    assert "honest" in [metric.name for metric in source.metrics()]
    source.close()
    with (folder / "all.csv").open("w", encoding="utf-8") as out:
        assert export_run(folder, "csv", out).points >= 1


some = settings(max_examples=1, deadline=None, suppress_health_check=list(HealthCheck))


@some
@given(st.data())
def test_a_run_that_was_told_anything_has_all_its_files(tmp_path: Path, data: st.DataObject) -> None:
    tell_anything(tmp_path, data)


@pytest.mark.long
@settings(some, max_examples=30)
@given(st.data())
def test_runs_that_were_told_anything_have_all_their_files(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    tell_anything(tmp_path_factory.mktemp("told"), data)
