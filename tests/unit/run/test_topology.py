"""Generations, doubled processes, impossible identities, several launchers."""

import pytest

from tests.unit.run.play import Play
from trackside.run import inputs, outputs
from trackside.wire import messages


def started(rank: int, world: int, generation: int) -> messages.WorkerStarted:
    identity = messages.Identity(rank=rank, local_rank=rank, world_size=world, generation=generation)
    return messages.WorkerStarted(identity=identity, pid=70 + rank, time=1.0)


def test_b31_each_generation_keeps_its_own_paths_for_the_store() -> None:
    play = Play(launched=True)
    play.hello(0, world=1, host="a")
    play.hello(0, world=1, host="b", generation=1)
    play.hello(0, world=1, host="a", key=b"s-straggler.....")
    assert [(d.rank, d.generation, d.path) for d in play.asked(outputs.DefineRank)] == [
        (0, 0, "root/a/rank0"),
        (0, 1, "root/b/rank0"),
        (0, 0, "root/a/rank0"),
    ]
    assert [(entry.generation, entry.host) for entry in play.ranks] == [(1, "b")]


def test_b31_a_failed_generation_does_not_end_the_run_while_the_agent_lives() -> None:
    play = Play(launched=True)
    agent = play.agent()
    play.tell(agent, started(0, 1, 0))
    play.tell(agent, messages.WorkerExited(rank=0, generation=0, time=1.0, exit_code=1))
    for _ in range(100):
        play.beat(agent)
        play.wait(10)
    assert play.run.state == "running"
    play.tell(agent, started(0, 1, 1))
    assert (play.run.ranks.alive, play.run.generation, play.ranks[0].restarts) == (1, 1, 1)


def test_b31_ranks_started_again_without_a_new_count_are_fresh_ranks() -> None:
    play = Play(launched=True)
    agent = play.agent()
    for rank in range(2):
        play.tell(agent, started(rank, 2, 0))
        play.hello(rank)
        play.tell(agent, messages.WorkerExited(rank=rank, generation=0, time=1.0, signal="SIGTERM"))
    assert play.states() == ["failed", "failed"]
    for rank in range(3):
        play.tell(agent, started(rank, 3, 0))
        play.beat(play.hello(rank, world=3, key=b"s-new-%d........." % rank), step=7)
    assert play.states() == ["alive"] * 3
    assert [(entry.signal, entry.step, entry.restarts) for entry in play.ranks] == [(None, 7, 1)] * 3
    assert [event.count for event in play.events("restart")] == [1]
    assert play.run.warnings == []


def test_b31_ranks_that_are_ended_for_a_restart_have_not_failed() -> None:
    play = Play(launched=True)
    agent = play.agent()
    for rank in range(2):
        play.hello(rank)
        ended = messages.WorkerExited(rank=rank, generation=0, time=1.0, signal="SIGTERM", for_restart=True)
        play.tell(agent, ended)
    assert play.events() == []
    for rank in range(3):
        play.hello(rank, world=3, generation=1)
    assert (play.states(), [event.kind for event in play.events()]) == (["alive"] * 3, ["restart"])


def test_b31_a_smaller_world_in_the_same_generation_leaves_no_ghosts() -> None:
    play = Play()
    for rank in range(4):
        play.hello(rank, world=4)
    play.hello(0, world=2, key=b"s-again.........")
    assert [entry.rank for entry in play.ranks] == [0, 1]


def test_b31_values_of_the_new_generation_replace_what_it_trains_again() -> None:
    play = Play(launched=True)
    play.hello(0, world=2)
    play.metric(0, "loss")
    play.points([(0, rank, step, 1.0) for rank in (0, 1) for step in range(10)])
    play.hello(0, world=1, generation=1)
    play.points([(0, 0, 6, 5.0)], generation=1)
    rows = play.machine.root.recent()[0]
    assert rows["step"].tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert (rows["finite"][-1], rows["sum"][-1]) == (1, 5.0)
    play.points([(0, 1, 8, 9.0), (0, 1, 3, 9.0)], generation=0)
    rows = play.machine.root.recent()[0]
    assert (rows["step"].tolist(), rows["finite"][3]) == ([0, 1, 2, 3, 4, 5, 6], 3)


