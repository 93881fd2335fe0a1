"""A model as nodes, without holding any of it: what the page gets at once, and with a recorded pass later."""

import weakref
from dataclasses import dataclass

import msgspec
from torch import nn

from trackside.monitor.model.counts import Counts, count
from trackside.monitor.model.folding import Folding, fold
from trackside.monitor.model.recording import Recording
from trackside.monitor.model.structure import structural_hash
from trackside.monitor.model.tree import FUSED, ModelTree, kind_of, walk
from trackside.wire.documents import GraphDocument, GraphEdge, GraphNode, GraphParameters

MOST_NAME = 300
_MOST_SHARERS = 64


@dataclass(frozen=True, slots=True)
class Outline:
    """Structure of one model at one moment."""

    label: str
    hash: str | None
    nodes: list[GraphNode]
    parameters: GraphParameters
    folding: Folding
    hooked: list["weakref.ref[nn.Module] | None"]
    """By node: what hooks may hang on."""
    watched: dict[str, int]
    is_lazy: bool
    is_compiled: bool
    """The model as a whole: none of its modules runs by itself."""
    has_compiled: bool
    is_fused: bool
    """The model itself is of a class that a hook would change."""

    @property
    def leaves_out(self) -> bool:
        """Whether some modules have no node of their own."""
        return any(self.folding.hidden)

    def document(
        self, note: str | None, recording: Recording | None = None, asked: frozenset[int] = frozenset()
    ) -> bytes:
        """The graph as MessagePack.

        Args:
            note: what is missing, for people.
            recording: of a pass; None: the tree alone.
            asked: nodes that hooks hung on in it; what the others did is not known.
        """
        nodes = self.nodes if recording is None else [_with_pass(node, recording, asked) for node in self.nodes]
        edges = [] if recording is None else sorted(recording.edges.items())
        graph = GraphDocument(
            label=self.label,
            hash=self.hash,
            parameters=self.parameters,
            recorded=recording is not None,
            note=note,
            nodes=nodes,
            edges=[
                GraphEdge(source=source, target=target, tensor=flowed.tensor, count=flowed.count)
                for (source, target), flowed in edges
            ],
        )
        return msgspec.msgpack.encode(graph)


def outline(model: nn.Module, known_hash: str | None = None) -> Outline:
    """Look at a model; `known_hash` stays what it is when the model was wrapped or grew an adapter meanwhile."""
    tree = walk(model)
    counts = count(tree)
    folding = fold([branch.parent for branch in tree.branches])
    total, trainable = counts.parameters[0], counts.trainable[0]
    return Outline(
        label=kind_of(tree.root).__name__[:MOST_NAME],
        hash=known_hash or structural_hash(tree),
        nodes=_nodes(tree, counts, folding),
        parameters=GraphParameters(total=total, trainable=trainable, frozen=total - trainable, shared=counts.shared),
        folding=folding,
        hooked=[_reference(tree.branches[at].hooked) for at in folding.shown],
        watched=counts.watched,
        is_lazy=counts.lazy > 0,
        is_compiled=tree.branches[0].hooked is not tree.root,
        has_compiled=tree.has_compiled,
        is_fused=isinstance(tree.root, FUSED),
    )


def _reference(module: nn.Module | None) -> "weakref.ref[nn.Module] | None":
    return None if module is None else weakref.ref(module)


def _nodes(tree: ModelTree, counts: Counts, folding: Folding) -> list[GraphNode]:
    sharers = _sharers(counts, folding)
    return [
        GraphNode(
            id=number,
            name=_tidy(tree.branches[at].name),
            type=_tidy(kind_of(tree.branches[at].module).__name__),
            parent=folding.parent[number],
            parameters=counts.parameters[at],
            trainable=counts.trainable[at],
            buffers=counts.buffers[at],
            shared_with=sorted(sharers.get(number, set()) - {number})[:_MOST_SHARERS],
            hidden=folding.hidden[number],
        )
        for number, at in enumerate(folding.shown)
    ]


def _sharers(counts: Counts, folding: Folding) -> dict[int, set[int]]:
    found: dict[int, set[int]] = {}
    for places in counts.holders:
        nodes = {folding.stands_for[at] for at in places}
        for node in nodes:
            found.setdefault(node, set()).update(nodes)
    return found


def _tidy(name: str) -> str:
    return name[:MOST_NAME].encode("utf-8", "replace").decode("utf-8")


def _with_pass(node: GraphNode, recording: Recording, asked: frozenset[int]) -> GraphNode:
    ran = recording.ran.get(node.id)
    if ran is None:
        return msgspec.structs.replace(node, calls=0) if node.id in asked else node
    return msgspec.structs.replace(
        node, calls=ran.calls, order=ran.order, inputs=ran.inputs, outputs=ran.outputs, memory=ran.memory
    )
