"""Who is where: sessions, ranks, hosts, generations, and which session samples its host."""

import msgspec

from trackside.run.events import clear_event, raise_event
from trackside.run.inputs import Moment
from trackside.run.outputs import DefineRank, Instruction, PublishEvent, PublishRun, Reply
from trackside.run.state import Host, Rank, Run, Session
from trackside.run.takeover import note_takeover
from trackside.wire import messages
from trackside.wire.ids import MAX_RANKS, ROOT_PATH, host_path, is_possible_rank, rank_label, rank_path

MAX_HOST_NAME = 255
MOST_TEXT = 4_096
MOST_WORDS = 64
"""Of a command."""
MANY_SESSIONS = 4_096
"""From here on those that have ended are forgotten."""


def open_session(run: Run, hello: messages.Hello, now: Moment) -> list[Instruction]:
    """Take in a process that said hello, for the first time or again."""
    host = _host_of(run, hello.host)
    identity = hello.identity if hello.role == "rank" else None
    if hello.role == "agent" and not run.settings.launched:
        run.settings = msgspec.structs.replace(run.settings, launched=True)
    out: list[Instruction] = []
    if identity is not None and not _is_possible(identity):
        text = f"a process on {host.name} says it is rank {identity.rank} of {identity.world_size} ({identity.source})"
        out += raise_event(
            run, now, "identity refused", f"{text}; look at its environment", severity="warn", path=host_path(host.name)
        )
        out.append(Reply(hello.session, messages.Refused(reason=f"{text}; check its environment")))
        identity = None
    known = run.sessions.get(hello.session)
    if known is None and len(run.sessions) >= MANY_SESSIONS:
        _forget_ended(run)
    run.sessions[hello.session] = Session(
        role=hello.role,
        host=host.name,
        rank=identity.rank if identity else None,
        local_rank=identity.local_rank if identity else None,
        generation=identity.generation if identity else run.generation,
        pid=hello.process.pid,
        may_sample=hello.resources,
        seen=now.mono,
        said_goodbye=known.said_goodbye if known else False,
        dropped_points=known.dropped_points if known else 0,
    )
    if identity:
        out += _leave_former(run, known, identity, hello.session)
        out += _place_rank(run, identity, host.name, now)
        out += _greet_rank(run, identity, hello.session, now)
    _note_environment(run, hello)
    if hello.role == "agent":
        host.spared = []  # it has not been told anything
    out += elect_samplers(run, host.name)
    return [*out, Reply(hello.session, _welcome(run, hello.session)), PublishRun()]


def _forget_ended(run: Run) -> None:
    """Forget sessions that have ended and speak for no rank: a process may begin one after the other without end."""
    speakers = {rank.session for rank in run.ranks.values()}
    run.sessions = {key: known for key, known in run.sessions.items() if known.is_open or key in speakers}


def _is_possible(identity: messages.Identity) -> bool:
    return is_possible_rank(identity.rank, identity.world_size, identity.generation)


def start_worker(run: Run, session: bytes, message: messages.WorkerStarted, now: Moment) -> list[Instruction]:
    """The agent has started a rank's process."""
    identity, host = message.identity, run.sessions[session].host
    if not _is_possible(identity):
        return []
    out = _start_again(run, identity, now) + _place_rank(run, identity, host, now)
    rank = run.ranks.get(identity.rank)
    if rank and rank.generation == identity.generation and rank.session is None:
        if rank.state in ("late", "lost"):
            out += rank_is_back(run, rank, now)
        out += _move_rank(run, rank, host, identity.local_rank)
        rank.pid, rank.seen = message.pid, now.mono
    return [*out, PublishRun()]


def _start_again(run: Run, identity: messages.Identity, now: Moment) -> list[Instruction]:
    """A rank that had ended starts again in the same generation: its launcher was started again and counts anew."""
    rank = run.ranks.get(identity.rank)
    if rank is None or rank.generation != identity.generation or not rank.is_over:
        return []
    text = f"the launcher started {identity.world_size} ranks again"
    out = raise_event(run, now, "restart", text, key="again", count=0)
    run.restarts += sum(isinstance(said, PublishEvent) and said.is_new for said in out)
    run.job = None
    return out + _forget_ranks(run, [identity.rank])


