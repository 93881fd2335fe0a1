"""Which generation a process belongs to: a table of what launchers say, and of what is true."""

import msgspec
import pytest

from trackside.ingest.generations import Generations
from trackside.wire import messages
from trackside.wire.ids import new_session


class Host:
    """A machine with torchrun's agent: starts ranks, and counts as torch does."""

    def __init__(self, name: str, ranks: list[int]) -> None:
        self.name, self.ranks, self.count = name, ranks, 0
        self._agent, self._pid, self._clock = 100, 1000, 50.0

    def start(
        self, place: str = "h:29500", world: int = 4, *, failed: bool = False, ranks: list[int] | None = None
    ) -> dict[int, messages.Hello]:
        """All its ranks anew; the count grows only where a rank of this host has failed."""
        self.count += failed
        self.ranks = self.ranks if ranks is None else ranks
        self._clock += 10
        return {rank: self.process(rank, place, world) for rank in self.ranks}

    def process(self, rank: int, place: str = "h:29500", world: int = 4, child_of: int | None = None) -> messages.Hello:
        self._pid += 1
        self._clock += 0.01
        chain = [self._agent] if child_of is None else [child_of, self._agent]
        return messages.Hello(
            session=new_session(),
            role="rank",
            run="r",
            identity=messages.Identity(
                rank=rank,
                local_rank=0,
                world_size=world,
                generation=self.count,
                source="torchrun (RANK)",
                rendezvous=place,
                restart_count=self.count,
            ),
            host=messages.HostFacts(host=self.name, machine_id=f"machine {self.name}"),
            process=messages.ProcessFacts(
                pid=self._pid, parent_pid=chain[0], ancestors=chain, began_after_boot=self._clock
            ),
            sent_at=0.0,
        )


def place(generations: Generations, *hellos: messages.Hello, **options: bool) -> list[int]:
    placed = [generations.place(hello, **options).identity for hello in hellos]
    return [identity.generation for identity in placed if identity is not None]


@pytest.fixture
def hosts() -> tuple[Host, Host]:
    return Host("a", [0, 1]), Host("b", [2, 3])


@pytest.mark.parametrize("order", ["a first", "b first"])
def test_d44_a_failure_on_one_host_is_the_next_generation_of_all(hosts: tuple[Host, Host], order: str) -> None:
    """torch counts it on that host alone."""
    a, b = hosts
    generations = Generations()
    assert place(generations, *a.start().values(), *b.start().values()) == [0] * 4
    for number in (1, 2, 3):
        first, second = a.start(), b.start(failed=True)
        both = (first, second) if order == "a first" else (second, first)
        assert place(generations, *(hello for one in both for hello in one.values())) == [number] * 4
    assert (a.count, b.count) == (0, 3)


def test_b31_hosts_that_come_and_go_are_generations_that_torch_does_not_count(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    generations = Generations()
    assert place(generations, *a.start(world=2).values()) == [0, 0]
    assert place(generations, *a.start(world=4).values(), *b.start(world=4).values()) == [1] * 4
    assert place(generations, *b.start(world=2, ranks=[0, 1]).values()) == [2, 2]
    assert (a.count, b.count) == (0, 0)


def test_a_host_that_is_slow_to_speak_is_of_its_own_generation(hosts: tuple[Host, Host]) -> None:
    """Where torch meets at a new port each time, even what is heard of after the next start is placed rightly."""
    a, b = hosts
    generations = Generations()
    late = b.start("h:1")
    assert place(generations, *a.start("h:1").values()) == [0, 0]
    assert place(generations, *a.start("h:2").values()) == [1, 1]
    assert place(generations, *late.values()) == [0, 0]
    assert place(generations, *b.start("h:2").values()) == [1, 1]


def test_what_a_killed_rank_left_begins_no_generation(hosts: tuple[Host, Host]) -> None:
    a, _ = hosts
    generations = Generations()
    left = a.process(0)
    assert place(generations, *a.start().values()) == [0, 0]
    assert place(generations, *a.start(failed=True).values()) == [1, 1]
    assert place(generations, left, is_left=True) == [0]
    assert generations.present == 1


def test_a_process_that_a_rank_started_is_of_its_generation(hosts: tuple[Host, Host]) -> None:
    """An evaluation script inherits the rank's whole environment."""
    a, _ = hosts
    generations = Generations()
    first = a.start()
    assert place(generations, *first.values()) == [0, 0]
    assert place(generations, a.process(0, child_of=first[0].process.pid)) == [0]
    assert place(generations, *a.start(failed=True).values()) == [1, 1]


def test_a_second_script_after_a_good_end_is_of_the_same_generation(hosts: tuple[Host, Host]) -> None:
    a, _ = hosts
    generations = Generations()
    first = a.start()
    assert place(generations, *first.values()) == [0, 0]
    for hello in first.values():
        generations.note_end(hello.session)
    assert place(generations, *a.start().values()) == [0, 0]
    assert place(generations, *a.start(failed=True).values()) == [1, 1]


def test_a_rank_that_is_heard_first_after_a_restart_is_of_the_present(hosts: tuple[Host, Host]) -> None:
    a, _ = hosts
    generations = Generations()
    first = a.start()
    assert place(generations, first[1]) == [0], "rank 0 was killed before it could say anything"
    second = a.start(failed=True)
    assert place(generations, second[0], second[1]) == [1, 1]


def test_a_reconnect_changes_nothing_and_a_restarted_controller_goes_on_counting(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    generations = Generations()
    place(generations, *a.start().values(), *b.start().values())
    now = {**a.start(), **b.start(failed=True)}
    placed = [generations.place(hello) for hello in now.values()]
    assert place(generations, *now.values()) == [1] * 4
    other = Generations()
    for hello in placed:  # as the journal has them
        other.learn(hello)
    assert place(other, *now.values()) == [1] * 4
    assert place(other, *a.start().values(), *b.start(failed=True).values()) == [2] * 4


def test_d41_generations_follow_those_of_the_sessions_before(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    generations = Generations()
    generations.begin_session(5, 3)
    assert place(generations, *a.start().values(), *b.start().values()) == [5] * 4
    assert place(generations, *a.start().values(), *b.start(failed=True).values()) == [6] * 4
    slurm = messages.Identity(rank=0, local_rank=0, world_size=1, generation=3, source="Slurm (SLURM_PROCID)")
    hello = msgspec.structs.replace(a.process(0), identity=slurm)
    assert place(generations, hello) == [5], "the batch system had counted three when the session began"
    agreed = messages.Identity(rank=0, local_rank=0, world_size=1, generation=1, source="torchrun (RANK)")
    assert place(generations, msgspec.structs.replace(a.process(0), identity=agreed)) == [6]
    started = messages.WorkerStarted(identity=agreed, pid=1, time=0.0)
    assert generations.place_message(started).identity.generation == 6  # type: ignore[union-attr]
    assert generations.place_message(messages.WorkerAlive(ranks=[0], generation=1)).generation == 6  # type: ignore[union-attr]
