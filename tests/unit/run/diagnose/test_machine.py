"""Step times through the run state: from messages to events, documents and last words."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import numpy as np
import pytest

from tests.unit.run.diagnose.test_window import message
from tests.unit.run.play import Play
from trackside.cli import main
from trackside.run import outputs
from trackside.run.diagnose.verdicts import VerdictBook
from trackside.run.machine import RunMachine
from trackside.wire import messages


def job(play: Play, slow: float, steps: int = 60, ranks: int = 3) -> list[bytes]:
    """Ranks that do a step every two seconds; the last one is slower in each."""
    sessions = [play.hello(rank, ranks) for rank in range(ranks)]
    for step in range(steps):
        for rank, session in enumerate(sessions):
            play.tell(session, message([step], [1.0 + (slow if rank == ranks - 1 else 0.0) + 0.01 * (step % 3)]))
        play.wait(2.0)
    return sessions


def test_a_straggler_is_an_event_a_document_and_an_entry() -> None:
    play = Play()
    job(play, slow=0.6)
    (event,) = play.events("straggler")
    assert (event.path, event.severity, event.active) == ("root/a/rank2", "warn", True)
    diagnosis = play.run.diagnosis
    assert diagnosis is not None
    assert [(one.kind, one.rank, one.phase) for one in diagnosis.verdicts] == [("straggler", 2, "forward")]
    assert [entry.verdict for entry in play.ranks] == [None, None, "straggler"]
    assert [warning.kind for warning in play.run.warnings] == ["straggler"]
    heat = play.machine.heat("root")
    assert heat.ranks == [0, 1, 2]
    assert heat.own[2][0] == pytest.approx(1.6)
    assert play.machine.heat("root/a/rank2").ranks == [2]


def test_a_generation_begins_without_verdicts() -> None:
    play = Play()
    job(play, slow=0.6)
    for rank in range(3):
        play.hello(rank, 3, generation=1)
    play.wait(1.0)
    diagnosis = play.run.diagnosis
    assert diagnosis is not None
    assert [one.active for one in diagnosis.verdicts] == [False]
    assert not any(event.active for event in play.events("straggler"))


def test_verdicts_are_over_too_when_the_next_generation_steps_before_anybody_looked() -> None:
    play = Play()
    job(play, slow=0.6)
    sessions = [play.hello(rank, 3, generation=1) for rank in range(3)]
    for session in sessions:
        play.tell(session, message([60], [1.0]))
    play.wait(1.0)
    diagnosis = play.run.diagnosis
    assert diagnosis is not None
    assert [one.active for one in diagnosis.verdicts] == [False]
    assert not any(event.active for event in play.events("straggler"))


def test_where_nobody_waits_for_the_slow_rank_a_gain_is_a_part_of_its_own_step() -> None:
    play = Play()
    sessions = [play.hello(rank, 3) for rank in range(3)]
    for step in range(60):
        for session, usual in zip(sessions, (1.0, 1.0, 1.75), strict=True):
            own = usual + 0.01 * (step % 3)
            play.tell(session, message([step], [own], wall=np.array([own]).tobytes()))
        play.wait(2.0)
    diagnosis = play.run.diagnosis
    assert diagnosis is not None
    (verdict,) = diagnosis.verdicts
    assert "75% slower" in verdict.text or "74% slower" in verdict.text
    assert verdict.text.endswith("without it a step would be 43% shorter"), verdict.text
    assert diagnosis.gain_ratio == pytest.approx(0.75 / 1.75, abs=0.01)


@pytest.mark.parametrize(("step", "until"), [(-1, None), (59, 59), (None, None)])
def test_a_verdict_is_over_since_no_step_where_a_new_session_has_none_yet(step: int | None, until: int | None) -> None:
    play = Play()
    job(play, slow=0.6)
    assert play.run.diagnosis is not None
    (verdict,) = play.run.diagnosis.verdicts
    book = VerdictBook(open=[verdict])
    book.end(play.machine.state, verdict, step)
    assert [one.until_step for one in book.over] == [until]


def test_the_checkpoint_knows_it() -> None:
    play = Play()
    job(play, slow=0.6)
    again = RunMachine.restore(play.machine.snapshot())
    assert again.run_document(play.now) == play.run
    assert again.heat("root") == play.machine.heat("root")


def test_what_a_stranger_says_does_not_count() -> None:
    play = Play()
    owner = play.hello(0, 2)
    play.machine.state.sessions[owner].pid = 77
    other = play.hello(0, 2, key=b"other".ljust(16, b"."))
    play.tell(other, message([0], [1.0]))
    play.tell(owner, message([0], [1.0], wall=b"torn"))
    play.wait(1.0)
    assert play.machine.heat("root").ranks == []
    assert play.machine.diagnoser.malformed == 1


def ended(play: Play) -> list[str]:
    for rank in range(3):
        play.tell(f"s0-{rank}".encode().ljust(16, b"."), messages.Goodbye(time=1.0))
    play.wait(1.0)
    return [said.line for said in play.asked(outputs.PrintLine) if said.line.startswith(("  verdict", "       "))]


def test_the_last_words_of_a_run_with_a_straggler() -> None:
    play = Play()
    job(play, slow=0.6)
    lines = ended(play)
    assert 2 <= len(lines) <= 5
    told = "  verdict    of a step of 2.00 s, 38% own work, 13% waiting for data; "
    assert lines[0] == told + "the rest is waiting for who is behind"
    assert "straggler: rank 2 on a is behind in forward" in lines[1]
    assert lines[-1].strip() == "trackside diagnose /runs/r1"
    assert isinstance(play.said[-1], outputs.CompleteRun)


def test_a_healthy_run_has_one_line() -> None:
    play = Play()
    job(play, slow=0.0)
    (line,) = ended(play)
    assert line.startswith("  verdict    no rank behind, nothing unusual; ")
    assert line.count("2.00 s") == 1


def test_a_run_without_step_times_says_nothing() -> None:
    play = Play()
    for rank in range(3):
        play.hello(rank, 3)
    play.wait(1.0)
    assert play.run.diagnosis is None
    assert ended(play) == []


def test_memory_that_grows_is_a_verdict() -> None:
    play = Play()
    session = play.hello(0, 1)
    for at in range(80):
        play.beat(session, step=10 * at)
        host = messages.HostSample(memory_used=(8 << 30) + at * (50 << 20), memory_total=16 << 30)
        rank = messages.RankSample(memory=(1 << 30) + at * (50 << 20))
        play.tell(session, messages.ResourceSample(time=play.now.wall, interval_seconds=2.0, host=host, rank=rank))
        play.wait(2.0)
    (event,) = play.events("memory growth")
    assert (event.path, event.severity) == ("root/a/rank0", "warn")
    assert "it is full in" in event.text
    assert "1.5 GB a minute" in event.text


def written(folder: Any, document: dict[str, Any]) -> Any:
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps(document))
    return folder


def test_the_command_prints_it_again(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    play = Play()
    job(play, slow=0.6)
    folder = written(tmp_path / "run", msgspec.to_builtins(play.run))
    assert main(["diagnose", str(folder)]) == 0
    said = capsys.readouterr().out
    assert "straggler: rank 2 on a is behind in forward" in said
    assert "phases     forward" in said
    assert main(["diagnose", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdicts"][0]["rank"] == 2


def test_without_a_basis_the_command_says_why(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    folder = written(tmp_path / "run", msgspec.to_builtins(Play().run))
    assert main(["diagnose", str(folder)]) == 1
    assert "holds no step times" in capsys.readouterr().err
    assert main(["diagnose", str(tmp_path / "none")]) == 1
