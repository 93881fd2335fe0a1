"""A page that others may open: it says so loudly, wants its token, and the token and the link's keys are nowhere they could be read."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import zmq

from tests.process.wire_client import ControllerUnderTest, WireRank, points, pump_until, said
from trackside.wire import messages

pytestmark = pytest.mark.usefixtures("leak_check")
TOKEN = "open-sesame_2026~x"


@pytest.fixture
def context() -> Iterator[zmq.Context[zmq.Socket[bytes]]]:
    made: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    yield made
    made.destroy(linger=0)


def read(url: str, **headers: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10) as answer:
            return answer.status, answer.read().decode() + str(answer.headers)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode() + str(error.headers)


def test_d79_d84_a_page_for_others_says_so_and_keeps_its_secrets(
    tmp_path: Path, context: zmq.Context[zmq.Socket[bytes]]
) -> None:
    controller = ControllerUnderTest(tmp_path, "--bind", "0.0.0.0", "--port", "0", TRACKSIDE_TOKEN=TOKEN)
    rank = WireRank(context, controller.address, 0)
    try:
        rank.hello()
        rank.send(messages.PortWish(port=0))
        line = pump_until([rank], lambda: [m.line for m in said(rank, messages.Say) if "://" in m.line])[-1]
        assert f"?token={TOKEN}  open to the network: whoever has this line can read the run" in line
        port = int(re.search(r":(\d+)/", line)[1])  # type: ignore[index]
        rank.send(points([{0: 0.5}], names={0: "loss"}))
        pump_until([rank], lambda: rank.acknowledged == rank.seq)
        base = f"http://127.0.0.1:{port}"
        for path in ("/", "/api/v1/run", "/api/v1/stream", "/healthz", "/metrics", "/report.html", "/assets/x.js"):
            assert read(base + path)[0] == 401, path
        answers = [
            read(base + path, Authorization=f"Bearer {TOKEN}")
            for path in ("/", "/api/v1/run", "/healthz", "/report.html")
        ]
        assert {status for status, _ in answers} == {200}
        secrets = (TOKEN, controller.address.client_secret, controller.said["address"])
        proc = Path(f"/proc/{controller.process.pid}")
        argv = (proc / "cmdline").read_text()
        assert (proc / "environ").stat().st_mode & 0o077 == 0
        rank.send(messages.Goodbye(time=0.0))
        pump_until([rank], lambda: rank.acknowledged == rank.seq)
        see_private(controller.folder, secrets)
        assert controller.wait() == 0
        see_private(controller.folder, secrets)
        for text in (*(text for _, text in answers), argv, controller.stderr):
            assert not [secret for secret in secrets if secret in text]
    finally:
        rank.close()
        controller.close()


def see_private(folder: Path, secrets: tuple[str, ...]) -> None:
    """Whatever holds a secret is for its user only; the journal, with all that ranks say, is too."""
    for path in folder.rglob("*"):
        try:
            content = path.read_bytes() if path.is_file() else b""
            mode = path.stat().st_mode & 0o077
        except FileNotFoundError:
            continue  # a file that is renamed into its place
        if any(secret.encode() in content for secret in secrets):
            assert mode == 0, path
        if "journal" in path.relative_to(folder).parts[:1]:
            assert path.parent.stat().st_mode & 0o077 == 0 or mode == 0, path


def test_d79_loopback_is_where_nobody_said_otherwise(tmp_path: Path, context: zmq.Context[zmq.Socket[bytes]]) -> None:
    controller = ControllerUnderTest(tmp_path)
    rank = WireRank(context, controller.address, 0)
    try:
        rank.hello()
        rank.send(messages.PortWish(port=0))
        line = pump_until([rank], lambda: [m.line for m in said(rank, messages.Say) if "://" in m.line])[-1]
        assert "bound on the controller's loopback" in line
        found = listening(controller.process.pid)
        assert found
        assert found <= {"127.0.0.1", "::ffff:127.0.0.1"}, "page and link"
    finally:
        rank.close()
        controller.close()


def listening(pid: int) -> set[str]:
    """Addresses on which a process listens."""
    connections = psutil.Process(pid).net_connections("tcp")
    return {connection.laddr.ip for connection in connections if connection.status == psutil.CONN_LISTEN}
