import asyncio
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from trackside.cli.controller import read_config
from trackside.controller.beginning import begin
from trackside.controller.config import ControllerConfig, is_loopback_address, read_port, read_token
from trackside.controller.durable import DurableMarks
from trackside.controller.exits import Ended
from trackside.controller.identity import (
    ControllerIdentity,
    address_of,
    candidate_hosts,
    load_identity,
    new_identity,
    save_identity,
)
from trackside.controller.url import PageAddress
from trackside.controller.watch import ParentWatch, SessionWatch
from trackside.errors import RunFolderError, UsageError
from trackside.run.limits import SilenceLimits
from trackside.store import RunFolder
from trackside.wire import messages
from trackside.wire.processes import is_running

# --- what is told to ranks ---------------------------------------------------------------------------------------

WELCOME = messages.Welcome(run="r", name="n", directory="/d", machine_id="", durable_seq=0)


@pytest.fixture
def sent() -> list[tuple[bytes, messages.Downward]]:
    return []


@pytest.fixture
def marks(sent) -> DurableMarks:
    return DurableMarks(lambda session, message: sent.append((session, message)), "machine")


def test_what_is_durable_is_acknowledged_once(marks, sent):
    marks.note({b"a": 3, b"b": 1})
    marks.note({b"a": 3, b"b": 2})
    assert sent == [
        (b"a", messages.Ack(durable_seq=3)),
        (b"b", messages.Ack(durable_seq=1)),
        (b"b", messages.Ack(durable_seq=2)),
    ]


def test_a_welcome_says_what_is_durable_and_where_the_controller_runs(marks, sent):
    marks.note({b"a": 7}, acknowledge=False)
    marks.welcome(b"a", WELCOME)
    marks.welcome(b"new", WELCOME)
    assert [(s, m.durable_seq, m.machine_id) for s, m in sent] == [(b"a", 7, "machine"), (b"new", 0, "machine")]


def test_who_must_send_again_is_welcomed_again_with_the_present_mark(marks, sent):
    marks.welcome(b"a", WELCOME)
    marks.note({b"a": 5})
    marks.ask_again(b"a")
    marks.ask_again(b"unknown")
    assert sent[-1] == (b"a", msgspec.structs.replace(WELCOME, durable_seq=5, machine_id="machine"))


# --- the URL line ------------------------------------------------------------------------------------------------


def test_b21_d70_on_loopback_the_line_holds_the_tunnel():
    line = PageAddress("127.0.0.1", 7117, "never shown").line("gpu-01")
    assert "http://localhost:7117 " in line
    assert "bound on the controller's loopback" in line
    assert line.endswith("ssh -L 7117:localhost:7117 gpu-01")
    assert "never shown" not in line


@pytest.mark.parametrize(
    ("bind", "url"),
    [
        ("0.0.0.0", "http://gpu-01:7117/?token=t0ken"),
        ("::", "http://gpu-01:7117/?token=t0ken"),
        ("10.0.0.5", "http://10.0.0.5:7117/?token=t0ken"),
        ("2001:db8::1", "http://[2001:db8::1]:7117/?token=t0ken"),
    ],
)
def test_b21_d84_elsewhere_the_line_holds_host_and_token(bind, url):
    address = PageAddress(bind, 7117, "t0ken")
    assert address.url("gpu-01") == url
    assert url in address.line("gpu-01")


# --- what was asked for ------------------------------------------------------------------------------------------


def config(*arguments: str, **environ: str) -> ControllerConfig:
    from trackside.cli.controller import _parser

    return read_config(_parser().parse_args(list(arguments)), environ)


def test_argument_before_environment_before_default():
    assert config().directory == Path("runs")
    assert config(TRACKSIDE_DIR="/e", TRACKSIDE_NAME="e").directory == Path("/e")
    assert config("--dir", "/a", TRACKSIDE_DIR="/e").directory == Path("/a")
    assert config(TRACKSIDE_PORT="8000").port == 8000
    assert not config(TRACKSIDE_PORT="8000").wants_page, "only a wish opens the page"
    assert config("--port", "9000", TRACKSIDE_PORT="8000").port == 9000
    assert config("--port", "9000").wants_page


def test_b30_the_limits_of_silence_are_options_before_the_environment():
    assert config().silence == SilenceLimits(10.0, 30.0)
    assert config(TRACKSIDE_LATE_AFTER="4", TRACKSIDE_LOST_AFTER="9").silence == SilenceLimits(4.0, 9.0)
    assert config("--late-after", "5", TRACKSIDE_LATE_AFTER="4").silence == SilenceLimits(5.0, 30.0)
    with pytest.raises(UsageError, match="TRACKSIDE_LOST_AFTER 'x'"):
        config(TRACKSIDE_LOST_AFTER="x")


def test_b30_a_restarted_controller_keeps_the_limits_of_silence(tmp_path):
    first = begin(config("--dir", str(tmp_path), "--late-after", "4", "--lost-after", "9"))
    save_identity(first.folder, first.identity)
    first.lock.release()
    again = begin(config("--resume", str(first.folder.path)))
    settings = again.machine.state.settings
    assert (settings.late_after_seconds, settings.lost_after_seconds) == (4.0, 9.0)


