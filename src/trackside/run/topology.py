"""Who is where: sessions, ranks, hosts, generations, and which session samples its host."""

from trackside.run.events import clear_event, raise_event
from trackside.run.inputs import Moment
from trackside.run.outputs import DefineRank, Instruction, PublishRun, Reply
from trackside.run.state import Host, Rank, Run, Session
from trackside.wire import messages
from trackside.wire.ids import ROOT_PATH, rank_label, rank_path


def open_session(run: Run, hello: messages.Hello, now: Moment) -> list[Instruction]:
    """Take in a process that said hello, for the first time or again."""
    host = _host_of(run, hello.host)
    identity = hello.identity
    known = run.sessions.get(hello.session)
    generation = identity.generation if identity else run.generation
    run.sessions[hello.session] = Session(
        role=hello.role,
        host=host.name,
        rank=identity.rank if identity else None,
        generation=generation,
        pid=hello.process.pid,
        may_sample=hello.resources,
        seen=now.mono,
        said_goodbye=known.said_goodbye if known else False,
    )
    out: list[Instruction] = []
    if identity:
        out += _place_rank(run, identity, host.name, now)
        out += _bind_session(run, identity, hello, now)
    out += _note_environment(run, hello)
    out += elect_samplers(run)
    out.append(Reply(hello.session, _welcome(run, hello.session)))
    return [*out, PublishRun()]


def start_worker(run: Run, session: bytes, message: messages.WorkerStarted, now: Moment) -> list[Instruction]:
    """The agent has started a rank's process."""
    host = run.sessions[session].host
    out = _place_rank(run, message.identity, host, now)
    rank = run.ranks.get(message.identity.rank)
    if rank and rank.generation == message.identity.generation and rank.session is None:
        rank.pid, rank.seen = message.pid, now.mono
    return [*out, PublishRun()]


def elect_samplers(run: Run) -> list[Instruction]:
    """Make one open session of each host its sampler: the agent, else the lowest rank."""
    out: list[Instruction] = []
    for host in run.hosts.values():
        chosen = _best_sampler(run, host.name)
        if chosen == host.sampler:
            continue
        if host.sampler in run.sessions and run.sessions[host.sampler].is_open:
            out.append(Reply(host.sampler, messages.Appoint(sample_host=False)))
        host.sampler = chosen
        if chosen is not None:
            out.append(Reply(chosen, messages.Appoint(sample_host=True)))
    return out


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


def _best_sampler(run: Run, host: str) -> bytes | None:
    candidates = [
        (session.role != "agent", session.rank if session.rank is not None else -1, key)
        for key, session in run.sessions.items()
        if session.host == host and session.is_open and session.may_sample and not _is_lost(run, session)
    ]
    return min(candidates)[2] if candidates else None


def _is_lost(run: Run, session: Session) -> bool:
    rank = run.ranks.get(session.rank) if session.rank is not None else None
    return rank is not None and (rank.state in ("lost", "failed") or rank.generation != session.generation)


def _host_of(run: Run, facts: messages.HostFacts) -> Host:
    """The host of these facts; a second machine of the same name gets `name~2`."""
    for host in run.hosts.values():
        if host.machine_id == facts.machine_id and host.facts.host == facts.host:
            return host
    name, number = facts.host.replace("/", "-") or "host", 1
    while name in run.hosts:
        number += 1
        name = f"{facts.host}~{number}"
    host = run.hosts[name] = Host(name=name, machine_id=facts.machine_id, facts=facts)
    return host


def _place_rank(run: Run, identity: messages.Identity, host: str, now: Moment) -> list[Instruction]:
    """Make sure the rank exists in its generation; a newer generation replaces everybody."""
    out: list[Instruction] = []
    if identity.generation > run.generation and run.ranks:
        out += _begin_generation(run, identity, now)
    if identity.generation < run.generation:
        return out
    run.generation, run.world_size = identity.generation, identity.world_size
    rank = run.ranks.get(identity.rank)
    if rank is None:
        rank = run.ranks[identity.rank] = Rank(rank=identity.rank, generation=identity.generation, seen=now.mono)
    rank.local_rank, rank.host = identity.local_rank, host
    rank.identity_source = rank.identity_source or identity.source
    if run.state == "waiting":
        run.state = "running"
    out.append(DefineRank(rank.rank, rank.generation, path_of(rank)))
    return out


def _begin_generation(run: Run, identity: messages.Identity, now: Moment) -> list[Instruction]:
    text = f"generation {identity.generation} begins with {identity.world_size} ranks"
    out = raise_event(run, now, "restart", text, collapse=False)
    for record in list(run.events):
        if record.active and record.path.startswith(ROOT_PATH + "/"):
            out += clear_event(run, record.kind, record.path)
    run.ranks.clear()
    run.history.clear()
    run.restarts += 1
    run.state, run.state_detail = "running", None
    return out


def _bind_session(run: Run, identity: messages.Identity, hello: messages.Hello, now: Moment) -> list[Instruction]:
    rank = run.ranks.get(identity.rank)
    if rank is None or rank.generation != identity.generation:
        return []
    out: list[Instruction] = []
    if rank.state in ("late", "lost"):
        out += rank_is_back(run, rank, now)
    rank.session, rank.monitored, rank.seen = hello.session, True, now.mono
    rank.identity_source = identity.source
    if hello.process.pid:
        rank.pid = hello.process.pid
    if rank.is_over and not run.sessions[hello.session].said_goodbye and rank.exit_code is None and not rank.signal:
        rank.state = "alive"
    return out


def rank_is_back(run: Run, rank: Rank, now: Moment) -> list[Instruction]:
    """A late or lost rank has spoken again."""
    out: list[Instruction] = []
    if rank.state == "lost":
        silent = now.mono - rank.seen
        text = f"{label_of(rank)} speaks again after {silent:.0f} s"
        out += clear_event(run, "rank lost", path_of(rank))
        out += raise_event(run, now, "rank back", text, path=path_of(rank), step=rank.step)
    out += clear_event(run, "rank late", path_of(rank))
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


def _note_environment(run: Run, hello: messages.Hello) -> list[Instruction]:
    """Remember versions and command, rank 0's before anybody's; per host facts for all."""
    process = hello.process
    hosts = run.environment.setdefault("hosts", {})
    hosts[run.sessions[hello.session].host] = {
        "cpu": hello.host.cpu_model,
        "cpu_threads": hello.host.cpu_threads,
        "memory_bytes": hello.host.memory_bytes,
        "platform": hello.host.platform,
        "machine_id": hello.host.machine_id,
    }
    is_first = hello.identity is not None and hello.identity.rank == 0
    if is_first or "command" not in run.environment:
        facts = {
            "command": process.command,
            "directory": process.directory,
            "git_commit": process.git_commit,
            "python": process.python,
            "torch": process.torch,
            "trackside": process.trackside,
        }
        run.environment.update({name: value for name, value in facts.items() if value})
    if hello.identity is not None:
        run.environment["identity_source"] = hello.identity.source
    return []