def test_b31_an_epoch_trained_again_stands_until_all_have_reported_it_anew() -> None:
    play = Play(launched=True)
    for rank in range(2):
        play.tell(play.hello(rank), messages.EpochReport(epoch=3, metrics={"loss": 1.0}, batches=1))
    again = [play.hello(rank, generation=1) for rank in range(2)]
    play.tell(again[0], messages.EpochReport(epoch=3, metrics={"loss": 3.0}, batches=1))
    assert play.machine.epoch_records()[0].metrics == {"loss": 1.0}
    play.tell(again[1], messages.EpochReport(epoch=3, metrics={"loss": 5.0}, batches=1))
    (record,) = play.machine.epoch_records()
    assert (record.metrics, record.ranks, record.complete) == ({"loss": 4.0}, 2, True)


@pytest.mark.parametrize(("rank", "world"), [(-1, 2), (2, 2), (9, 2), (70_000, 80_000)])
def test_b02_an_impossible_identity_is_refused_by_name(rank: int, world: int) -> None:
    play = Play()
    session = play.hello(rank, world=world)
    refusals = [reply for reply in play.asked(outputs.Reply) if isinstance(reply.message, messages.Refused)]
    assert [reply.session for reply in refusals] == [session]
    assert f"rank {rank} of {world}" in refusals[0].message.reason
    assert play.ranks == []
    play.metric(0, "loss")
    play.points([(0, rank, 1, 1.0)])
    play.beat(session, step=1)


def test_a_second_process_with_the_same_rank_does_not_speak_for_it_while_the_first_is_heard() -> None:
    play = Play()
    first = play.hello(0, world=1)
    play.machine.state.sessions[first].pid = 1
    second = play.hello(0, world=1, key=b"s-eval..........")
    play.beat(first, step=100)
    play.beat(second, step=3)
    assert play.ranks[0].step == 100
    play.tell(second, messages.Goodbye(time=1.0))
    play.wait(0.5)
    assert (play.states(), play.run.state) == (["alive"], "running")


def test_a_process_that_follows_a_silent_one_takes_its_place() -> None:
    play = Play()
    first = play.hello(0, world=1)
    play.machine.state.sessions[first].pid = 1
    play.wait(11)
    second = play.hello(0, world=1, key=b"s-again.........")
    play.beat(second, step=3)
    assert (play.states(), play.ranks[0].step) == (["alive"], 3)


def test_frames_in_flight_do_not_revive_a_dead_rank() -> None:
    play = Play(launched=True)
    agent, session = play.agent(), play.hello(0, world=1)
    play.tell(agent, messages.WorkerExited(rank=0, generation=0, time=1.0, signal="SIGKILL"))
    play.beat(session, step=9)
    play.tell(session, messages.Goodbye(time=1.0))
    assert (play.states(), play.ranks[0].signal) == (["failed"], "SIGKILL")


def test_an_agent_that_falls_silent_is_said_and_another_samples_its_host() -> None:
    play = Play(launched=True)
    agent, rank = play.agent(), play.hello(0, world=1)
    for _ in range(31):
        play.beat(rank)
        play.wait(1)
    assert [event.active for event in play.events("launcher silent")] == [True]
    appointed = [r.session for r in play.asked(outputs.Reply) if r.message == messages.Appoint(sample_host=True)]
    assert appointed == [agent, rank]
    play.beat(agent)
    assert play.run.warnings == []


def test_the_run_waits_for_every_hosts_launcher_and_the_worst_word_counts() -> None:
    play = Play(launched=True)
    agents = [play.agent("a"), play.agent("b")]
    play.hello(0, world=2, host="a")
    play.hello(1, world=2, host="b")
    play.tell(agents[0], messages.JobEnded(time=1.0, exit_code=0))
    play.tell(agents[0], messages.Goodbye(time=1.0))
    play.wait(1)
    assert play.run.state == "running"
    play.tell(agents[1], messages.JobEnded(time=1.0, exit_code=3))
    play.tell(agents[1], messages.Goodbye(time=1.0))
    play.wait(1)
    assert (play.run.state, play.run.state_detail) == ("failed", "the launcher exited with code 3")