def elect_samplers(run: Run, name: str | None) -> list[Instruction]:
    """Make one open session of a host its sampler, the agent or else the lowest rank, and tell the agent whom to spare."""
    host = run.hosts.get(name) if name is not None else None
    if host is None:
        return []
    chosen, spared = _best_sampler(run, host), _spared_ranks(run, host)
    told: dict[bytes, bool] = {}
    if chosen != host.sampler:
        if host.sampler in run.sessions and run.sessions[host.sampler].is_open:
            told[host.sampler] = False
        if chosen is not None:
            told[chosen] = True
    agents = [key for key, known in run.sessions.items() if known.role == "agent" and known.host == host.name]
    if spared != host.spared:
        told.update({agent: agent == chosen for agent in agents if run.sessions[agent].is_open})
    host.sampler, host.spared = chosen, spared
    return [
        Reply(key, messages.Appoint(sample_host=samples, spared=spared if key in agents else []))
        for key, samples in told.items()
    ]


def primary_session(run: Run) -> bytes | None:
    """The session that prints the job's lines: global rank 0's."""
    first = run.ranks.get(0)
    return first.session if first else None


def path_of(rank: Rank) -> str:
    """A rank's path; directly below the root while its host is unknown."""
    return rank_path(rank.host, rank.rank) if rank.host else f"{ROOT_PATH}/rank{rank.rank}"


def label_of(rank: Rank) -> str:
    """A rank's label for people."""
    return rank_label(rank.host, rank.rank, rank.local_rank)


def hosts_in_order(run: Run) -> list[Host]:
    """Hosts by their lowest rank; those without ranks last, as they came."""
    lowest: dict[str, int] = {}
    for rank in run.ranks.values():
        if rank.host is not None:
            lowest[rank.host] = min(rank.rank, lowest.get(rank.host, rank.rank))
    return sorted(run.hosts.values(), key=lambda host: lowest.get(host.name, 1 << 31))


def ranks_in_order(run: Run) -> list[Rank]:
    """Ranks by number."""
    return [run.ranks[number] for number in sorted(run.ranks)]


def ranks_at(run: Run, path: str) -> list[Rank]:
    """Ranks at or below a path, by number."""
    if path == ROOT_PATH:
        return ranks_in_order(run)
    _, is_numbered, number = path.rpartition("/rank")
    rank = (
        run.ranks.get(int(number))
        if is_numbered and number.isascii() and number.isdigit() and len(number) < 9
        else None
    )
    if rank is not None and path_of(rank) == path:
        return [rank]
    host = path.removeprefix(f"{ROOT_PATH}/")
    below = [rank for rank in run.ranks.values() if rank.host == host] if host_path(host) == path else []
    return sorted(below, key=lambda rank: rank.rank)


def _best_sampler(run: Run, host: Host) -> bytes | None:
    """An agent's session before a rank's, the lowest rank before the others; nobody where every rank wants no sampling."""
    ranks = [known for known in run.sessions.values() if known.host == host.name and known.rank is not None]
    present = [known for known in ranks if known.generation == run.generation]
    if present and not any(known.may_sample for known in present):
        return None
    best: tuple[bool, int, bytes] | None = None
    for key, session in run.sessions.items():
        if session.host == host.name and session.may_sample and session.is_open and not _is_lost(run, session):
            candidate = (session.role != "agent", session.rank if session.rank is not None else MAX_RANKS, key)
            best = candidate if best is None or candidate < best else best
    return best[2] if best else None


def _spared_ranks(run: Run, host: Host) -> list[int]:
    """Ranks of a host that sample themselves, or want no sampling."""
    found = []
    for rank in run.ranks.values():
        session = run.sessions.get(rank.session) if rank.session is not None else None
        if rank.host == host.name and session is not None and (session.is_open or not session.may_sample):
            found.append(rank.rank)
    return sorted(found)


