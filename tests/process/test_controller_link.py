"""A real controller and ranks that speak the real wire."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq

from tests.process.job import wait_for
from tests.process.wire_client import ControllerUnderTest, WireRank, points, pump_until, said
from trackside.ingest.keys import make_keys
from trackside.wire import codec, messages
from trackside.wire.spool import pack_spooled

pytestmark = pytest.mark.usefixtures("leak_check")


@pytest.fixture
def context() -> Iterator[zmq.Context]:
    context = zmq.Context()
    yield context
    context.destroy(linger=0)


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[ControllerUnderTest]:
    started = ControllerUnderTest(tmp_path)
    yield started
    started.close()


@pytest.fixture
def link(context: zmq.Context) -> Iterator[Callable[..., WireRank]]:
    """Makes sessions that have not said hello."""
    made: list[WireRank] = []

    def make(*arguments: Any, **options: Any) -> WireRank:
        made.append(WireRank(context, *arguments, **options))
        return made[-1]

    yield make
    for rank in made:
        rank.close()


@pytest.fixture
def make_rank(link: Callable[..., WireRank], controller: ControllerUnderTest) -> Callable[..., WireRank]:
    def make(rank: int = 0, world_size: int = 1, **options: Any) -> WireRank:
        made = link(controller.address, rank, world_size, **options)
        made.hello()
        pump_until([made], lambda: made.welcome, what="a welcome")
        return made

    return make


def read(url: str, path: str, **headers: str) -> Any:
    with urllib.request.urlopen(urllib.request.Request(f"{url}{path}", headers=headers), timeout=10) as answer:
        return json.loads(answer.read())


def page_of(rank: WireRank) -> str:
    """Wish for a page and return its URL."""
    rank.send(messages.PortWish(port=0))
    line = pump_until([rank], lambda: [m for m in said(rank, messages.Say) if "://" in m.line], what="a URL line")[
        -1
    ].line
    return line.split()[1] + "/"


def kept_points(folder: Path) -> list[tuple[Any, ...]]:
    import pandas as pd

    frame = pd.read_parquet(folder / "points")
    return sorted(frame[["series", "rank", "step", "value"]].itertuples(index=False, name=None))


def test_points_are_acknowledged_shown_and_kept(controller, make_rank):
    first, second = make_rank(0, 2), make_rank(1, 2, host="node-b")
    url = page_of(first)
    for rank in (first, second):
        rank.send(points([{0: 1.0 + rank.rank}, {0: 2.0 + rank.rank}], names={0: "loss"}))
    pump_until([first, second], lambda: first.acknowledged == first.seq and second.acknowledged == second.seq)
    series = read(url, "api/v1/series?metric=loss")
    assert (series["x"], series["mean"], series["min"], series["max"]) == ([0, 1], [1.5, 2.5], [1, 2], [2, 3])
    assert [entry["path"] for entry in read(url, "api/v1/ranks")] == ["root/node-a/rank0", "root/node-b/rank1"]
    for rank in (first, second):
        rank.send(messages.Goodbye(time=time.time()))
    pump_until([first, second], lambda: first.acknowledged == first.seq and second.acknowledged == second.seq)
    assert controller.wait() == 0
    assert kept_points(controller.folder) == [
        ("loss", 0, 0, 1.0), ("loss", 0, 1, 2.0), ("loss", 1, 0, 2.0), ("loss", 1, 1, 3.0),
    ]  # fmt: skip
    assert not (controller.folder / "journal").exists()
    assert json.loads((controller.folder / "run.json").read_text())["state"] == "finished"
    assert b"trackside-data" in (controller.folder / "report.html").read_bytes()


def test_a_killed_controller_goes_on_with_no_gap_and_no_double(controller, make_rank):
    rank = make_rank()
    url = page_of(rank)
    for step in range(50):
        rank.send(points([{0: float(step)}], step=step, names={0: "loss"} if step == 0 else None))
        if step == 25:
            pump_until([rank], lambda: rank.acknowledged > 10, what="some acknowledgements")
    controller.kill()
    for step in range(50, 60):
        rank.send(points([{0: float(step)}], step=step))
    rank.welcome = None
    controller.resume()
    assert controller.address.port == rank.address.port
    pump_until([rank], lambda: rank.hello() or rank.welcome, what="a welcome of the new process")
    pump_until([rank], lambda: rank.acknowledged == rank.seq, what="everything acknowledged")
    series = read(url, "api/v1/series?metric=loss")
    assert series["x"] == list(range(60))
    assert set(series["count"]) == {1}
    assert "controller restarted" in [event["kind"] for event in read(url, "api/v1/events")]
    rank.send(messages.Goodbye(time=time.time()))
    pump_until([rank], lambda: rank.acknowledged == rank.seq)
    assert controller.wait() == 0
    assert kept_points(controller.folder) == [("loss", 0, step, float(step)) for step in range(60)]


def test_a_wrong_key_is_not_let_in_and_that_is_shown(link, controller, make_rank):
    import msgspec

    rank = make_rank()
    url = page_of(rank)
    keys = make_keys()
    stranger_address = msgspec.structs.replace(
        controller.address, client_public=keys.client_public, client_secret=keys.client_secret
    )
    stranger = link(stranger_address, 1)
    stranger.hello()
    pump_until([rank], lambda: read(url, "healthz")["counters"]["peers_refused"])
    pump_until([rank], lambda: "wrong key" in [event["kind"] for event in read(url, "api/v1/events")])
    assert stranger.pump() == []
    assert len(read(url, "api/v1/ranks")) == 1


def test_another_runs_rank_is_refused_by_name(link, controller, make_rank):
    import msgspec

    make_rank()
    lost = link(msgspec.structs.replace(controller.address, run="another"), 1)
    lost.hello()
    pump_until([lost], lambda: said(lost, messages.Refused))
    (refused,) = said(lost, messages.Refused)
    assert "another" in refused.reason
    assert controller.address.run in refused.reason


def test_noise_harms_nobody(controller, make_rank):
    rank = make_rank()
    url = page_of(rank)
    rank.send_raw(b"\xc1\x00noise")
    rank.send_raw(b"one", b"two")
    rank.send(points([{0: 1.0}], names={0: "loss"}))
    pump_until([rank], lambda: rank.acknowledged == rank.seq)
    counters = read(url, "healthz")["counters"]
    assert (counters["frames_malformed"], counters["values"]) == (2, 1)


def test_b30_a_process_that_dies_is_known_at_once(controller, make_rank):
    from trackside.wire.machine import machine_id

    rank = make_rank()
    url = page_of(rank)
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    other = make_rank(1, 2, pid=child.pid)
    other.hello(host=messages.HostFacts(host="node-a", machine_id=machine_id()))
    pump_until([other], lambda: len(said(other, messages.Welcome)) > 1)
    child.kill()
    child.wait()
    child.stdin.close()
    # Its silence would be told ten times as late, and as another state.
    pump_until([rank], lambda: rank.beat() or read(url, "api/v1/ranks")[1]["state"] == "failed", seconds=3)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_run_in_order(controller, make_rank, number):
    rank = make_rank()
    rank.send(points([{0: 1.0}], names={0: "loss"}))
    pump_until([rank], lambda: rank.acknowledged == rank.seq)
    os.kill(controller.process.pid, number)
    assert controller.wait() == 0
    document = json.loads((controller.folder / "run.json").read_text())
    assert (document["state"], number.name in document["state_detail"]) == ("terminated", True)
    assert kept_points(controller.folder) == [("loss", 0, 0, 1.0)]
    assert (controller.folder / "report.html").is_file()


def test_what_a_rank_left_on_the_disk_is_taken_in_at_the_end(controller, make_rank):
    rank = make_rank()
    rank.send(points([{0: 1.0}], names={0: "loss"}))
    pump_until([rank], lambda: rank.acknowledged == rank.seq)
    spool = controller.folder / "spool"
    spool.mkdir()
    frames = [
        codec.encode(
            messages.Hello(
                session=rank.session,
                role="rank",
                run=controller.address.run,
                identity=messages.Identity(rank=0, local_rank=0, world_size=1),
                host=messages.HostFacts(host="node-a", machine_id="machine of node-a"),
                process=messages.ProcessFacts(pid=rank.pid),
                sent_at=time.time(),
            )
        ),
        codec.encode(points([{0: 1.0}], names={0: "loss"}), 1),
        codec.encode(points([{0: 2.0}], step=1), 2),
    ]
    (spool / "left.spool").write_bytes(b"".join(map(pack_spooled, frames)))
    rank.close()
    controller.process.terminate()
    assert controller.wait() == 0
    assert kept_points(controller.folder) == [("loss", 0, 0, 1.0), ("loss", 0, 1, 2.0)]
    assert not spool.exists()


def recover(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "trackside", "recover", str(folder), "--json", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_what_comes_to_light_after_a_clean_end_is_taken_in_once(controller, make_rank, tmp_path):
    """A rank on another machine was cut off, said goodbye to nobody, and its files were carried here."""
    first, cut_off = make_rank(0, 2), make_rank(1, 2, host="node-b")
    for rank in (first, cut_off):
        rank.send(points([{0: 1.0}, {0: 2.0}], names={0: "loss"}))
    first.send(messages.Goodbye(time=time.time()))
    pump_until([first, cut_off], lambda: first.acknowledged == first.seq and cut_off.acknowledged == cut_off.seq)
    cut_off.close()
    controller.process.terminate()
    assert controller.wait() == 0
    before = json.loads((controller.folder / "run.json").read_text())
    hello = messages.Hello(
        session=cut_off.session,
        role="rank",
        run=controller.address.run,
        identity=messages.Identity(rank=1, local_rank=0, world_size=2),
        host=messages.HostFacts(host="node-b", machine_id="machine of node-b"),
        process=messages.ProcessFacts(pid=cut_off.pid),
        sent_at=time.time(),
    )
    frames = [
        codec.encode(hello),
        codec.encode(points([{0: 1.0}, {0: 2.0}], names={0: "loss"}), 1),
        codec.encode(points([{0: 3.0}, {0: 4.0}], step=2), 2),
        codec.encode(messages.Goodbye(time=time.time()), 3),
    ]
    carried = tmp_path / "carried"
    for attempt in range(2):
        carried.mkdir()
        (carried / "left.spool").write_bytes(b"".join(map(pack_spooled, frames)))
        done = recover(controller.folder, "--spool", str(carried))
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["points"] == 6
        assert kept_points(controller.folder) == [
            *(("loss", 0, step, 1.0 + step) for step in range(2)), *(("loss", 1, step, 1.0 + step) for step in range(4)),
        ]  # fmt: skip
        assert list(carried.iterdir()) == []
        carried.rmdir()
        after = json.loads((controller.folder / "run.json").read_text())
        assert (after["ended_at"], after["id"]) == (before["ended_at"], before["id"])
        assert (after["state"], after["ranks"]["finished"]) == ("finished", 2)
        lines = map(json.loads, (controller.folder / "events.jsonl").read_text().splitlines())
        late = [event["text"] for event in lines if event["kind"] == "taken in late"]
        assert late == ["2 values that had not been delivered when the run ended were taken in"], attempt
        report = (controller.folder / "report.html").read_text()
        assert "taken in late" in report
    assert not (controller.folder / "journal").exists()
    again = recover(controller.folder, "--spool", str(tmp_path))
    assert (again.returncode, "its run has ended" in again.stderr) == (1, True)


def test_b20_another_port_is_one_warning(controller, make_rank):
    rank = make_rank()
    url = page_of(rank)
    port = int(url.split(":")[2].strip("/"))
    rank.send(messages.PortWish(port=port))
    rank.send(messages.PortWish(port=port + 1))
    event = pump_until([rank], lambda: [e for e in read(url, "api/v1/events") if e["kind"] == "port"])
    assert len(event) == 1
    assert str(port + 1) in event[0]["text"]
    assert f"port {port}" in event[0]["text"]


def test_b19_a_taken_port_is_said_and_the_next_wish_tries_again(controller, make_rank):
    rank = make_rank()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        rank.send(messages.PortWish(port=taken.getsockname()[1]))
        pump_until([rank], lambda: [m for m in said(rank, messages.Say) if "page not bound" in m.line])
    (line,) = [m.line for m in said(rank, messages.Say) if "page not bound" in m.line]
    assert str(os.getpid()) in line, "the holder is named"
    assert read(page_of(rank), "healthz")["status"] == "ok"


def test_b19_what_is_said_before_anybody_can_print_it_is_printed_later(tmp_path, link):
    """A launcher on a busy machine says hello after its controller has found the port taken."""
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        controller = ControllerUnderTest(tmp_path, "--port", str(port))
        try:
            log = controller.folder / "events.jsonl"
            wait_for(lambda: "page not bound" in log.read_text(), 30, "the word that it is taken")
            rank = link(controller.address, 0)
            rank.hello()
            (line,) = pump_until([rank], lambda: [m.line for m in said(rank, messages.Say)], what="a line")
            assert f"no page on port {port}" in line
        finally:
            controller.close()


def test_the_secrets_are_for_their_user_only(controller):
    file = controller.folder / "journal" / "controller.json"
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o077 == 0


def test_an_unwritable_folder_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    controller = ControllerUnderTest(tmp_path, "--dir", str(tmp_path / "file" / "runs"))
    try:
        assert controller.wait() in (1, 2)
        assert "--dir" in controller.said["error"]
        assert "--dir" in controller.stderr
    finally:
        controller.close()


def test_a_run_that_has_ended_cannot_be_resumed(controller):
    controller.process.terminate()
    assert controller.wait() == 0
    controller.resume()
    assert controller.wait() == 1
    assert "cannot be resumed" in controller.said["error"]


def test_a_launcher_that_dies_leaves_the_controller_until_its_ranks_have_gone(tmp_path, link):
    parent = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    controller = ControllerUnderTest.__new__(ControllerUnderTest)
    controller.directory, controller._prefix, controller._env = tmp_path, (), {}
    controller.start("--dir", str(tmp_path), "--name", "test", parent_pid=parent.pid)
    try:
        rank = link(controller.address, 0)
        rank.hello()
        pump_until([rank], lambda: rank.welcome)
        parent.kill()
        parent.wait()
        parent.stdin.close()
        rank.send(points([{0: 1.0}], names={0: "loss"}))
        pump_until([rank], lambda: rank.acknowledged == rank.seq)
        rank.send(messages.Goodbye(time=time.time()))
        pump_until([rank], lambda: rank.acknowledged == rank.seq)
        assert controller.wait() == 0
        assert kept_points(controller.folder) == [("loss", 0, 0, 1.0)]
    finally:
        controller.close()


def test_a_launcher_that_dies_before_any_rank_ends_the_controller(tmp_path):
    parent = subprocess.Popen([sys.executable, "-c", ""])
    parent.wait()
    controller = ControllerUnderTest.__new__(ControllerUnderTest)
    controller.directory, controller._prefix, controller._env = tmp_path, (), {}
    controller.start("--dir", str(tmp_path), "--name", "test", parent_pid=parent.pid)
    try:
        assert controller.wait() == 0
    finally:
        controller.close()
