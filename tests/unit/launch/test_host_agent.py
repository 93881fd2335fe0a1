"""What the launcher's agent reports, over a link that only takes notes."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.launch.polling import eventually
from trackside.launch import host_agent as module
from trackside.launch.host_agent import HostAgent
from trackside.launch.workers import Exit, Worker
from trackside.wire import messages


class Notes:
    """A link."""

    samples_host = True
    spared_ranks: frozenset[int] = frozenset()

    def __init__(self) -> None:
        self.sent: list[messages.Upward] = []
        self.closed = 0
        self.inherited: list[int] = []

    def send(self, message: messages.Upward) -> None:
        self.sent.append(message)

    def inherit(self, pid: int) -> None:
        self.inherited.append(pid)

    def close(self, deadline_s: float) -> bool:
        self.closed += 1
        return True

    def of(self, kind: type) -> list:
        return [message for message in self.sent if isinstance(message, kind)]


class Ranks:
    """Processes that wait for a line, or end as they are told."""

    def __init__(self) -> None:
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, rank: int, generation: int = 0, code: str = "input()") -> Worker:
        process = subprocess.Popen([sys.executable, "-S", "-c", code], stdin=subprocess.PIPE)
        self.processes.append(process)
        identity = messages.Identity(rank=rank, local_rank=rank, world_size=2, generation=generation)
        return Worker(identity=identity, pid=process.pid, returncode=lambda: process.returncode)

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait(10)
            if process.stdin:
                process.stdin.close()


@pytest.fixture
def ranks() -> Iterator[Ranks]:
    made = Ranks()
    yield made
    made.close()


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
def agent(notes: Notes, monkeypatch: pytest.MonkeyPatch) -> Iterator[HostAgent]:
    monkeypatch.setattr(module, "_TICK_S", 0.01)
    monkeypatch.setattr(module, "_SAMPLE_S", 0.05)
    monkeypatch.setattr(module, "_ALIVE_S", 0.05)
    made = HostAgent(lambda: notes, Path(), os.environ)
    made.start()
    yield made
    made.settle()


def exits(notes: Notes) -> list[tuple[int, int, int | None, str | None]]:
    return [(m.rank, m.generation, m.exit_code, m.signal) for m in notes.of(messages.WorkerExited)]


def test_b30_starts_and_ends_of_ranks_are_reported(agent: HostAgent, notes: Notes, ranks: Ranks) -> None:
    first, second = ranks.start(0), ranks.start(1)
    agent.workers_started([first, second])
    eventually(lambda: len(notes.of(messages.WorkerStarted)) == 2)
    assert [(m.identity, m.pid) for m in notes.of(messages.WorkerStarted)] == [
        (first.identity, first.pid),
        (second.identity, second.pid),
    ]
    eventually(lambda: messages.WorkerAlive(ranks=[0, 1], generation=0) in notes.sent)
    ranks.processes[1].kill()
    eventually(lambda: exits(notes) == [(1, 0, None, "SIGKILL")])
    eventually(lambda: messages.WorkerAlive(ranks=[0], generation=0) in notes.sent)
    assert agent.first_failure() == Exit(signal="SIGKILL")


def test_b17_a_host_and_ranks_without_a_monitor_are_sampled(agent: HostAgent, notes: Notes, ranks: Ranks) -> None:
    agent.workers_started([ranks.start(0)])
    eventually(lambda: any(m.of_rank == 0 for m in notes.of(messages.ResourceSample)))
    eventually(lambda: any(m.host is not None for m in notes.of(messages.ResourceSample)))
    of_rank = next(m for m in notes.of(messages.ResourceSample) if m.of_rank == 0)
    assert of_rank.rank is not None
    assert (of_rank.rank.memory or 0) > 1 << 20


def test_an_agent_that_was_not_appointed_leaves_the_host_alone(agent: HostAgent, notes: Notes, ranks: Ranks) -> None:
    notes.samples_host = False
    agent.workers_started([ranks.start(0)])
    eventually(lambda: any(m.of_rank == 0 for m in notes.of(messages.ResourceSample)))
    assert all(m.host is None for m in notes.of(messages.ResourceSample))


def test_b17_b18_a_rank_that_is_to_be_spared_is_left_alone(agent: HostAgent, notes: Notes, ranks: Ranks) -> None:
    agent.workers_started([ranks.start(0), ranks.start(1)])
    eventually(lambda: {m.of_rank for m in notes.of(messages.ResourceSample)} >= {0, 1})
    notes.spared_ranks = frozenset({0})
    notes.sent.clear()
    eventually(lambda: [m.of_rank for m in notes.of(messages.ResourceSample)].count(1) > 3)
    assert [m.of_rank for m in notes.of(messages.ResourceSample)].count(0) <= 1, "one may have been on its way"


def test_b18_without_a_link_nothing_is_sampled(ranks: Ranks, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    monkeypatch.setattr(module, "HostSampler", lambda *_, **__: made.append("host"))
    monkeypatch.setattr(module, "RankSampler", lambda *_, **__: made.append("rank"))
    monkeypatch.setattr(module, "_TICK_S", 0.01)
    agent = HostAgent(lambda: None, Path(), os.environ)
    agent.start()
    agent.workers_started([ranks.start(0, code="import time; time.sleep(0.5)")])
    eventually(lambda: agent.first_failure() is None and ranks.processes[0].poll() == 0)
    agent.settle()
    assert made == []


def test_b31_the_last_generation_decides(agent: HostAgent, notes: Notes, ranks: Ranks) -> None:
    agent.workers_started([ranks.start(0, code="raise SystemExit(3)")])
    eventually(lambda: exits(notes) == [(0, 0, 3, None)])
    agent.workers_started([ranks.start(0, generation=1, code="raise SystemExit(0)")])
    eventually(lambda: exits(notes)[1:] == [(0, 1, 0, None)])
    assert agent.first_failure() is None


def test_b31_a_rank_that_is_ended_for_a_restart_is_said_to_be(agent: HostAgent, notes: Notes, ranks: Ranks) -> None:
    agent.workers_started([ranks.start(0), ranks.start(1)])
    eventually(lambda: len(notes.of(messages.WorkerStarted)) == 2)
    agent.generation_ending()
    ranks.processes[0].terminate()
    ranks.processes[1].kill()
    eventually(lambda: len(exits(notes)) == 2)
    assert {m.rank: m.for_restart for m in notes.of(messages.WorkerExited)} == {0: True, 1: False}
    agent.workers_started([ranks.start(0, generation=1)])
    eventually(lambda: len(notes.of(messages.WorkerStarted)) == 3)
    ranks.processes[2].terminate()
    eventually(lambda: len(exits(notes)) == 3)
    assert not notes.of(messages.WorkerExited)[-1].for_restart


def test_the_end_is_said_after_the_last_exit(agent: HostAgent, notes: Notes, ranks: Ranks) -> None:
    agent.workers_started([ranks.start(0, code="raise SystemExit(3)")])
    ranks.processes[0].wait(20)
    agent.settle()
    agent.end(3, None)
    agent.end(3, None)
    kinds = [type(m) for m in notes.sent if not isinstance(m, (messages.WorkerAlive, messages.ResourceSample))]
    assert kinds == [messages.WorkerStarted, messages.WorkerExited, messages.JobEnded, messages.Goodbye]
    assert notes.of(messages.JobEnded)[0].exit_code == 3
    assert notes.closed == 1


def test_a_signal_is_the_end_of_the_job_and_not_a_code(agent: HostAgent, notes: Notes, ranks: Ranks) -> None:
    agent.workers_started([ranks.start(0)])
    eventually(lambda: bool(notes.of(messages.WorkerStarted)))
    agent.settle()
    agent.end(143, "SIGTERM")
    ended = notes.of(messages.JobEnded)[0]
    assert (ended.exit_code, ended.signal) == (None, "SIGTERM")


def test_without_a_controller_exits_are_still_known(ranks: Ranks) -> None:
    agent = HostAgent(lambda: None, Path(), os.environ)
    agent.start()
    agent.workers_started([ranks.start(0, code="raise SystemExit(7)")])
    eventually(lambda: agent.first_failure() == Exit(exit_code=7))
    agent.settle()
    agent.end(7, None)


def test_a_signal_to_the_launcher_is_told_before_ranks_end_of_it(agent: HostAgent, notes: Notes, ranks: Ranks) -> None:
    agent.workers_started([ranks.start(0)])
    eventually(lambda: len(notes.of(messages.WorkerStarted)) == 1)
    agent.stopping("SIGINT")
    ranks.processes[0].terminate()
    eventually(lambda: len(exits(notes)) == 1)
    said = [m for m in notes.sent if isinstance(m, (messages.JobEnded, messages.WorkerExited))]
    assert [type(m) for m in said] == [messages.JobEnded, messages.WorkerExited]
    assert notes.of(messages.JobEnded)[0].signal == "SIGINT"