def _is_lost(run: Run, session: Session) -> bool:
    """Whether it belongs to a rank that is lost or over, or that another generation has replaced."""
    if session.rank is None:
        return False
    rank = run.ranks.get(session.rank)
    return rank is None or rank.generation != session.generation or rank.state in ("lost", "failed")


def _host_of(run: Run, facts: messages.HostFacts) -> Host:
    """The host of these facts; a second machine of the same name gets `name~2`."""
    for host in run.hosts.values():
        if host.machine_id == facts.machine_id and host.facts.host == facts.host:
            return host
    base = facts.host.replace("/", "-")[:MAX_HOST_NAME] or "host"
    name, number = base, 1
    while name in run.hosts:
        number += 1
        name = f"{base}~{number}"
    host = run.hosts[name] = Host(name=name, machine_id=facts.machine_id, facts=facts)
    return host


def _place_rank(run: Run, identity: messages.Identity, host: str, now: Moment) -> list[Instruction]:
    """Make sure the rank exists in its generation; a newer generation replaces everybody."""
    out: list[Instruction] = []
    if identity.generation > run.generation and run.ranks:
        out += _begin_generation(run, identity, now)
    if identity.generation < run.generation:
        return [DefineRank(identity.rank, identity.generation, rank_path(host, identity.rank))]
    run.generation = identity.generation
    if run.world_size != identity.world_size:
        out += _resize(run, identity.world_size)
    rank = run.ranks.get(identity.rank)
    if rank is None:
        rank = run.ranks[identity.rank] = Rank(
            rank=identity.rank,
            generation=identity.generation,
            local_rank=identity.local_rank,
            host=host,
            identity_source=identity.source,
            seen=now.mono,
        )
    run.all_over_since = None
    if run.state == "waiting":
        run.state = "running"
    return [*out, DefineRank(rank.rank, rank.generation, path_of(rank))]


def _begin_generation(run: Run, identity: messages.Identity, now: Moment) -> list[Instruction]:
    text = f"generation {identity.generation} begins with {identity.world_size} ranks"
    out = raise_event(run, now, "restart", text, key=str(identity.generation))
    note_takeover(run, identity.generation, now, out)
    out += _forget_ranks(run, list(run.ranks))
    run.sessions = {
        key: session
        for key, session in run.sessions.items()
        if session.role == "agent" or session.generation >= run.generation
    }
    run.history.clear()
    run.module_times.clear()
    run.restarts += 1
    run.state, run.state_detail, run.job = "running", None, None
    for host in run.hosts.values():
        out += elect_samplers(run, host.name)
    return out


def _resize(run: Run, world_size: int) -> list[Instruction]:
    """Another world size in the same generation: ranks outside of it are no more."""
    run.world_size = world_size
    return _forget_ranks(run, [number for number in run.ranks if number >= world_size])


def _forget_ranks(run: Run, numbers: list[int]) -> list[Instruction]:
    return _clear_paths(run, {path_of(run.ranks.pop(number)) for number in numbers})


def _clear_paths(run: Run, paths: set[str]) -> list[Instruction]:
    out: list[Instruction] = []
    for record in list(run.events):
        if record.active and record.path in paths:
            out += clear_event(run, record.kind, record.path)
    return out


def _move_rank(run: Run, rank: Rank, host: str, local_rank: int | None) -> list[Instruction]:
    """Another process, perhaps on another host, is the rank now."""
    if (rank.host, rank.local_rank) == (host, local_rank):
        return []
    out = _clear_paths(run, {path_of(rank)})
    former, rank.host, rank.local_rank = rank.host, host, local_rank
    return [*out, DefineRank(rank.rank, rank.generation, path_of(rank)), *elect_samplers(run, former)]


def _leave_former(run: Run, known: Session | None, identity: messages.Identity, session: bytes) -> list[Instruction]:
    """A process that was taken for another rank until it learnt who it is leaves none behind."""
    former = run.ranks.get(known.rank) if known is not None and known.rank is not None else None
    if former is None or former.rank == identity.rank or former.session != session:
        return []
    return _forget_ranks(run, [former.rank])