def test_the_link_follows_an_option_and_not_the_pages_environment():
    assert config().listen == "127.0.0.1"
    assert config("--bind", "0.0.0.0").listen == "0.0.0.0"
    assert config(TRACKSIDE_BIND="0.0.0.0").listen == "127.0.0.1"
    assert config("--listen", "10.0.0.5").bind == "127.0.0.1"


@pytest.mark.parametrize("arguments", [["--port", "x"], ["--port", "70000"], ["--port", "1", "--no-page"], ["--hello"]])
def test_wrong_use_names_the_value(arguments):
    with pytest.raises(UsageError, match=arguments[1] if len(arguments) > 1 else arguments[0]):
        config(*arguments)


@pytest.mark.parametrize("token", ["short", "with space in it", "ümlaut-token", "semi;colon;token"])
def test_a_token_that_no_url_holds_is_refused_without_being_shown(token):
    with pytest.raises(UsageError) as refused:
        read_token({"TRACKSIDE_TOKEN": token})
    assert token not in str(refused.value)


def test_ports_are_numbers():
    assert read_port(" 7117 ", "--port") == 7117
    assert read_port("", "--port") is None
    assert read_port("0", "--port") == 0


@pytest.mark.parametrize(("address", "expected"), [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("10.0.0.1", False), ("::", False)])  # fmt: skip
def test_loopback(address, expected):
    assert is_loopback_address(address) == expected


# --- identity ----------------------------------------------------------------------------------------------------


def test_only_pages_for_others_have_a_token():
    assert new_identity(ControllerConfig(), 1.0).token is None
    assert len(new_identity(ControllerConfig(bind="0.0.0.0"), 1.0).token) >= 24
    assert new_identity(ControllerConfig(bind="0.0.0.0", token="chosen-one"), 1.0).token == "chosen-one"


def test_identity_survives_on_disk_for_its_user_only(tmp_path):
    folder = RunFolder.create(tmp_path, "x", 1.0)
    identity = new_identity(ControllerConfig(), 1.0)
    save_identity(folder, identity)
    assert load_identity(folder) == identity
    assert (folder.journal / "controller.json").stat().st_mode & 0o777 == 0o600


def test_no_secret_shows_in_a_representation():
    identity = new_identity(ControllerConfig(bind="0.0.0.0"), 1.0)
    address = address_of(identity, 1)
    secrets = [identity.keys.server_secret, identity.keys.client_secret, identity.token]
    for text in (repr(identity), repr(identity.keys), repr(address)):
        assert not any(secret in text for secret in secrets)


@pytest.mark.parametrize("content", [None, b"", b"{}", b'{"run": 3}'])
def test_a_damaged_identity_is_an_error_that_says_which(tmp_path, content):
    folder = RunFolder.create(tmp_path, "x", 1.0)
    if content is not None:
        (folder.journal / "controller.json").write_bytes(content)
    with pytest.raises(RunFolderError, match=r"controller\.json"):
        load_identity(folder)


def test_d77_ranks_elsewhere_get_names_and_addresses():
    assert candidate_hosts("127.0.0.1") == ["127.0.0.1"]
    assert candidate_hosts("10.0.0.5") == ["10.0.0.5"]
    hosts = candidate_hosts("0.0.0.0")
    assert len(hosts) == len(set(hosts)) >= 2
    assert hosts[-1] == "127.0.0.1" or len(hosts) == 8


def test_identity_fields_have_not_lost_their_defaults():
    old = msgspec.json.decode(msgspec.json.encode(new_identity(ControllerConfig(), 1.0)))
    for name in ("token", "page_port", "allowed_hosts", "no_page", "hold", "link_port"):
        old.pop(name)
    assert msgspec.convert(old, ControllerIdentity).page_port is None


# --- processes ---------------------------------------------------------------------------------------------------


def test_a_parents_end_is_told_once():
    async def scene() -> list[str]:
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        told: list[str] = []
        gone = asyncio.Event()
        watch = ParentWatch(child.pid, lambda: (told.append("gone"), gone.set()))
        watch.start(asyncio.get_running_loop())
        assert told == []
        child.communicate()
        async with asyncio.timeout(5):
            await gone.wait()
        watch.poll()
        watch.close()
        return told

    assert asyncio.run(scene()) == ["gone"]


def test_a_parent_that_has_gone_already_is_told_at_once():
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()

    async def scene() -> list[str]:
        told: list[str] = []
        watch = ParentWatch(child.pid, lambda: told.append("gone"))
        watch.start(asyncio.get_running_loop())
        return told

    assert asyncio.run(scene()) == ["gone"]


def hello(pid: int, machine: str) -> messages.Hello:
    return messages.Hello(
        session=b"s" * 16,
        role="rank",
        run=None,
        identity=None,
        host=messages.HostFacts(host="h", machine_id=machine),
        process=messages.ProcessFacts(pid=pid),
        sent_at=0.0,
    )


def test_only_processes_of_this_machine_are_watched():
    watch = SessionWatch("here")
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    watch.greet(hello(child.pid, "elsewhere"))
    child.communicate()
    assert watch.take_gone() == []
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    watch.greet(hello(child.pid, "here"))
    assert watch.take_gone() == []
    child.communicate()
    assert watch.take_gone() == [(b"s" * 16, Ended(exit_code=1))]
    assert watch.take_gone() == []


def test_a_zombie_has_ended():
    child = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not is_running(child.pid)
    child.wait()
    assert is_running(os.getpid())
