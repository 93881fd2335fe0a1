"""A run whose job was started again as a whole."""

from tests.unit.run.play import WALL, Play
from trackside.run import inputs
from trackside.run.state import Settings
from trackside.wire import messages


def start_again(play: Play, generation: int, by: str | None = None) -> None:
    heard = play.now.wall
    play.at += 600
    play.do(
        inputs.JobStartedAgain(
            session=play.machine.state.session + 1, generation=generation, settings=Settings(), heard_wall=heard, by=by
        )
    )


def test_d41_d42_the_run_goes_on_without_the_processes_of_the_last_session() -> None:
    play = Play()
    play.metric(0, "loss")
    for rank in (0, 1):
        session = play.hello(rank)
        play.points([(0, rank, 99, 0.5)])
        play.beat(session, step=99)
    play.wait(40)
    assert play.states() == ["lost", "lost"]
    start_again(play, 1, by="Slurm job 7, restart 1")
    run = play.run
    assert (run.id, run.started_at, run.state, run.generation, run.ranks.lost) == ("r1", WALL, "waiting", 1, 0)
    assert run.warnings == [], "what was open was about processes that are gone"
    assert run.environment["batch_job"] == "Slurm job 7, restart 1"
    (event,) = play.events("restart")
    assert event.text == (
        "session 2 of this run begins (Slurm job 7, restart 1), 10 min later; the one before broke off without an end"
    )
    assert event.step == 99
    play.hello(0, generation=1)
    play.points([(0, 0, 90, 0.4)], generation=1)
    assert (play.run.state, play.states(), play.run.step) == ("running", ["alive"], 90)
    (event,) = play.events("restart")
    assert event.step == 90
    assert event.text.endswith("broke off without an end; it goes on at step 90, and steps 90 to 99 are trained again")
    play.wait(5)
    assert play.run.ended_at is None


def test_d41_the_former_end_is_an_event_and_the_last_sessions_end_the_runs() -> None:
    play = Play(launched=True)
    agent = play.agent()
    play.hello(0, world=1)
    play.tell(agent, messages.JobEnded(time=0.0, signal="SIGTERM"))
    play.tell(agent, messages.Goodbye(time=0.0))
    play.wait(1)
    assert play.run.state == "terminated"
    start_again(play, 1)
    session = play.hello(0, world=1, generation=1)
    play.tell(session, messages.Goodbye(time=0.0))
    play.wait(5)
    assert (play.run.state, play.run.state_detail) == ("finished", None)
    assert [event.text for event in play.events("finish")] == [
        "terminated: the launcher was ended by SIGTERM",
        "finished",
    ]
    assert "the one before was terminated: the launcher was ended by SIGTERM" in play.events("restart")[0].text


def test_d49_the_time_left_is_taken_from_this_session_alone() -> None:
    play = Play()
    session = play.hello(0, world=1)
    play.tell(session, messages.SetPlan(steps=1001))
    for step in (0, 100):
        play.beat(session, step=step)
        play.wait(1)
    assert play.run.eta_seconds is not None
    start_again(play, 1)
    session = play.hello(0, world=1, generation=1)
    play.beat(session, step=500)
    play.wait(1)
    assert play.run.eta_seconds is None, "600 s passed and 400 steps, none of them trained"
    play.wait(9)
    play.beat(session, step=510)
    play.wait(0.1)
    eta = play.run.eta_seconds
    assert eta is not None
    assert 440 < eta < 500, "490 steps of about a second"


def test_an_epoch_that_was_cut_off_is_settled_and_may_be_trained_again() -> None:
    play = Play()
    for rank in (0, 1):
        play.hello(rank)
    play.tell(b"s0-0".ljust(16, b"."), messages.EpochReport(epoch=3, metrics={}, seconds=10.0))
    start_again(play, 1)
    (record,) = play.machine.epoch_records()
    assert (record.epoch, record.complete) == (3, False)
    for rank in (0, 1):
        session = play.hello(rank, generation=1)
        play.tell(session, messages.EpochReport(epoch=3, metrics={}, seconds=8.0))
    play.wait(1)
    (record,) = play.machine.epoch_records()
    assert (record.complete, record.seconds) == (True, 8.0)


def test_the_page_is_wished_for_again() -> None:
    from trackside.run.outputs import RegisterPort

    play = Play(wants_page=True, port=7000)
    play.hello(0)
    play.do(inputs.PageBound(host="h", port=7000, url_line="http://h:7000"))
    play.said.clear()
    play.at += 10
    settings = Settings(wants_page=True, port=7001)
    play.do(inputs.JobStartedAgain(session=1, generation=1, settings=settings, heard_wall=0.0))
    assert play.asked(RegisterPort) == [RegisterPort(7001)]
    assert play.machine.state.url_line is None


def test_the_pause_between_two_sessions_is_no_time_the_run_took() -> None:
    play = Play()
    play.hello(0, world=1)
    play.wait(40)
    start_again(play, 1)
    play.hello(0, world=1, generation=1)
    play.wait(5)
    assert play.run.elapsed_seconds == 45
    assert play.run.environment["paused_seconds"] == 600


def test_what_is_trained_again_does_not_stand_though_a_metric_has_not_come_yet() -> None:
    play = Play()
    play.metric(0, "loss")
    play.metric(1, "val")
    play.metric(2, "late")
    play.hello(0, world=1)
    for step in range(100):
        play.points([(0, 0, step, 1.0)] + ([(1, 0, step, float(step))] if step % 10 == 0 else []))
    play.points([(2, 0, 95, 1.0)])
    start_again(play, 1)
    play.hello(0, world=1, generation=1)
    spans = {entry.name: (entry.first_step, entry.last_step) for entry in play.machine.metric_entries()}
    assert spans["loss"] == (0, 99), "nobody knows yet where it goes on"
    play.points([(0, 0, 63, 0.5)], generation=1)
    play.points([(0, 0, 60, 0.5)], generation=1)
    (resumed,) = play.run.environment["resumed"]
    assert (resumed["generation"], resumed["step"], resumed["reached"]) == (1, 60, 99)
    entries = {entry.name: entry for entry in play.machine.metric_entries()}
    assert (entries["loss"].first_step, entries["loss"].last_step) == (0, 63)
    assert (entries["val"].last_step, entries["val"].last) == (59, 50.0)
    assert (entries["late"].first_step, entries["late"].last_step) == (None, None)
    play.points([(1, 0, 90, 7.0)])  # of the session before, on its way for long
    assert {entry.name: entry.last for entry in play.machine.metric_entries()}["val"] == 50.0
