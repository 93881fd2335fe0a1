"""Somebody who holds the run's key says anything: the controller stays up, the others are heard, the answers can be read."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.security.anything import MESSAGES, damaged, hellos
from tests.unit.ingest.fake_rank import hello, points, session_id
from trackside.ingest.reader import FrameReader
from trackside.run.inputs import Moment, Ticked
from trackside.run.machine import RunMachine
from trackside.run.outputs import PrintLine
from trackside.run.state import Settings
from trackside.run.tree import tree_of
from trackside.sinks.terminal import escape_controls
from trackside.wire import codec, messages

HONEST, HOSTILE = 7, 66
GOOD_BEAT = messages.Heartbeat(sent_at=1.0, uptime_seconds=1.0, step=5)

many = settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
most = settings(many, max_examples=1200)


class Core:
    """Ingest and the run state as the controller joins them, without sockets, disk and time."""

    def __init__(self) -> None:
        self.refused: list[messages.Downward] = []
        self.lines: list[str] = []
        self.reader = FrameReader(
            "run-a",
            keep=lambda *_: None,
            send=lambda _session, message: self.refused.append(message),
            ask_again=lambda _session: None,
            has_room=lambda **_: True,
        )
        self.machine = RunMachine.begin(
            run_id="run-a", name="made", directory="/runs/a", version="0", settings=Settings(), started=Moment(1e9, 0.0)
        )
        self.mono = 0.0
        self.feed(session_id(HONEST), hello(HONEST))

    @property
    def now(self) -> Moment:
        return Moment(1e9 + self.mono, self.mono)

    def feed(self, session: bytes, *frames: bytes) -> None:
        for frame in frames:
            self.reader.feed(session, frame, self.now.wall)
        self.mono += 0.3
        for event in [*self.reader.take(), Ticked()]:
            for instruction in self.machine.handle(event, self.now):
                if isinstance(instruction, PrintLine):
                    self.lines.append(escape_controls(instruction.line))

    def documents(self) -> dict[str, Any]:
        """All that the page asks for, as strict JSON."""
        machine, now = self.machine, self.now
        ranks, metrics, last = machine.rank_entries(now), machine.metric_entries(), machine.last_values()
        told = {
            "run": machine.run_document(now),
            "ranks": ranks,
            "metrics": metrics,
            "epochs": machine.epoch_records(),
            "events": machine.event_records(),
            "resources": machine.resource_records("root"),
            "heat": machine.heat("root"),
            "graph": machine.graph(),
            "tree": tree_of(ranks, metrics, last),
        }
        return {name: json.loads(msgspec.json.encode(told[name]), parse_constant=pytest.fail) for name in told}


def see_the_honest_rank(core: Core) -> None:
    """What was said by another rank changes nothing about this one."""
    beat, value = codec.encode(GOOD_BEAT), codec.encode(points([{0: 0.5}], step=5, names={0: "honest"}), 1)
    core.feed(session_id(HONEST), hello(HONEST), beat, value)
    documents = core.documents()
    (metric,) = [entry for entry in documents["metrics"] if entry["name"] == "honest"]
    assert metric["points"] == 1
    assert metric["last"] == 0.5
    assert all(line.isprintable() for line in core.lines)
    again = RunMachine.restore(core.machine.snapshot())
    assert [entry.name for entry in again.metric_entries()] == [entry["name"] for entry in documents["metrics"]]


def say(data: st.DataObject, count: int) -> None:
    core = Core()
    session = session_id(HOSTILE)
    core.feed(session, codec.encode(data.draw(hellos(session, "run-a"))))
    for seq, message in enumerate(data.draw(st.lists(MESSAGES, min_size=1, max_size=count)), 1):
        core.feed(
            session, codec.encode(message, data.draw(st.sampled_from((seq, seq, seq, 0, codec.MAX_SEQ, 2**63 - 1))))
        )
    see_the_honest_rank(core)


@many
@given(st.data())
def test_whatever_a_rank_says_the_others_are_heard(data: st.DataObject) -> None:
    say(data, 6)


@pytest.mark.long
@most
@given(st.data())
def test_whatever_a_rank_says_at_length_the_others_are_heard(data: st.DataObject) -> None:
    say(data, 25)


@many
@given(st.data())
def test_damaged_frames_are_refused_or_read_and_never_more(data: st.DataObject) -> None:
    """A frame whose bytes were changed on the way (only the run's own ranks could do so) costs itself at most."""
    core = Core()
    session = session_id(HOSTILE)
    core.feed(session, hello(3, session=session))
    for message in data.draw(st.lists(MESSAGES, min_size=1, max_size=5)):
        core.feed(session, data.draw(damaged(codec.encode(message, data.draw(st.integers(0, 9))))))
    see_the_honest_rank(core)


@pytest.mark.parametrize("rank", [2**64 - 1, 2**63 - 1, -(2**63), 2**32 + HONEST, 65_536, -1])
@pytest.mark.parametrize("generation", [0, -1, 2**31, 2**64 - 1])
def test_a_rank_that_no_job_can_have_has_no_values(rank: int, generation: int) -> None:
    core, session = Core(), session_id(HOSTILE)
    said = messages.Identity(
        rank=rank, local_rank=0, world_size=max(8, min(rank + 1, 2**64 - 1)), generation=generation
    )
    core.feed(session, hello(identity=said, session=session), codec.encode(points([{0: 1.0}], names={0: "x"}), 1))
    see_the_honest_rank(core)
    assert [entry["rank"] for entry in core.documents()["ranks"]] == [HONEST]
    assert sum(m["points"] for m in core.documents()["metrics"] if m["name"] == "x") == 0


def test_a_rank_of_a_far_generation_begins_it_and_no_more() -> None:
    """Who has the key may say that the job was started again; the controller believes it, and goes on."""
    core, session = Core(), session_id(HOSTILE)
    core.feed(session, hello(0, session=session, generation=2**31 - 1))
    assert core.documents()["run"]["generation"] == 2**31 - 1
