"""Which modules a picture shows: few enough to be read, with those below them folded in."""

from collections import deque
from dataclasses import dataclass, field

from trackside.wire.documents import GraphDocument, GraphNode, TensorSpec

MOST_BOXES = 120


@dataclass(slots=True)
class Box:
    """One box: a module, or a container with everything below it."""

    node: GraphNode
    depth: int
    order: float
    """Place in the order of execution."""
    folded: int = 0
    """Modules that it stands for besides itself."""


@dataclass(slots=True)
class Scene:
    """What is drawn: boxes in order of execution and the flows between them, by place."""

    boxes: list[Box] = field(default_factory=list)
    flows: dict[tuple[int, int], TensorSpec | None] = field(default_factory=dict)
    is_tree: bool = False
    idle: int = 0
    """Modules that did not run."""


def choose(graph: GraphDocument, most: int = MOST_BOXES) -> Scene:
    """Open containers from the top down while there is room."""
    children: list[list[int]] = [[] for _ in graph.nodes]
    for node in graph.nodes[1:]:
        if node.parent is not None:
            children[node.parent].append(node.id)
    if not graph.recorded or not graph.edges:
        return _tree(graph, children, most)
    opened = _opened(graph, children, most)
    return _flow(graph, children, opened)


def _tree(graph: GraphDocument, children: list[list[int]], most: int) -> Scene:
    scene = Scene(is_tree=True)
    opened = _opened(graph, children, most)
    below = _sizes(graph, children)
    stack = [(0, 0)]
    while stack:
        at, depth = stack.pop()
        is_open = at in opened
        folded = 0 if is_open else below[at]
        scene.boxes.append(Box(graph.nodes[at], depth, len(scene.boxes), folded + graph.nodes[at].hidden))
        if is_open:
            stack += [(child, depth + 1) for child in reversed(children[at])]
    return scene


def _opened(graph: GraphDocument, children: list[list[int]], most: int) -> set[int]:
    """Containers whose children are shown one by one; those that repeat most are opened last, since they are deepest."""
    opened: set[int] = set()
    shown = 1
    queue = deque([0])
    while queue:
        at = queue.popleft()
        inside = [child for child in children[at] if _counts(graph, children, child)]
        if not inside or shown + len(inside) > most:
            continue
        shown += len(inside)
        opened.add(at)
        queue.extend(inside)
    return opened


def _counts(graph: GraphDocument, children: list[list[int]], at: int) -> bool:
    """Whether a module takes room: it ran, or may have, or holds some that did."""
    return graph.nodes[at].calls != 0 or bool(children[at]) or not graph.recorded


def _flow(graph: GraphDocument, children: list[list[int]], opened: set[int]) -> Scene:
    below, last = _sizes(graph, children), _last_orders(graph, children)
    ends = {edge.source for edge in graph.edges} | {edge.target for edge in graph.edges}
    place: dict[int, int] = {}
    shows: list[int] = []
    scene = Scene()
    boxes: list[tuple[float, Box]] = []
    for node in graph.nodes:
        parent = node.parent
        shows.append(node.id if parent is None or parent in opened else shows[parent])
        if shows[node.id] != node.id:
            continue
        if node.id in opened:
            if node.id in ends and node.id:  # what it computes itself, after its children
                boxes.append((last[node.id] + 0.5, Box(node, 0, last[node.id] + 0.5)))
        elif node.calls == 0 and last[node.id] < 0:
            scene.idle += 1 + below[node.id]
        else:
            order = float(last[node.id] if node.order is None else node.order)
            boxes.append((order, Box(node, 0, order, below[node.id] + node.hidden)))
    for _, box in sorted(boxes, key=lambda pair: pair[0]):
        place[box.node.id] = len(scene.boxes)
        scene.boxes.append(box)
    for edge in graph.edges:
        source, target = place.get(shows[edge.source]), place.get(shows[edge.target])
        if source is not None and target is not None and source != target:
            scene.flows.setdefault((source, target), edge.tensor)
    return scene


def _sizes(graph: GraphDocument, children: list[list[int]]) -> list[int]:
    sizes = [0] * len(children)
    for at in range(len(children) - 1, -1, -1):
        sizes[at] = sum(1 + sizes[child] + graph.nodes[child].hidden for child in children[at])
    return sizes


def _last_orders(graph: GraphDocument, children: list[list[int]]) -> list[int]:
    """The last place in the order of execution of a module and those below it; -1: none of them ran."""
    orders = [-1 if node.order is None else node.order for node in graph.nodes]
    for at in range(len(children) - 1, -1, -1):
        orders[at] = max([orders[at], *(orders[child] for child in children[at])])
    return orders
