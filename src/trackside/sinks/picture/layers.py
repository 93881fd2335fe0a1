"""Where each box goes: layers from the top down along the flow, neighbours near each other, long flows bent round."""

from dataclasses import dataclass, field

from trackside.sinks.picture.frontier import Scene

BOX_WIDTH = 240.0
BOX_HEIGHT = 44.0
GAP_X = 28.0
GAP_Y = 34.0
LANE = 12.0
"""Width of a flow that passes a layer by."""
MARGIN = 24.0
INDENT = 22.0
ROW = 52.0
COLUMNS = 6
"""Boxes side by side; more of one layer go into further rows."""
MOST_LANES = 4_000
SWEEPS = 6


@dataclass(slots=True)
class Arrangement:
    """Left upper corners of boxes, and the points that flows go through, between a box's bottom and another's top."""

    corners: list[tuple[float, float]]
    bends: dict[tuple[int, int], list[tuple[float, float]]] = field(default_factory=dict)
    width: float = 0.0
    height: float = 0.0


@dataclass(slots=True)
class _Item:
    """A box, or a place where a long flow passes."""

    layer: int
    width: float
    above: list[int] = field(default_factory=list)
    below: list[int] = field(default_factory=list)
    middle: float = 0.0


def arrange(scene: Scene) -> Arrangement:
    """Find places for everything in a scene."""
    if scene.is_tree:
        return _rows(scene)
    items = [_Item(layer, BOX_WIDTH) for layer in _layers(scene)]
    chains = _chains(scene, items)
    layers: list[list[int]] = [[] for _ in range(max((item.layer for item in items), default=-1) + 1)]
    for at, item in enumerate(items):
        layers[item.layer].append(at)
    _order(items, layers)
    _settle(items, layers)
    return _placed(len(scene.boxes), items, chains)


def _rows(scene: Scene) -> Arrangement:
    corners = [(MARGIN + INDENT * box.depth, MARGIN + ROW * at) for at, box in enumerate(scene.boxes)]
    width = max((x for x, _ in corners), default=0.0) + BOX_WIDTH + MARGIN
    return Arrangement(corners, width=width, height=MARGIN * 2 + ROW * len(corners))


def _layers(scene: Scene) -> list[int]:
    """The longest way from a beginning, flows back in time left out; never more boxes side by side than fit."""
    size = len(scene.boxes)
    before: list[list[int]] = [[] for _ in range(size)]
    after: list[list[int]] = [[] for _ in range(size)]
    for source, target in scene.flows:
        if source < target:
            before[target].append(source)
            after[source].append(target)
    layers, used = [0] * size, dict[int, int]()
    for at in range(size):
        alone = layers[at - 1] if at and not after[at] else 0
        layer = max((layers[source] + 1 for source in before[at]), default=alone)
        while used.get(layer, 0) >= COLUMNS:
            layer += 1
        layers[at] = layer
        used[layer] = used.get(layer, 0) + 1
    for at in range(size - 1, -1, -1):
        if not before[at] and after[at]:  # a beginning stands right above what it flows into
            nearest = min(layers[target] for target in after[at]) - 1
            if nearest > layers[at] and used.get(nearest, 0) < COLUMNS:
                used[layers[at]] -= 1
                layers[at] = nearest
                used[nearest] = used.get(nearest, 0) + 1
    filled = {layer: number for number, layer in enumerate(sorted(set(layers)))}
    return [filled[layer] for layer in layers]


def _chains(scene: Scene, items: list[_Item]) -> dict[tuple[int, int], list[int]]:
    """Lanes for flows that pass layers by; flows back in time and those beyond the bound have none."""
    chains: dict[tuple[int, int], list[int]] = {}
    for source, target in scene.flows:
        chain: list[int] = []
        first, last = items[source].layer + 1, items[target].layer
        if source < target and first <= last and len(items) + last - first <= MOST_LANES + len(scene.boxes):
            above = source
            for layer in range(first, last):
                lane = len(items)
                items.append(_Item(layer, LANE, above=[above]))
                items[above].below.append(lane)
                chain.append(lane)
                above = lane
            items[above].below.append(target)
            items[target].above.append(above)
        chains[source, target] = chain
    return chains


def _order(items: list[_Item], layers: list[list[int]]) -> None:
    """Bring neighbours of joined items near each other, from above and from below in turn."""
    rank = {at: float(number) for layer in layers for number, at in enumerate(layer)}
    for sweep in range(SWEEPS):
        is_down = sweep % 2 == 0
        for layer in layers if is_down else reversed(layers):
            keys = {}
            for at in layer:
                joined = items[at].above if is_down else items[at].below
                keys[at] = sum(rank[other] for other in joined) / len(joined) if joined else rank[at]
            layer.sort(key=lambda at, keys=keys: keys[at])  # type: ignore[misc]
            for number, at in enumerate(layer):
                rank[at] = float(number)


def _settle(items: list[_Item], layers: list[list[int]]) -> None:
    """Give every item a middle: near what it is joined to, without touching its neighbours."""
    for layer in layers:
        left = 0.0
        for at in layer:
            items[at].middle = left + items[at].width / 2
            left += items[at].width + GAP_X
        shift = (left - GAP_X) / 2
        for at in layer:
            items[at].middle -= shift
    for sweep in range(SWEEPS):
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            wanted = []
            for at in layer:
                joined = items[at].above + items[at].below
                middles = sorted(items[other].middle for other in joined)
                wanted.append(middles[len(middles) // 2] if middles else items[at].middle)
            _spread(items, layer, wanted)


def _spread(items: list[_Item], layer: list[int], wanted: list[float]) -> None:
    """Keep the order and the gaps, and stay as near to what is wanted as one pass from each side allows."""
    right = list(wanted)
    for number in range(1, len(layer)):
        right[number] = max(right[number], right[number - 1] + _distance(items, layer, number))
    left = list(wanted)
    for number in range(len(layer) - 2, -1, -1):
        left[number] = min(left[number], left[number + 1] - _distance(items, layer, number + 1))
    for number, at in enumerate(layer):
        items[at].middle = (left[number] + right[number]) / 2


def _distance(items: list[_Item], layer: list[int], number: int) -> float:
    return (items[layer[number - 1]].width + items[layer[number]].width) / 2 + GAP_X


def _placed(boxes: int, items: list[_Item], chains: dict[tuple[int, int], list[int]]) -> Arrangement:
    left = min((item.middle - item.width / 2 for item in items), default=0.0) - MARGIN
    right = max((item.middle + item.width / 2 for item in items), default=0.0) + MARGIN
    step = BOX_HEIGHT + GAP_Y
    corners = [(item.middle - BOX_WIDTH / 2 - left, MARGIN + item.layer * step) for item in items[:boxes]]
    bends = {
        flow: [
            point
            for lane in chain
            for point in (
                (items[lane].middle - left, MARGIN + items[lane].layer * step),
                (items[lane].middle - left, MARGIN + items[lane].layer * step + BOX_HEIGHT),
            )
        ]
        for flow, chain in chains.items()
    }
    height = MARGIN * 2 + step * (max((item.layer for item in items), default=0) + 1) - GAP_Y
    return Arrangement(corners, bends, right - left, height)