def test_the_first_to_fail_is_the_culprit() -> None:
    play = Play(launched=True)
    agent = play.agent()
    for rank in range(3):
        play.hello(rank, world=3)
    play.tell(agent, messages.WorkerExited(rank=2, generation=0, time=1.0, signal="SIGKILL"))
    play.at += 1
    play.tell(agent, messages.WorkerExited(rank=0, generation=0, time=1.0, signal="SIGABRT"))
    play.tell(agent, messages.JobEnded(time=2.0, exit_code=1))
    play.tell(agent, messages.Goodbye(time=2.0))
    play.wait(1)
    assert play.run.state_detail == "rank 2 on a was killed by SIGKILL; 1 more failed"


def test_a_plain_rank_that_was_cut_off_is_given_up_late_and_honestly() -> None:
    play = Play(abandon_after_seconds=100)
    play.hello(0, world=1)
    play.wait(40)
    assert (play.states(), play.run.state) == (["lost"], "running")
    play.wait(61)
    assert (play.run.state, play.run.state_detail) == ("failed", "rank 0 never spoke again")


def test_without_launcher_a_script_without_a_monitor_is_not_waited_for() -> None:
    play = Play(launched=True)
    play.tell(play.agent(), started(0, 1, 0))
    play.do(inputs.LauncherGone())
    play.wait(31)
    assert play.run.state == "failed"
    assert play.run.state_detail == "the launcher died, and without it nobody can say how the ranks ended"


def test_an_exception_is_told_apart_from_silence_and_its_code_joins_the_same_event() -> None:
    play = Play(launched=True)
    agent, session = play.agent(), play.hello(0, world=1)
    play.tell(session, messages.Goodbye(time=1.0, clean=False))
    (event,) = play.events("rank failed")
    assert event.text == "rank 0 on a ended with an exception, no step"
    play.tell(agent, messages.WorkerExited(rank=0, generation=0, time=1.0, exit_code=1))
    (event,) = play.events("rank failed")
    assert (event.text, event.count) == ("rank 0 on a exited with code 1, no step", 1)


def test_b34_ranks_that_count_no_epochs_owe_none() -> None:
    play = Play()
    zero, one = play.hello(0), play.hello(1)
    for _ in range(3):
        play.beat(one, step=5)
    play.tell(zero, messages.EpochReport(epoch=0, metrics={}))
    assert play.machine.epoch_records() == []
    play.tell(zero, messages.EpochReport(epoch=1, metrics={}))
    assert [record.epoch for record in play.machine.epoch_records()] == [0]


def test_b25_labels_and_paths_are_in_every_entry() -> None:
    play = Play()
    play.hello(3, world=4, host="gpu-02", local=1)
    assert [(entry.label, entry.path) for entry in play.ranks] == [("gpu-02:lr=1 gr=3", "root/gpu-02/rank3")]


def test_d02_a_process_that_learns_its_rank_late_leaves_no_ghost() -> None:
    play = Play()
    session = play.hello(0, world=1)
    play.beat(session, step=3)
    play.hello(2, world=4, key=session)
    assert [(entry.rank, entry.state) for entry in play.ranks] == [(2, "alive")]
    assert play.run.world_size == 4
    play.hello(0, world=4, key=b"another".ljust(16, b"."))
    assert [entry.rank for entry in play.ranks] == [0, 2]


@pytest.mark.parametrize(
    "path",
    ["root", "root/a", "root/b", "root/a/rank1", "root/b/rank2", "root/a/rank2", "root/c", "root/rank3", "x", ""],
)
def test_the_ranks_of_a_path_are_those_whose_own_path_lies_below_it(path: str) -> None:
    play = Play()
    for rank, host in enumerate(("a", "a", "b", "a/rank0")):
        play.hello(rank, world=4, host=host)
    below = [e for e in play.ranks if path == "root" or e.path == path or e.path.startswith(f"{path}/")]
    assert play.machine.rank_entries(play.now, path) == below
    expected = frozenset(entry.rank for entry in below)
    assert play.machine.ranks_below(path) == (expected if expected or path == "root" else None)


def test_latest_values_are_listed_up_to_a_number_and_whole_metrics_at_a_time() -> None:
    play = Play()
    for rank in range(4):
        play.hello(rank, world=4)
    for metric in range(3):
        play.metric(metric, f"m{metric}")
        play.points([(metric, rank, 0, 1.0) for rank in range(4)])
    assert len(play.machine.last_values()) == 12
    assert {name for name, *_ in play.machine.last_values(most=11)} == {"m0", "m1"}
