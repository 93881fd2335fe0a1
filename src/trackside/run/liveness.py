"""Signs of life: late, lost, back, gone."""

from trackside.run.epochs import note_broken_off
from trackside.run.events import clear_event, raise_event
from trackside.run.failures import is_asked, note_failure
from trackside.run.inputs import Moment, ProcessGone
from trackside.run.outputs import Instruction, PublishRun
from trackside.run.state import Rank, Run, Session
from trackside.run.topology import bind_session, elect_samplers, label_of, path_of, rank_is_back, ranks_in_order
from trackside.wire import messages
from trackside.wire.ids import host_path


def note_life(run: Run, session: bytes, now: Moment) -> list[Instruction]:
    """Any frame of a session is a sign of its life."""
    known = run.sessions.get(session)
    if known is None:
        return []
    known.seen = now.mono
    if known.silent:
        return _agent_is_back(run, known)
    rank = run.ranks.get(known.rank) if known.rank is not None else None
    if rank is None or rank.generation != known.generation:
        return []
    out = bind_session(run, rank, session, now)
    return [] if out is None else out + touch(run, rank, now)


def touch(run: Run, rank: Rank, now: Moment) -> list[Instruction]:
    """The rank is alive at this moment."""
    out: list[Instruction] = []
    if rank.state in ("late", "lost"):
        out = [*rank_is_back(run, rank, now), *elect_samplers(run, rank.host), PublishRun()]
    rank.seen = now.mono
    return out


def check_silence(run: Run, now: Moment) -> list[Instruction]:
    """Mark ranks that have been silent for too long; at teardown nobody is."""
    if run.completed or run.job is not None or run.stop_reason is not None:
        return []
    out = _check_agents(run, now)
    is_changed = False
    for rank in ranks_in_order(run):
        if rank.is_over or rank.state == "lost":
            continue
        silent = now.mono - rank.seen
        if silent >= run.settings.lost_after_seconds:
            rank.state = "lost"
            out += _say_lost(run, rank, silent, now)
            out += elect_samplers(run, rank.host)
        elif silent >= run.settings.late_after_seconds and rank.state == "alive":
            rank.state = "late"
            is_changed = True
    return [*out, PublishRun()] if out or is_changed else []


def _check_agents(run: Run, now: Moment) -> list[Instruction]:
    out: list[Instruction] = []
    for session in run.sessions.values():
        silent = now.mono - session.seen
        if session.role == "agent" and session.is_open and silent >= run.settings.lost_after_seconds:
            session.silent = True
            text = f"the launcher on {session.host} has been silent for {silent:.0f} s; look whether the host is up"
            out += raise_event(
                run, now, "launcher silent", text, severity="warn", path=host_path(session.host), active=True
            )
            out += elect_samplers(run, session.host)
    return out


def _agent_is_back(run: Run, session: Session) -> list[Instruction]:
    session.silent = False
    path = host_path(session.host)
    return [*clear_event(run, "launcher silent", path), *elect_samplers(run, session.host), PublishRun()]


def _say_lost(run: Run, rank: Rank, silent: float, now: Moment) -> list[Instruction]:
    step = "no step yet" if rank.step is None else f"last step {rank.step:,}"
    phase = f", phase {rank.phase}" if rank.phase else ""
    text = f"{rank.host or 'unknown host'} rank{rank.rank} lost: {step}{phase}, silent {silent:.0f} s"
    return raise_event(
        run, now, "rank lost", text, severity="critical", path=path_of(rank), step=rank.step, active=True
    )


def note_dropped(run: Run, session: bytes, total: int, now: Moment) -> list[Instruction]:
    """Take a session's running total of values that its bounded buffer had to drop."""
    known = run.sessions[session]
    more = total - known.dropped_points
    rank = run.ranks.get(known.rank) if known.rank is not None else None
    if more <= 0 or rank is None or rank.generation != known.generation:
        return []
    known.dropped_points = total
    rank.dropped_points += more
    who = path_of(rank).rpartition("/")[2]
    text = f"{who} dropped {rank.dropped_points:,} values: more was logged than could be sent; log less often"
    return raise_event(run, now, "records dropped", text, severity="warn", path=path_of(rank), count=more)


