"""Who is alive, who is late, who is lost, and how a run ends."""

import msgspec
import numpy as np
import pytest

from tests.unit.run.play import WALL, Play, batch
from trackside.run import inputs, outputs
from trackside.wire import messages


def exited(rank: int, generation: int = 0, **how: int | str) -> messages.WorkerExited:
    return messages.WorkerExited(rank=rank, generation=generation, time=1.0, **how)  # type: ignore[arg-type]


def test_b30_silence_makes_late_then_lost_with_one_event_that_names_all() -> None:
    play = Play()
    play.hello(0)
    five = play.hello(1, host="gpu-02")
    play.beat(five, step=1187, phase="backward")
    for _ in range(11):
        play.beat(b"s0-0".ljust(16, b"."))
        play.wait(1)
    assert (play.states(), play.events()) == (["alive", "late"], [])
    for _ in range(20):
        play.beat(b"s0-0".ljust(16, b"."))
        play.wait(1)
    assert play.states() == ["alive", "lost"]
    (lost,) = play.events("rank lost")
    assert lost.text == "gpu-02 rank1 lost: last step 1,187, phase backward, silent 30 s"
    assert (lost.path, lost.severity, lost.step, lost.active) == ("root/gpu-02/rank1", "critical", 1187, True)
    assert play.run.ranks.lost == 1
    assert len(play.events()) == 1


def test_b30_any_frame_is_a_sign_of_life_and_limits_can_be_set() -> None:
    play = Play(late_after_seconds=2, lost_after_seconds=4)
    session = play.hello(0, world=1)
    play.wait(1.5)
    play.tell(session, messages.UserEvent(time=1.0, title="x"))
    play.wait(1.5)
    assert play.states() == ["alive"]
    play.wait(1)
    assert play.states() == ["late"]


def test_b31_a_lost_rank_that_speaks_is_alive_again_and_an_event_says_so() -> None:
    play = Play()
    session = play.hello(0)
    play.hello(1)
    play.wait(31)
    assert play.states() == ["lost", "lost"]
    play.beat(session)
    assert play.states()[0] == "alive"
    (back,) = play.events("rank back")
    assert "speaks again after 31 s" in back.text
    assert [warning.path for warning in play.run.warnings] == ["root/a/rank1"]


def test_b31_a_restart_is_a_new_generation_without_ghosts() -> None:
    play = Play(launched=True)
    agent = play.agent()
    for rank in range(4):
        play.hello(rank, world=4)
    play.tell(agent, exited(2, signal="SIGKILL"))
    assert play.run.ranks.failed == 1
    for rank in range(2):
        play.hello(rank, world=2, generation=1)
    assert [(e.rank, e.generation, e.state) for e in play.ranks] == [(0, 1, "alive"), (1, 1, "alive")]
    assert (play.run.world_size, play.run.generation, play.run.state) == (2, 1, "running")
    assert len(play.events("restart")) == 1
    assert play.run.warnings == []


def test_a_late_word_of_the_old_generation_changes_nothing() -> None:
    play = Play(launched=True)
    agent = play.agent()
    play.hello(0, world=1)
    play.hello(0, world=1, generation=1)
    play.tell(agent, exited(0, generation=0, exit_code=1))
    assert play.states() == ["alive"]


@pytest.mark.parametrize(
    ("how", "state", "words"),
    [
        ({"exit_code": 0}, "finished", None),
        ({"exit_code": 3}, "failed", "rank 1 on a exited with code 3"),
        ({"signal": "SIGKILL"}, "failed", "rank 1 on a was killed by SIGKILL"),
    ],
)
def test_b30_an_exit_is_known_at_once_with_code_and_signal(
    how: dict[str, int | str], state: str, words: str | None
) -> None:
    play = Play(launched=True)
    agent = play.agent()
    play.hello(0)
    play.hello(1)
    play.tell(agent, exited(1, **how))
    entry = play.ranks[1]
    assert (entry.state, entry.exit_code, entry.signal) == (state, how.get("exit_code"), how.get("signal"))
    assert [event.text.split(",")[0] for event in play.events("rank failed")] == ([words] if words else [])


