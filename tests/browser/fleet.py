"""A real controller and ranks on the real wire, kept alive in the background while a browser looks at their page."""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import zmq

from tests.process.job import PATIENCE
from tests.process.wire_client import ControllerUnderTest, WireRank, points
from trackside.wire import documents, messages

BEAT_S = 0.25


class Fleet:
    """Ranks that say they are alive until told otherwise; every method may be called while the browser waits."""

    def __init__(
        self, directory: Path, hosts: tuple[str, ...] = ("node-a", "node-b"), world_size: int | None = None, **env: str
    ) -> None:
        self.controller = ControllerUnderTest(directory, **env)
        self._context = zmq.Context()
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._quiet: set[int] = set()
        self.totals: dict[int, dict[str, Any]] = {}
        self.ranks = [
            WireRank(self._context, self.controller.address, rank, world_size or len(hosts), host=host)
            for rank, host in enumerate(hosts)
        ]
        self.agent = WireRank(self._context, self.controller.address, -1, host=(*hosts, "node-a")[0], role="agent")
        self.names: list[str] = []
        self._all(lambda rank: rank.hello())
        self._thread = threading.Thread(target=self._live, name="fleet", daemon=True)
        self._thread.start()
        self.tell(messages.PortWish(port=0))
        self.url = wait_for(self._said_url, "the page's URL")

    def _said_url(self) -> str | None:
        with self._lock:
            everyone = [*self.ranks, self.agent]
            lines = [m.line for each in everyone for m in each.received if isinstance(m, messages.Say)]
        return next((line.split()[1] + "/" for line in lines if "://" in line), None)

    def _all(self, act: Callable[[WireRank], Any]) -> None:
        with self._lock:
            for rank in (*self.ranks, self.agent):
                act(rank)

    def _live(self) -> None:
        """Beat and listen until the end."""
        beats = 0
        while not self._over.wait(0.02):
            with self._lock:
                for rank in (*self.ranks, self.agent):
                    rank.pump()
                beats += 1
                if beats % int(BEAT_S / 0.02) == 0:
                    for rank in self.ranks:
                        if rank.rank not in self._quiet:
                            rank.beat(**self.totals.get(rank.rank, {}))
                    self.agent.beat()

    # --- verbs -----------------------------------------------------------------------------------------------------

    def send(self, rank: int, message: messages.Message) -> None:
        with self._lock:
            self.ranks[rank].send(message)

    def watch(self, graph: documents.GraphDocument) -> None:
        """Rank 0 has watched a model."""
        raw = msgspec.Raw(msgspec.msgpack.encode(graph))
        self.send(0, messages.SetGraph(graph=raw, label=graph.label, hash=graph.hash))

    def tell(self, message: messages.Message) -> None:
        """Send as the launcher's agent."""
        with self._lock:
            self.agent.send(message)

    def log(self, values: dict[str, list[float]], *, step: int = 0, ranks: tuple[int, ...] | None = None) -> None:
        """Each metric's values for consecutive steps from `step` on; rank r adds r to every value."""
        for name in values:
            if name not in self.names:
                self.names.append(name)
        ids = {name: self.names.index(name) for name in values}
        count = max(map(len, values.values()))
        for rank in self.ranks if ranks is None else [self.ranks[r] for r in ranks]:
            calls = [
                {ids[name]: column[i] + rank.rank for name, column in values.items() if i < len(column)}
                for i in range(count)
            ]
            self.send(rank.rank, points(calls, step=step, names={ids[name]: name for name in values}))

    def steps(self, first: int, count: int, data: dict[int, float], step_seconds: float = 0.3) -> None:
        """Every rank's steps, all as long as each other; `data` is what each waits for its loader, seconds."""
        names = ["data", "forward", "backward", "optimizer", "collective", "rest"]
        step = np.arange(first, first + count, dtype="<i8")
        ended = time.time() - step_seconds * np.arange(count - 1, -1, -1, dtype="<f8")
        for rank in self.ranks:
            noise = 1 + 0.01 * np.sin(step * (rank.rank + 1.7))
            work = [data.get(rank.rank, 0.005) * noise, 0.04 * noise, 0.05 * noise, 0.01 * noise]
            waiting = step_seconds - sum(work) - 0.002
            seconds = np.stack([*work, waiting, np.full(count, 0.002)], axis=1).astype("<f8")
            message = messages.StepTimes(
                phases=names,
                step=step.tobytes(),
                count=np.ones(count, "<u4").tobytes(),
                ended_at=ended.tobytes(),
                wall=np.full(count, step_seconds, "<f8").tobytes(),
                own=(step_seconds - waiting).astype("<f8").tobytes(),
                seconds=seconds.tobytes(),
                samples=np.full(count, 32, "<i8").tobytes(),
            )
            self.send(rank.rank, message)

    def silence(self, rank: int) -> None:
        self._quiet.add(rank)

    def start_again(self, hosts: tuple[str, ...], generation: int) -> None:
        """What an elastic restart does: other processes are the ranks now."""
        with self._lock:
            for rank in self.ranks:
                rank.close()
            self.ranks = [
                WireRank(self._context, self.controller.address, rank, len(hosts), host=host, generation=generation)
                for rank, host in enumerate(hosts)
            ]
            for rank in self.ranks:
                rank.hello()

    def greet_again(self) -> None:
        """What a rank does when its controller has restarted."""
        self._all(lambda rank: rank.hello())

    def finish(self) -> None:
        """Every rank comes to its clean end."""
        for rank in self.ranks:
            self.send(rank.rank, messages.Goodbye(time=time.time()))
        self.end(0)

    def end(self, exit_code: int) -> None:
        """The launcher's job is over."""
        self.tell(messages.JobEnded(time=time.time(), exit_code=exit_code))
        self.tell(messages.Goodbye(time=time.time()))

    def read(self, path: str) -> Any:
        with urllib.request.urlopen(self.url + path, timeout=10) as answer:
            return json.loads(answer.read())

    def close(self) -> None:
        self._over.set()
        self._thread.join(5)
        for rank in (*self.ranks, self.agent):
            rank.close()
        self._context.destroy(linger=0)
        self.controller.close()


def wait_for(look: Callable[[], Any], what: str, seconds: float = 15) -> Any:
    deadline = time.monotonic() + seconds * PATIENCE
    while time.monotonic() < deadline:
        if found := look():
            return found
        time.sleep(0.02)
    raise AssertionError(f"not within {seconds} s: {what}")
