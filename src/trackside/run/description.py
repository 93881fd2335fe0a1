"""What a run says of itself: metadata, graph, label, hash, hardware."""

from typing import Any

import msgspec

from trackside.run.events import raise_event
from trackside.run.inputs import Moment
from trackside.run.model import is_fuller, read_graph
from trackside.run.outputs import Instruction, PublishRun, SetGraph, SetHardware, SetMetadata
from trackside.run.state import Run
from trackside.run.topology import hosts_in_order, label_of, path_of, ranks_in_order
from trackside.wire import messages

MAX_NAME = 200


def take_metadata(run: Run, message: messages.SetMetadata, now: Moment) -> list[Instruction]:
    """The last write wins; malformed text is discarded and the old value stays; `watched` survives any order."""
    if message.watched is not None:
        run.watched = dict(message.watched)
    if message.text is None:
        return _announce(run)
    if (problem := _problem(message.text)) is None:
        run.metadata = message.text
        return _announce(run)
    text = f"metadata of {len(message.text):,} characters is not taken: {problem}; the former metadata stays"
    return raise_event(run, now, "metadata refused", text, severity="warn")


def take_plan(run: Run, message: messages.SetPlan, now: Moment) -> list[Instruction]:
    """How long the job means to run, its name, its configuration; what is not said stays."""
    run.plan_epochs = message.epochs if message.epochs is not None else run.plan_epochs
    run.plan_steps = message.steps if message.steps is not None else run.plan_steps
    run.project = (message.project or run.project or "")[:MAX_NAME] or None
    run.name = (message.name or run.name)[:MAX_NAME]
    if message.config is None:
        return [PublishRun()]
    if (problem := _problem(message.config)) is None:
        run.config = message.config
        return _announce(run)
    text = f"a configuration of {len(message.config):,} characters is not taken: {problem}"
    return [*raise_event(run, now, "metadata refused", text, severity="warn", key="config"), PublishRun()]


def _announce(run: Run) -> list[Instruction]:
    return [SetMetadata(msgspec.json.encode(merged_metadata(run)).decode()), PublishRun()]


def _problem(text: str) -> str | None:
    """Why a text is not JSON that can be passed on; None when it is."""
    if len(text) > messages.MOST_METADATA_CHARACTERS:
        return f"it may have {messages.MOST_METADATA_CHARACTERS:,}"
    try:
        msgspec.json.encode(msgspec.json.decode(text))
    except (msgspec.DecodeError, RecursionError, OverflowError, ValueError) as error:
        return f"it is not JSON ({str(error)[:200]})"
    return None


def merged_metadata(run: Run) -> Any:
    """The user's metadata with config and parameter counts below it; the user's key wins; what is no object stays."""
    added: dict[str, Any] = {}
    if run.config is not None:
        added["config"] = msgspec.json.decode(run.config)
    if run.watched is not None:
        added["parameters"] = run.watched
    if run.metadata is None:
        return added or None
    own = msgspec.json.decode(run.metadata)
    return {**added, **own} if isinstance(own, dict) else own


class MergedMetadata:
    """`merged_metadata`, computed again only when something of it has changed."""

    def __init__(self) -> None:
        self._of: tuple[str | None, str | None, dict[str, int] | None] = (None, None, None)
        self._merged: Any = None

    def of(self, run: Run) -> Any:
        """The run's metadata."""
        parts = (run.metadata, run.config, run.watched)
        if parts != self._of:
            self._of, self._merged = parts, merged_metadata(run)
        return self._merged


def take_graph(run: Run, session: bytes, message: messages.SetGraph, now: Moment) -> list[Instruction]:
    """Keep the first non-empty SVG and the first non-empty graph, with the label and hash that came first.

    The two have a slot each: a user's SVG and the graph of a watched model may both be there, in any order. A label or
    hash that is absent clears nothing. A recorded pass takes the place of the bare tree of the same structure.
    """
    out = _compare_hash(run, session, message, now)
    graph, problem = read_graph(message.graph)
    if problem is not None:
        text = f"a model graph of {len(message.graph):,} bytes cannot be read ({problem})"
        out += raise_event(run, now, "graph refused", text, severity="warn")
    brings = (message.svg and not run.svg) or (graph and not run.graph)
    is_first = bool(brings) and not (run.svg or run.graph)
    run.svg = run.svg or message.svg or None
    if run.graph is None or (graph is not None and is_fuller(graph, run.graph)):
        run.graph = graph or run.graph
    if is_first:
        run.label, run.hash = message.label or run.label, message.hash or run.hash
    run.label, run.hash = run.label or message.label, run.hash or message.hash
    if message.hash and run.hash == message.hash and run.hash_rank is None:
        run.hash_rank = run.sessions[session].rank
    return [*out, SetGraph(run.svg, run.graph, run.label, run.hash), PublishRun()]


def _compare_hash(run: Run, session: bytes, message: messages.SetGraph, now: Moment) -> list[Instruction]:
    """Ranks that train different models are one warning, whose count says how many differ.

    The rank that named the run's hash may name another one: it has watched a second model.
    """
    known = run.sessions[session]
    rank = run.ranks.get(known.rank) if known.rank is not None else None
    if not message.hash or not run.hash or message.hash == run.hash or rank is None or rank.rank == run.hash_rank:
        return []
    first = next((e for e in run.events if e.active and e.kind == "hash mismatch"), None)
    path = first.path if first is not None else path_of(rank)
    text = (
        f"{label_of(rank)} trains another model: its structure is {message.hash[:8]}, the run's is {run.hash[:8]}; "
        "look whether both are built from the same configuration"
        if first is None
        else first.text
    )
    return raise_event(run, now, "hash mismatch", text, severity="warn", path=path, active=True)


def take_hardware(run: Run, session: bytes, message: messages.SetHardware) -> list[Instruction]:
    """Keep a rank's hardware and rebuild the run's line; a rank outside the world is ignored."""
    known = run.sessions[session]
    rank = run.ranks.get(known.rank) if known.rank is not None else None
    if rank is None or rank.generation != known.generation:
        return []
    rank.cpu_text, rank.gpu_text = message.cpu[:MAX_NAME], message.gpu[:MAX_NAME] if message.gpu else None
    run.hardware = hardware_line(run)
    return [SetHardware(run.hardware), PublishRun()]


def hardware_line(run: Run) -> str:
    """`host: <cpu> | gr=N lr=M: <gpu> | … | other: <cpu> | …` in topology order."""
    reported: dict[str, list[str]] = {}
    for rank in ranks_in_order(run):
        if rank.host is None or not rank.cpu_text:
            continue
        parts = reported.setdefault(rank.host, [f"{rank.host}: {rank.cpu_text}"])
        if rank.gpu_text:
            parts.append(f"gr={rank.rank} lr={rank.local_rank}: {rank.gpu_text}")
    return " | ".join(part for host in hosts_in_order(run) for part in reported.get(host.name, ()))