def test_b32_a_clean_end_raises_no_alarm_at_teardown_either() -> None:
    play = Play(launched=True)
    agent = play.agent()
    sessions = [play.hello(rank) for rank in range(2)]
    play.tell(sessions[0], messages.Goodbye(time=1.0))
    for _ in range(4):
        play.beat(agent)
        play.wait(10)
    assert play.states() == ["finished", "lost"]
    play.beat(sessions[1])
    play.tell(sessions[1], messages.Goodbye(time=1.0))
    play.tell(agent, messages.JobEnded(time=2.0, exit_code=0))
    play.tell(agent, messages.Goodbye(time=2.0))
    out = play.wait(0.2)
    assert any(isinstance(instruction, outputs.CompleteRun) for instruction in out)
    assert (play.run.state, play.run.state_detail) == ("finished", None)
    assert [e.kind for e in play.events() if e.severity != "info"] == ["rank lost"]


def test_the_job_fails_with_the_culprit_named_not_its_victims() -> None:
    play = Play(launched=True)
    agent = play.agent()
    for rank in range(3):
        play.hello(rank, world=3)
    play.tell(agent, exited(1, signal="SIGKILL"))
    play.tell(agent, exited(0, signal="SIGTERM"))
    play.tell(agent, exited(2, signal="SIGTERM"))
    play.tell(agent, messages.JobEnded(time=2.0, exit_code=137))
    play.tell(agent, messages.Goodbye(time=2.0))
    play.wait(0.2)
    assert (play.run.state, play.run.state_detail) == ("failed", "rank 1 on a was killed by SIGKILL")
    assert [event.path for event in play.events("rank failed")] == ["root/a/rank1"]


def test_a_launcher_ended_by_a_signal_is_terminated() -> None:
    play = Play(launched=True)
    agent = play.agent()
    play.hello(0, world=1)
    play.tell(agent, exited(0, signal="SIGTERM"))
    play.tell(agent, messages.JobEnded(time=2.0, signal="SIGTERM"))
    play.tell(agent, messages.Goodbye(time=2.0))
    play.wait(0.2)
    assert (play.run.state, play.run.state_detail) == ("terminated", "the launcher was ended by SIGTERM")


def test_a_dead_launcher_is_said_and_the_last_rank_ends_the_run() -> None:
    play = Play(launched=True)
    play.agent()
    sessions = [play.hello(rank) for rank in range(2)]
    play.do(inputs.LauncherGone())
    play.wait(5)
    assert play.run.state == "running"
    assert [event.severity for event in play.events("launcher gone")] == ["critical"]
    for session in sessions:
        play.tell(session, messages.Goodbye(time=1.0))
    play.wait(0.2)
    assert play.run.state == "finished"
    assert len(play.asked(outputs.CompleteRun)) == 1


def test_a_plain_rank_whose_process_vanishes_ends_the_run_as_failed() -> None:
    play = Play()
    session = play.hello(0, world=1)
    play.do(inputs.ProcessGone(session))
    play.wait(0.2)
    assert (play.run.state, play.run.state_detail) == ("failed", "rank 0 on a ended without a word")


def test_ranks_that_have_not_come_yet_are_waited_for_a_little() -> None:
    play = Play(linger_seconds=3)
    session = play.hello(0, world=2)
    play.tell(session, messages.Goodbye(time=1.0))
    play.wait(1)
    assert not play.asked(outputs.CompleteRun)
    play.wait(3)
    assert len(play.asked(outputs.CompleteRun)) == 1


def test_b28_completion_is_asked_for_once() -> None:
    play = Play()
    session = play.hello(0, world=1)
    play.tell(session, messages.Goodbye(time=1.0))
    for _ in range(5):
        play.wait(1)
    assert len(play.asked(outputs.CompleteRun)) == 1
    elapsed = play.run.elapsed_seconds
    play.at += 100
    assert play.run.elapsed_seconds == elapsed


def test_a_script_without_a_monitor_is_kept_alive_by_the_agent() -> None:
    play = Play(launched=True)
    agent = play.agent()
    identity = messages.Identity(rank=0, local_rank=0, world_size=1)
    play.tell(agent, messages.WorkerStarted(identity=identity, pid=77, time=1.0))
    for _ in range(40):
        play.tell(agent, messages.WorkerAlive(ranks=[0], generation=0))
        play.wait(1)
    (entry,) = play.ranks
    assert (entry.state, entry.pid, entry.monitored, entry.step) == ("alive", 77, False, None)


def test_b33_a_clock_that_is_off_is_shown_and_clears() -> None:
    play = Play()
    session = play.hello(0, world=1)
    play.beat(session, clock_offset=-11.56)
    (event,) = play.events("clock offset")
    assert "11.6 s off" in event.text
    assert play.run.clock_offset_max == 11.56
    play.beat(session, clock_offset=0.0016)
    assert play.run.warnings == []