def note_clock(run: Run, rank: Rank, offset: float | None, now: Moment) -> list[Instruction]:
    """Take a rank's clock offset; a large one is a condition that holds until it is clearly smaller."""
    if offset is None:
        return []
    rank.clock_offset = offset
    limit, path = run.settings.clock_offset_seconds, path_of(rank)
    if not rank.clock_is_off and abs(offset) > limit:
        rank.clock_is_off = True
        text = f"the clock of {label_of(rank)} is {abs(offset):.1f} s off the controller's"
        return raise_event(run, now, "clock offset", text, severity="warn", path=path, active=True)
    if rank.clock_is_off and abs(offset) < 0.8 * limit:
        rank.clock_is_off = False
        return clear_event(run, "clock offset", path)
    return []


def exit_worker(run: Run, message: messages.WorkerExited, now: Moment) -> list[Instruction]:
    """The launcher saw a rank's process end."""
    rank = run.ranks.get(message.rank)
    if rank is None or rank.generation != message.generation:
        return []
    rank.exit_code, rank.signal = message.exit_code, message.signal
    rank.follows = message.for_restart or _follows(run, rank)
    owner = run.sessions.get(rank.session) if rank.session is not None else None
    if owner is not None:
        owner.gone = True
    return end_rank(run, rank, clean=message.exit_code == 0, now=now, is_expected=message.for_restart)


def end_rank(run: Run, rank: Rank, *, clean: bool, now: Moment, is_expected: bool = False) -> list[Instruction]:
    """A rank is over, well or not; what was open about its silence clears up."""
    was_failed = rank.state == "failed"
    rank.state = "finished" if clean else "failed"
    rank.seen = now.mono
    if rank.ended_at is None or was_failed == clean:
        rank.ended_at = now.mono
    path = path_of(rank)
    out = clear_event(run, "rank lost", path)
    if clean:
        rank.untold_since = None
        out += clear_event(run, "rank failed", path)
    elif is_expected or is_asked(run, rank):
        rank.untold_since = None
    else:
        out += note_failure(run, rank, now, is_known=was_failed)
    return [*out, *elect_samplers(run, rank.host), PublishRun()]


def _follows(run: Run, rank: Rank) -> bool:
    """Whether a launcher may have ended it for another's failure: then another's process has ended before."""
    others = (other for other in run.ranks.values() if other is not rank and other.state == "failed")
    return any(other.exit_code is not None or other.signal for other in others)


def say_goodbye(run: Run, session: bytes, message: messages.Goodbye, now: Moment) -> list[Instruction]:
    """A script, or an agent's job, came to its end."""
    known = run.sessions[session]
    known.said_goodbye, known.leaving = True, message.leaving
    out = note_dropped(run, session, message.dropped_points, now)
    rank = _rank_owned_by(run, session, known)
    if rank is None or rank.exit_code is not None or rank.signal:
        return [*out, *elect_samplers(run, known.host)]
    rank.raised, rank.signal = not message.clean, message.signal
    if message.signal is not None or not message.clean:
        out += note_broken_off(run, rank, now)
    return [*out, *end_rank(run, rank, clean=message.clean, now=now)]


def lose_process(run: Run, gone: ProcessGone, now: Moment) -> list[Instruction]:
    """A session's process has ended on the controller's own machine; a script may say goodbye and exit with an error."""
    known = run.sessions.get(gone.session)
    if known is None or known.gone:
        return []
    is_told = known.said_goodbye
    known.gone, known.leaving = True, False
    rank = _rank_owned_by(run, gone.session, known)
    if rank is None or rank.exit_code is not None or rank.signal or (run.settings.launched and not run.launcher_gone):
        return elect_samplers(run, known.host)
    rank.exit_code, rank.signal = gone.exit_code, gone.signal
    rank.follows = True  # for all that is known: whose end was noticed first may not have been the first
    ends_well = gone.exit_code == 0 or (is_told and not rank.raised and gone.signal is None and gone.exit_code is None)
    return end_rank(run, rank, clean=ends_well, now=now)


def _rank_owned_by(run: Run, session: bytes, known: Session) -> Rank | None:
    rank = run.ranks.get(known.rank) if known.rank is not None else None
    return rank if rank is not None and rank.session == session else None