def _greet_rank(run: Run, identity: messages.Identity, session: bytes, now: Moment) -> list[Instruction]:
    rank = run.ranks.get(identity.rank)
    if rank is None or rank.generation != identity.generation:
        return []
    out = bind_session(run, rank, session, now)
    if out is None:
        return []
    if rank.state in ("late", "lost"):
        out += rank_is_back(run, rank, now)
    rank.seen, rank.identity_source = now.mono, identity.source
    return out


def bind_session(run: Run, rank: Rank, session: bytes, now: Moment) -> list[Instruction] | None:
    """Let a session speak for its rank; None when it may not.

    A second process that inherited the rank's environment (an evaluation script, say) does not, as long as the first one
    is heard: its values are taken, its heartbeats and its end are not the rank's.
    """
    newcomer = run.sessions[session]
    if rank.session == session:
        return []
    owner = run.sessions.get(rank.session) if rank.session is not None else None
    is_held = owner is not None and owner.is_open and now.mono - owner.seen < run.settings.late_after_seconds
    if (is_held and owner is not None and owner.pid != newcomer.pid) or not newcomer.is_open:
        return None
    if rank.exit_code is not None or rank.signal:
        return None
    out: list[Instruction] = []
    if rank.is_over:
        rank.state, rank.raised, rank.ended_at = "alive", False, None
        rank.untold_since = None
        out = clear_event(run, "rank failed", path_of(rank))
    rank.session, rank.monitored = session, True
    if not newcomer.may_sample:
        rank.sample = rank.sampled_at = None
    rank.pid = newcomer.pid or rank.pid
    rank.progress.clear()
    return out + _move_rank(run, rank, newcomer.host, newcomer.local_rank)


def rank_is_back(run: Run, rank: Rank, now: Moment) -> list[Instruction]:
    """A late or lost rank has spoken again."""
    out: list[Instruction] = []
    if rank.state == "lost":
        text = f"{label_of(rank)} speaks again after {now.mono - rank.seen:.0f} s"
        out += clear_event(run, "rank lost", path_of(rank))
        out += raise_event(run, now, "rank back", text, path=path_of(rank), step=rank.step)
    rank.state = "alive"
    return out


def _welcome(run: Run, session: bytes) -> messages.Welcome:
    """`durable_seq` and `machine_id` are filled in by the controller, which knows them."""
    host = run.hosts[run.sessions[session].host]
    return messages.Welcome(
        run=run.id,
        name=run.name,
        directory=run.directory,
        machine_id="",
        durable_seq=0,
        primary=session == primary_session(run),
        sample_host=host.sampler == session,
        url_line=run.url_line,
    )


def _note_environment(run: Run, hello: messages.Hello) -> None:
    """Remember versions and command, rank 0's before anybody's; per host facts for all."""
    process = hello.process
    hosts = run.environment.setdefault("hosts", {})
    hosts[run.sessions[hello.session].host] = {
        "cpu": _cut(hello.host.cpu_model),
        "cpu_threads": hello.host.cpu_threads,
        "memory_bytes": hello.host.memory_bytes,
        "platform": _cut(hello.host.platform),
        "machine_id": _cut(hello.host.machine_id),
    }
    is_first = hello.identity is not None and hello.identity.rank == 0
    if is_first or "command" not in run.environment:
        facts = {
            "command": [_cut(word) for word in process.command[:MOST_WORDS]],
            "directory": _cut(process.directory),
            "git_commit": _cut(process.git_commit),
            "python": _cut(process.python),
            "torch": _cut(process.torch),
            "trackside": _cut(process.trackside),
        }
        run.environment.update({name: value for name, value in facts.items() if value})
    if hello.identity is not None:
        run.environment["identity_source"] = _cut(hello.identity.source)


def _cut(text: str | None) -> str | None:
    return text if text is None or len(text) <= MOST_TEXT else text[:MOST_TEXT] + "…"