def test_b33_a_clock_that_is_five_seconds_off_is_not_spoken_of_and_just_more_is() -> None:
    play = Play()
    session = play.hello(0, world=1)
    play.beat(session, clock_offset=5.0)
    assert (play.events("clock offset"), play.ranks[0].clock_offset_seconds) == ([], 5.0)
    play.beat(session, clock_offset=5.1)
    assert [warning.kind for warning in play.run.warnings] == ["clock offset"]
    play.beat(session, clock_offset=4.9)
    assert [warning.kind for warning in play.run.warnings] == ["clock offset"], "it does not flicker at the limit"


def test_b33_no_duration_follows_the_wall_clock() -> None:
    play = Play()
    session = play.hello(0, world=1)
    play.wait(4)
    play.beat(session)
    for jump in (-7200.0, 86_400.0):
        play.skew += jump
        play.wait(3)
    assert play.run.elapsed_seconds == 10
    assert (play.states(), play.ranks[0].age_seconds, play.events()) == (["alive"], 6, [])
    play.wait(4)
    assert play.states() == ["late"]


def test_b33_of_one_rank_the_last_by_sequence_is_the_last_whatever_its_clock_said() -> None:
    play = Play()
    play.hello(0, world=1)
    play.metric(0, "loss")
    for step, time, value in ((1, WALL + 500, 1.0), (2, WALL - 500, 2.0)):
        one = batch([(0, 0, step, value)])
        play.do(inputs.PointsArrived(msgspec.structs.replace(one, time=np.array([time]))))
    assert play.machine.last_values() == [("loss", 0, "a", 2.0)]
    assert play.machine.metric_entries()[0].last == 2.0


def test_b32_a_rank_that_ended_cleanly_is_never_late_or_lost() -> None:
    play = Play()
    zero, one = play.hello(0), play.hello(1)
    play.tell(zero, messages.Goodbye(time=1.0))
    for _ in range(50):
        play.beat(one)
        play.wait(1)
    play.do(inputs.ProcessGone(zero))
    assert (play.states(), play.events()) == (["finished", "alive"], [])


def test_b32_while_the_job_ends_nobody_is_called_lost() -> None:
    play = Play(launched=True)
    agent = play.agent()
    play.hello(0)
    play.hello(1)
    play.tell(agent, messages.JobEnded(time=1.0, exit_code=0))
    play.wait(60)
    assert play.events() == []


def test_after_a_restart_of_the_controller_silence_begins_anew() -> None:
    play = Play()
    play.hello(0, world=1)
    play.at += 300
    play.do(inputs.Replayed(downtime_seconds=300.0))
    play.wait(1)
    assert play.states() == ["alive"]


def test_a_run_that_no_controller_ever_had_is_not_said_to_be_one_whose_controller_came_back() -> None:
    play = Play()
    play.do(inputs.Replayed(downtime_seconds=None))
    assert [event.text for event in play.events()] == [
        "no controller had heard anything of this run yet; this one takes in what is left of it"
    ]


def test_the_last_step_stays_known_when_every_rank_has_failed() -> None:
    play = Play(launched=True)
    agent = play.agent()
    for rank in range(2):
        play.beat(play.hello(rank), step=40 + rank)
    play.tell(agent, exited(1, signal="SIGKILL"))
    assert play.run.step == 40
    play.tell(agent, exited(0, signal="SIGTERM"))
    assert play.run.step == 41


def test_a_run_began_with_its_first_session_even_if_that_had_to_start_the_controller() -> None:
    play = Play()
    play.hello(0, world=2, uptime=2.5)
    play.hello(1, world=2, uptime=9.0)
    assert (play.run.elapsed_seconds, play.run.started_at) == (2.5, WALL - 2.5)


def test_an_asked_for_end_is_no_critical_event() -> None:
    play = Play(launched=True)
    agent = play.agent()
    play.hello(0, world=1)
    play.tell(agent, exited(0, signal="SIGTERM"))
    assert play.events("rank failed") == []  # the launcher may say in a moment that it was all of them
    play.wait(1)
    assert [event.severity for event in play.events("rank failed")] == ["warn"]


