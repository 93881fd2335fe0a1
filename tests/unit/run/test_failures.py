"""Which rank failed first is told first, whatever order the words come in."""

import pytest

from tests.unit.run.play import Play
from trackside.run import outputs
from trackside.wire import messages


def exited(rank: int, **how: int | str | bool) -> messages.WorkerExited:
    return messages.WorkerExited(rank=rank, generation=0, time=1.0, **how)  # type: ignore[arg-type]


RAISED = messages.Goodbye(time=1.0, clean=False, leaving=True)


class Job:
    """Four ranks under a launcher."""

    def __init__(self) -> None:
        self.play = Play(launched=True)
        self.agent = self.play.agent()
        self.sessions = [self.play.hello(rank, world=4) for rank in range(4)]

    def raised(self, rank: int) -> None:
        self.play.tell(self.sessions[rank], RAISED)
        self.play.at += 0.01

    def exited(self, rank: int, **how: int | str | bool) -> None:
        self.play.tell(self.agent, exited(rank, **how))
        self.play.at += 0.01

    def ended(self, **how: int | str) -> None:
        self.play.tell(self.agent, messages.JobEnded(time=2.0, **how))  # type: ignore[arg-type]
        self.play.tell(self.agent, messages.Goodbye(time=2.0))
        self.play.wait(0.2)

    def lines(self) -> list[str]:
        said = [line.line for line in self.play.asked(outputs.PrintLine)]
        return [line.partition("rank failed: ")[2].partition(",")[0] for line in said if "rank failed" in line]


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"signal": "SIGKILL"}, "rank 1 on a was killed by SIGKILL"),
        ({"signal": "SIGSEGV"}, "rank 1 on a was killed by SIGSEGV"),
        ({"exit_code": 7}, "rank 1 on a exited with code 7"),
    ],
)
@pytest.mark.parametrize("their_end", [{"signal": "SIGTERM"}, {"exit_code": 1}])
def test_the_cause_is_told_before_victims_that_spoke_first(
    how: dict[str, int | str], words: str, their_end: dict[str, int | str]
) -> None:
    job = Job()
    job.raised(2)
    job.raised(0)
    assert job.lines() == []
    job.exited(1, **how)
    assert job.lines() == [words]
    for rank in (0, 2, 3):
        job.exited(rank, **their_end)
    job.play.wait(1)
    job.ended(exit_code=1)
    assert (job.play.run.state_detail or "").startswith(words)
    assert job.lines()[0] == words
    assert len(job.lines()) == (1 if "signal" in their_end else 4)


def test_of_exceptions_the_first_is_told_first_also_when_it_takes_longest_to_end() -> None:
    job = Job()
    for rank in (1, 0, 3):
        job.raised(rank)
    job.exited(0, exit_code=1)
    job.exited(1, signal="SIGTERM")
    job.play.wait(1)
    assert job.lines()[:2] == ["rank 1 on a ended with an exception", "rank 0 on a exited with code 1"]
    job.ended(exit_code=1)
    assert (job.play.run.state_detail or "").startswith("rank 1 on a ended with an exception")


def test_an_exception_that_nobody_caused_is_told_within_a_second() -> None:
    job = Job()
    job.raised(2)
    job.play.wait(0.9)
    assert job.lines() == []
    job.play.wait(0.2)
    assert job.lines() == ["rank 2 on a ended with an exception"]


def test_an_exception_of_the_only_rank_is_told_at_once() -> None:
    play = Play()
    play.tell(play.hello(0, world=1), RAISED)
    assert len(play.events("rank failed")) == 1


def test_a_rank_that_a_stranger_ended_is_the_cause_though_it_was_asked() -> None:
    job = Job()
    job.raised(0)
    job.exited(1, signal="SIGTERM")
    for rank in (0, 2, 3):
        job.exited(rank, signal="SIGTERM")
    job.play.wait(1)
    assert job.lines()[0] == "rank 1 on a was killed by SIGTERM"
    job.ended(exit_code=143)
    assert (job.play.run.state_detail or "").startswith("rank 1 on a was killed by SIGTERM")


def test_a_late_failure_is_no_cause_of_one_long_before() -> None:
    job = Job()
    job.exited(2, exit_code=1)
    job.play.wait(20)
    job.exited(0, signal="SIGKILL")
    job.ended(exit_code=1)
    assert job.lines()[0] == "rank 2 on a exited with code 1"
    assert (job.play.run.state_detail or "").startswith("rank 2 on a exited with code 1")


def test_what_waits_is_told_before_the_ranks_are_started_again() -> None:
    job = Job()
    job.exited(1, exit_code=1)
    job.play.hello(0, world=4, generation=1)
    kinds = [event.kind for event in job.play.events()]
    assert kinds == ["rank failed", "restart"]


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM", "SIGHUP"])
@pytest.mark.parametrize("is_told_first", [True, False])
def test_a_job_that_is_stopped_has_no_failed_rank(number: str, is_told_first: bool) -> None:
    job = Job()
    stop = messages.JobEnded(time=1.0, signal=number)
    if is_told_first:
        job.play.tell(job.agent, stop)
    for session in job.sessions:
        job.play.tell(session, messages.Goodbye(time=1.0, clean=False, signal="SIGINT" if number == "SIGINT" else None))
    if not is_told_first:
        job.play.tell(job.agent, stop)
    job.exited(0, signal=number)
    job.exited(1, exit_code=1)
    job.ended(signal=number)
    assert (job.play.run.state, job.lines(), job.play.events("rank failed")) == ("terminated", [], [])
    assert job.play.run.warnings == []


def test_ctrl_c_is_said_as_what_it_is() -> None:
    job = Job()
    job.ended(signal="SIGINT")
    assert (job.play.run.state, job.play.run.state_detail) == ("terminated", "stopped with Ctrl-C (SIGINT)")


def test_ctrl_c_in_a_script_without_a_launcher_is_no_failure() -> None:
    play = Play()
    session = play.hello(0, world=1)
    play.tell(session, messages.Goodbye(time=1.0, clean=False, signal="SIGINT"))
    play.wait(0.2)
    assert (play.run.state, play.run.state_detail) == ("terminated", "stopped with Ctrl-C (SIGINT)")
    assert play.events("rank failed") == []


def test_one_rank_that_is_interrupted_alone_is_named() -> None:
    job = Job()
    job.exited(2, signal="SIGINT")
    assert job.lines() == ["rank 2 on a was killed by SIGINT"]
