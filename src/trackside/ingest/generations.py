"""Which generation a process belongs to, in the whole run: launchers count for themselves, and some badly.

- A job that is started again as a whole counts from 0 once more: its generations follow those of the sessions before.
- `trackside run` agrees on a number with all hosts, Slurm counts requeues for the job: both are taken at their word.
- Plain torchrun counts on each host by itself, and a change of hosts not at all. So a generation is told from the next by
  its processes: all of them were started by the same rendezvous, and no rank has two that follow each other.
"""

import msgspec

from trackside.wire import messages
from trackside.wire.ids import MOST_GENERATION, is_possible_rank

Worker = messages.WorkerStarted | messages.WorkerExited | messages.WorkerAlive


class Seat(msgspec.Struct, frozen=True):
    """The process that is a rank in the present generation of a plain torchrun job."""

    session: bytes
    machine: str
    pid: int
    parent: int | None
    began: float | None
    """Seconds since the machine's boot."""
    is_done: bool = False
    """Whether its script came to a good end: what follows it is no restart."""


class Rendezvous(msgspec.Struct, frozen=True):
    """What all processes of one generation of a plain torchrun job share, as far as torch tells it."""

    place: str
    world_size: int


class Generations(msgspec.Struct):
    """Numbers generations; part of a checkpoint."""

    first: int = 0
    """The first one of this session of the run."""
    requeues: int = 0
    """What Slurm counted when the session began."""
    present: int = -1
    """Of a plain torchrun job."""
    meeting: Rendezvous | None = None
    """Of the present one."""
    former: Rendezvous | None = None
    """Of the one before."""
    counts: dict[str, int] = {}
    """What each agent counts in the present one."""
    seats: dict[int, Seat] = {}
    """By rank, in the present one."""

    def begin_session(self, first: int, requeues: int) -> None:
        """A session of the run begins."""
        self.first, self.requeues = first, requeues
        self.present, self.meeting, self.former = -1, None, None
        self.counts, self.seats = {}, {}

    def place(self, hello: messages.Hello, *, is_left: bool = False) -> messages.Hello:
        """The hello with the generation that it means in the run. `is_left`: its process has ended."""
        told = hello.identity
        if told is None or not is_possible_rank(told.rank, told.world_size, told.generation):
            return hello
        number = self._number(hello, told, is_left=is_left)
        return hello if number == told.generation else _with_generation(hello, told, number)

    def keep(self, hello: messages.Hello, generation: int) -> messages.Hello:
        """The hello of a process that has its generation already."""
        told = hello.identity
        return hello if told is None or told.generation == generation else _with_generation(hello, told, generation)

    def learn(self, hello: messages.Hello) -> None:
        """A hello that was placed before, by another process of the controller."""
        told = hello.identity
        if told is None or told.rendezvous is None or told.generation < self.present:
            return
        if told.generation > self.present:
            self._begin(told.generation, _meeting(told))
        self._sit(hello, told)

    def place_message(self, message: Worker) -> Worker:
        """What an agent of `trackside run` says, likewise."""
        if not self.first:
            return message
        if isinstance(message, messages.WorkerStarted):
            number = _bounded(self.first + message.identity.generation)
            identity = msgspec.structs.replace(message.identity, generation=number)
            return msgspec.structs.replace(message, identity=identity)
        return msgspec.structs.replace(message, generation=_bounded(self.first + message.generation))

    def note_end(self, session: bytes) -> None:
        """A script came to a good end."""
        for rank, seat in self.seats.items():
            if seat.session == session:
                self.seats[rank] = msgspec.structs.replace(seat, is_done=True)
                return

    def _number(self, hello: messages.Hello, told: messages.Identity, *, is_left: bool) -> int:
        if told.rendezvous is not None:
            return self._of_torchrun(hello, told, is_left=is_left)
        counted = self.requeues if told.source.startswith("Slurm") else 0
        return _bounded(self.first + max(0, told.generation - counted))

    def _of_torchrun(self, hello: messages.Hello, told: messages.Identity, *, is_left: bool) -> int:
        meeting, seat = _meeting(told), self.seats.get(told.rank)
        if self.present < 0:
            self._begin(_bounded(self.first + _count(told)), meeting)
        elif seat is not None and _is_same(seat, hello):
            return self.present
        elif self._is_older(hello, told, meeting, seat, is_left=is_left):
            return max(self.first, self.present - 1)
        elif self._is_next(hello, told, meeting, seat):
            self._begin(_bounded(max(self.present + 1, self.first + _count(told))), meeting)
        elif seat is not None and not seat.is_done:
            return self.present  # it has the rank's environment from the rank itself
        if not is_left:
            self._sit(hello, told)
        return self.present

    def _is_older(
        self, hello: messages.Hello, told: messages.Identity, meeting: Rendezvous, seat: Seat | None, *, is_left: bool
    ) -> bool:
        """Whether it is a process of the generation before, which is heard of only now."""
        if meeting != self.meeting:
            # Where torch meets in one place for good, hosts that come and go make the same number of ranks again.
            return meeting == self.former and (meeting.place != self._place() or self._is_outrun(hello))
        if _count(told) < self.counts.get(_agent(hello), 0):
            return True
        return seat is not None and (is_left or _began_before(hello, seat))

    def _is_next(self, hello: messages.Hello, told: messages.Identity, meeting: Rendezvous, seat: Seat | None) -> bool:
        """Whether it was started by a later rendezvous than the present generation."""
        if meeting != self.meeting or _count(told) > self.counts.get(_agent(hello), _count(told)):
            return True
        return seat is not None and not seat.is_done and not _is_heir(hello, seat)

    def _place(self) -> str | None:
        return self.meeting.place if self.meeting is not None else None

    def _is_outrun(self, hello: messages.Hello) -> bool:
        """Whether its machine has ranks in the present generation, all of which began later."""
        beside = [seat for seat in self.seats.values() if seat.machine == hello.host.machine_id]
        return bool(beside) and all(_began_before(hello, seat) for seat in beside)

    def _begin(self, number: int, meeting: Rendezvous) -> None:
        self.former = self.meeting if self.meeting != meeting else None
        self.present, self.meeting, self.counts, self.seats = number, meeting, {}, {}

    def _sit(self, hello: messages.Hello, told: messages.Identity) -> None:
        process = hello.process
        self.counts.setdefault(_agent(hello), _count(told))
        self.seats[told.rank] = Seat(
            hello.session, hello.host.machine_id, process.pid, process.parent_pid, process.began_after_boot
        )