@pytest.mark.parametrize(
    ("happened", "state", "detail"),
    [
        (inputs.LauncherGone(), "failed", "the process that began it ended before any rank was connected"),
        (inputs.StopAsked("SIGTERM"), "terminated", "the controller was stopped by SIGTERM"),
    ],
)
def test_d38_a_run_that_nobody_joined_is_not_finished(happened: inputs.Input, state: str, detail: str) -> None:
    play = Play()
    play.do(happened)
    play.wait(1)
    assert (play.run.state, play.run.state_detail) == (state, detail)


@pytest.mark.parametrize(
    ("how", "state", "detail"),
    [
        ({"signal": "SIGTERM"}, "terminated", "rank 0 on a was killed by SIGTERM"),
        ({"signal": "SIGHUP"}, "terminated", "rank 0 on a was killed by SIGHUP"),
        ({"signal": "SIGKILL"}, "failed", "rank 0 on a was killed by SIGKILL"),
        ({"exit_code": 3}, "failed", "rank 0 on a exited with code 3"),
        ({"exit_code": 0}, "finished", None),
        ({}, "failed", "rank 0 on a ended without a word"),
    ],
)
def test_d40_without_a_launcher_the_kernel_says_how_it_ended(
    how: dict[str, int | str], state: str, detail: str | None
) -> None:
    play = Play()
    session = play.hello(0, world=1)
    play.do(inputs.ProcessGone(session, **how))  # type: ignore[arg-type]
    play.wait(0.2)
    assert (play.run.state, play.run.state_detail) == (state, detail)
    assert (play.ranks[0].exit_code, play.ranks[0].signal) == (how.get("exit_code"), how.get("signal"))


def test_d40_a_failure_that_ended_the_others_is_a_failure() -> None:
    play = Play()
    first, second = play.hello(0), play.hello(1)
    play.do(inputs.ProcessGone(second, signal="SIGTERM"))
    play.do(inputs.ProcessGone(first, exit_code=1))
    play.wait(0.2)
    assert (play.run.state, play.run.state_detail) == ("failed", "rank 0 on a exited with code 1")


def test_d40_ctrl_c_is_said_by_the_script_itself() -> None:
    play = Play()
    play.tell(play.hello(0, world=1), messages.Goodbye(time=1.0, clean=False, signal="SIGINT"))
    play.wait(0.2)
    assert (play.run.state, play.run.state_detail) == ("terminated", "stopped with Ctrl-C (SIGINT)")


def test_b11_a_controller_that_is_asked_to_end_waits_a_moment_for_ranks_that_end_too() -> None:
    play = Play()
    sessions = [play.hello(rank) for rank in range(2)]
    play.do(inputs.StopAsked("SIGTERM"))
    play.wait(0.2)
    assert play.run.state == "running"
    for session in sessions:
        play.do(inputs.ProcessGone(session, signal="SIGTERM"))
    play.wait(0.2)
    assert (play.run.state, play.run.state_detail) == ("terminated", "rank 0 on a was killed by SIGTERM")


@pytest.mark.parametrize(("asked", "seconds"), [(1, 1.0), (2, 0.0)])
def test_a_controller_that_is_asked_to_end_does_not_wait_long_and_asked_twice_not_at_all(
    asked: int, seconds: float
) -> None:
    play = Play()
    play.hello(0)
    for _ in range(asked):
        play.do(inputs.StopAsked("SIGTERM"))
    play.wait(seconds)
    assert (play.run.state, play.run.state_detail) == ("terminated", "the controller was stopped by SIGTERM")


@pytest.mark.parametrize(
    ("how", "state"),
    [({"exit_code": 0}, "finished"), ({"exit_code": 3}, "failed"), ({"signal": "SIGKILL"}, "failed"), ({}, "finished")],
)
def test_d38_a_goodbye_is_not_the_last_word_of_a_script_that_is_leaving(how: dict[str, int | str], state: str) -> None:
    play = Play()
    session = play.hello(0, world=1)
    play.tell(session, messages.Goodbye(time=1.0, leaving=True))
    play.wait(1)
    assert play.run.state == "running"
    play.do(inputs.ProcessGone(session, **how))  # type: ignore[arg-type]
    play.wait(0.2)
    assert (play.run.state, play.ranks[0].exit_code) == (state, how.get("exit_code"))


def test_d38_an_exit_code_that_nobody_sees_is_not_waited_for_long() -> None:
    play = Play()
    play.tell(play.hello(0, world=1), messages.Goodbye(time=1.0, leaving=True))
    play.wait(3)
    assert play.run.state == "finished"
