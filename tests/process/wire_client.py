"""Ranks that speak the real wire without training anything: many of them in one process, for tests and benchmarks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import zmq

from trackside.wire import codec, messages
from trackside.wire.address import ControllerAddress, parse_address
from trackside.wire.ids import new_session


class WireRank:
    """One session. `pump` must be called now and then: it answers welcomes and takes acknowledgements."""

    def __init__(
        self,
        context: zmq.Context[Any],
        address: ControllerAddress,
        rank: int,
        world_size: int = 1,
        *,
        host: str = "node-a",
        role: messages.Role = "rank",
        generation: int = 0,
        pid: int | None = None,
    ) -> None:
        self.session = new_session()
        self.rank, self.world_size, self.host, self.role, self.generation = rank, world_size, host, role, generation
        self.pid = os.getpid() if pid is None else pid
        self.address = address
        self.welcome: messages.Welcome | None = None
        self.received: list[messages.Downward] = []
        self.acknowledged = 0
        self.seq = 0
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._context = context
        self._socket = self._connect()

    def _connect(self) -> zmq.Socket[bytes]:
        socket = self._context.socket(zmq.DEALER)
        socket.setsockopt(zmq.ROUTING_ID, self.session)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.SNDHWM, 100_000)
        socket.setsockopt(zmq.RECONNECT_IVL, 20)
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, 200)
        socket.curve_serverkey = self.address.server_key.encode()
        socket.curve_publickey = self.address.client_public.encode()
        socket.curve_secretkey = self.address.client_secret.encode()
        socket.connect(f"tcp://{self.address.hosts[0]}:{self.address.port}")
        return socket

    def hello(self, **changes: Any) -> None:
        fields: dict[str, Any] = {
            "session": self.session,
            "role": self.role,
            "run": self.address.run,
            "identity": None
            if self.role == "agent"
            else messages.Identity(
                rank=self.rank, local_rank=self.rank, world_size=self.world_size, generation=self.generation
            ),
            "host": messages.HostFacts(host=self.host, machine_id=f"machine of {self.host}"),
            "process": messages.ProcessFacts(pid=self.pid),
            "sent_at": time.time(),
        }
        self._socket.send(codec.encode(messages.Hello(**{**fields, **changes})))

    def send(self, message: messages.Message) -> int:
        """Send a message in its order; returns its sequence, 0 for what is not acknowledged."""
        if isinstance(message, (messages.Heartbeat, messages.WorkerAlive)):
            self._socket.send(codec.encode(message))
            return 0
        self.seq += 1
        frame = codec.encode(message, self.seq)
        self._waiting.append((self.seq, frame))
        self._socket.send(frame)
        return self.seq

    def send_raw(self, *parts: bytes) -> None:
        self._socket.send_multipart(list(parts))

    def beat(self, **totals: Any) -> None:
        self.send(messages.Heartbeat(sent_at=time.time(), uptime_seconds=time.monotonic(), **totals))

    def pump(self) -> list[messages.Downward]:
        """Take what the controller said; a welcome is answered by sending again what is not durable."""
        news: list[messages.Downward] = []
        while True:
            try:
                frame = self._socket.recv(zmq.NOBLOCK)
            except zmq.Again:
                break
            message: Any = codec.decode_body(codec.open_envelope(frame))
            news.append(message)
            if isinstance(message, messages.Welcome):
                self.welcome = message
                self._acknowledge(message.durable_seq)
                for _, waiting in self._waiting:
                    self._socket.send(waiting)
            elif isinstance(message, messages.Ack):
                self._acknowledge(message.durable_seq)
        self.received += news
        return news

    def _acknowledge(self, seq: int) -> None:
        self.acknowledged = max(self.acknowledged, seq)
        while self._waiting and self._waiting[0][0] <= seq:
            self._waiting.popleft()

    def close(self) -> None:
        self._socket.close()


def points(
    calls: Iterable[dict[int, float]], *, step: int = 0, names: dict[int, str] | None = None, at: float | None = None
) -> messages.Points:
    """One call a step from `step` on, each `{series id: value}`; `names` defines ids."""
    calls = list(calls)
    count = len(calls)
    return messages.Points(
        defs=[messages.SeriesDef(id=series, name=name) for series, name in (names or {}).items()],
        time=np.full(count, time.time() if at is None else at, "<f8").tobytes(),
        step=np.arange(step, step + count, dtype="<i8").tobytes(),
        epoch=np.full(count, -1, "<i4").tobytes(),
        width=np.array([len(call) for call in calls], "<u4").tobytes(),
        series=np.array([series for call in calls for series in call], "<u4").tobytes(),
        value=np.array([value for call in calls for value in call.values()], "<f8").tobytes(),
    )


class ControllerUnderTest:
    """The real command in a process of its own."""

    def __init__(self, directory: Path, *options: str, prefix: tuple[str, ...] = (), **env: str) -> None:
        self.directory = directory
        self._prefix, self._env = prefix, env
        self.start("--dir", str(directory), "--name", "test", *options)

    def start(self, *options: str, parent_pid: int | None = None) -> None:
        """Start it and read its ready line."""
        reading, writing = os.pipe()
        parent = str(os.getpid() if parent_pid is None else parent_pid)
        command = [*self._prefix, sys.executable, "-m", "trackside", "controller", *options]
        command += ["--parent-pid", parent, "--ready-fd", str(writing)]
        environ = {key: value for key, value in os.environ.items() if not key.startswith("TRACKSIDE_")}
        self.log = (self.directory / "controller.log").open("ab")
        self.process = subprocess.Popen(
            command, pass_fds=[writing], stdin=subprocess.DEVNULL, stderr=self.log, env={**environ, **self._env}
        )
        os.close(writing)
        with os.fdopen(reading, "rb") as lines:
            self.said: dict[str, Any] = json.loads(lines.readline() or b"{}")
        if "address" in self.said:
            self.address = parse_address(self.said["address"])
            self.folder = Path(self.said["directory"])

    def resume(self, *options: str) -> None:
        """Start it again over the same run."""
        self.log.close()
        self.start("--resume", str(self.folder), *options)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)

    def wait(self, seconds: float = 20) -> int:
        return self.process.wait(seconds)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)
        self.log.close()

    @property
    def stderr(self) -> str:
        return (self.directory / "controller.log").read_text()


def pump_until(ranks: Iterable[WireRank], look: Callable[[], Any], seconds: float = 10.0, what: str = "") -> Any:
    """Pump until `look` returns something true; fail after three times `seconds`."""
    ranks, deadline = list(ranks), time.monotonic() + 3 * seconds
    while time.monotonic() < deadline:
        for rank in ranks:
            rank.pump()
        if found := look():
            return found
        time.sleep(0.01)
    raise AssertionError(f"not within {seconds} s: {what or look}")


def said(rank: WireRank, kind: type) -> list[Any]:
    """Messages of one kind that a session has received."""
    return [message for message in rank.received if isinstance(message, kind)]
