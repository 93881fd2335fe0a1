"""What a run says of itself: metadata, graph, label, hash, hardware."""

import json
from typing import Any

import msgspec

from trackside.run.events import raise_event
from trackside.run.inputs import Moment
from trackside.run.outputs import Instruction, PublishRun, SetGraph, SetHardware, SetMetadata
from trackside.run.state import Run
from trackside.run.topology import hosts_in_order, label_of, path_of, ranks_in_order
from trackside.wire import messages


def take_metadata(run: Run, message: messages.SetMetadata, now: Moment) -> list[Instruction]:
    """The last write wins; malformed text is discarded and the old value stays; `watched` survives any order."""
    if message.watched is not None:
        run.watched = dict(message.watched)
    if message.text is not None:
        try:
            run.user_metadata = msgspec.json.decode(message.text)
        except (msgspec.DecodeError, RecursionError) as error:
            text = f"metadata of {len(message.text):,} characters is not JSON ({error}); the former metadata stays"
            return raise_event(run, now, "metadata refused", text, severity="warn")
        run.has_user_metadata = True
    return [SetMetadata(msgspec.json.encode(merged_metadata(run)).decode()), PublishRun()]


def merged_metadata(run: Run) -> Any:
    """The user's metadata with config and parameter counts below it; the user's key wins; what is no object stays."""
    added: dict[str, Any] = {}
    if run.config is not None:
        added["config"] = run.config
    if run.watched is not None:
        added["parameters"] = run.watched
    if not run.has_user_metadata:
        return added or None
    if not isinstance(run.user_metadata, dict):
        return run.user_metadata
    return {**added, **run.user_metadata}


def take_plan(run: Run, message: messages.SetPlan) -> list[Instruction]:
    """How long the job means to run, its name, its configuration; what is not said stays."""
    run.plan_epochs = message.epochs if message.epochs is not None else run.plan_epochs
    run.plan_steps = message.steps if message.steps is not None else run.plan_steps
    run.project = message.project or run.project
    run.name = message.name or run.name
    if message.config is None:
        return [PublishRun()]
    try:
        run.config = json.loads(message.config)
    except ValueError:
        return [PublishRun()]
    return [SetMetadata(msgspec.json.encode(merged_metadata(run)).decode()), PublishRun()]


def take_graph(run: Run, session: bytes, message: messages.SetGraph, now: Moment) -> list[Instruction]:
    """The first non-empty graph wins; label and hash are cleared by nothing; another structure is one warning."""
    out = _compare_hash(run, session, message, now)
    graph = msgspec.msgpack.decode(message.graph)
    has_drawing = bool(message.svg) or bool(graph)
    is_taken = bool(run.svg) or bool(run.graph)
    if has_drawing and not is_taken:
        run.svg, run.graph = message.svg or None, graph or None
        run.label, run.hash = message.label or run.label, message.hash or run.hash
    elif not is_taken or not has_drawing:
        run.label, run.hash = run.label or message.label, run.hash or message.hash
    return [*out, SetGraph(run.svg, run.graph, run.label, run.hash), PublishRun()]


def _compare_hash(run: Run, session: bytes, message: messages.SetGraph, now: Moment) -> list[Instruction]:
    known = run.sessions[session]
    rank = run.ranks.get(known.rank) if known.rank is not None else None
    if not message.hash or not run.hash or message.hash == run.hash or rank is None:
        return []
    text = f"{label_of(rank)} trains another model: structure {message.hash[:8]}, the run's is {run.hash[:8]}"
    return raise_event(run, now, "hash mismatch", text, severity="warn", path=path_of(rank), active=True)


def take_hardware(run: Run, session: bytes, message: messages.SetHardware) -> list[Instruction]:
    """Keep a rank's hardware and rebuild the run's line; a rank outside the world is ignored."""
    known = run.sessions[session]
    rank = run.ranks.get(known.rank) if known.rank is not None else None
    if rank is None or (run.world_size is not None and not 0 <= rank.rank < run.world_size):
        return []
    rank.cpu_text, rank.gpu_text = message.cpu, message.gpu
    run.hardware = hardware_line(run)
    return [SetHardware(run.hardware), PublishRun()]


def hardware_line(run: Run) -> str:
    """`host: <cpu> | gr=N lr=M: <gpu> | … | other: <cpu> | …` in topology order."""
    parts: list[str] = []
    for host in hosts_in_order(run):
        reported = [rank for rank in ranks_in_order(run) if rank.host == host.name and rank.cpu_text]
        if not reported:
            continue
        parts.append(f"{host.name}: {reported[0].cpu_text}")
        parts += [f"gr={rank.rank} lr={rank.local_rank}: {rank.gpu_text}" for rank in reported if rank.gpu_text]
    return " | ".join(parts)