def _meeting(told: messages.Identity) -> Rendezvous:
    return Rendezvous(told.rendezvous or "", told.world_size)


def _agent(hello: messages.Hello) -> str:
    """The process that starts and counts."""
    return f"{hello.host.machine_id} {hello.process.parent_pid}"


def _count(told: messages.Identity) -> int:
    return min(max(0, told.restart_count or 0), MOST_GENERATION)


def _is_same(seat: Seat, hello: messages.Hello) -> bool:
    process = hello.process
    return (seat.machine, seat.pid, seat.began) == (hello.host.machine_id, process.pid, process.began_after_boot)


def _is_heir(hello: messages.Hello, seat: Seat) -> bool:
    """Whether the rank itself started this process, which then has its environment."""
    return hello.host.machine_id == seat.machine and seat.pid in hello.process.ancestors


def _began_before(hello: messages.Hello, seat: Seat) -> bool:
    began = hello.process.began_after_boot
    if hello.host.machine_id != seat.machine or began is None or seat.began is None:
        return False
    return began < seat.began


def _with_generation(hello: messages.Hello, told: messages.Identity, number: int) -> messages.Hello:
    return msgspec.structs.replace(hello, identity=msgspec.structs.replace(told, generation=number))


def _bounded(number: int) -> int:
    return min(number, MOST_GENERATION)
