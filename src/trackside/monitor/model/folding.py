"""Which modules of a huge model have a node of their own, and who stands for the others."""

from collections import deque
from dataclasses import dataclass

MOST_NODES = 2_000


@dataclass(frozen=True, slots=True)
class Folding:
    """Node ids are places in `shown`. It depends on the structure only, so it is the same on every rank."""

    shown: list[int]
    """Places in the tree, ascending."""
    parent: list[int | None]
    """By node."""
    end: list[int]
    """By node: the first node after those below it."""
    hidden: list[int]
    """By node: modules below it that have none."""
    stands_for: list[int]
    """By place in the tree: the node that it is or lies in."""


def fold(parents: list[int | None], most: int = MOST_NODES) -> Folding:
    """Show whole families from the top down while there is room, then as much of the first that was left out."""
    children: list[list[int]] = [[] for _ in parents]
    for at, parent in enumerate(parents):
        if parent is not None:
            children[parent].append(at)
    shown, left = {0}, most - 1
    skipped: list[int] = []
    queue = deque([0])
    while queue:
        at = queue.popleft()
        if len(children[at]) > left:
            skipped.append(at)
            continue
        left -= len(children[at])
        shown.update(children[at])
        queue.extend(children[at])
    for at in skipped[:1]:
        shown.update(children[at][:left])
    return _placed(parents, sorted(shown))


def _placed(parents: list[int | None], shown: list[int]) -> Folding:
    node = {at: number for number, at in enumerate(shown)}
    stands_for: list[int] = []
    for at, parent in enumerate(parents):
        stands_for.append(node[at] if at in node else stands_for[parent or 0])
    hidden = [0] * len(shown)
    for at, number in enumerate(stands_for):
        hidden[number] += at not in node
    up = [None if (parent := parents[at]) is None else node[parent] for at in shown]
    end = list(range(1, len(shown) + 1))
    for number in range(len(shown) - 1, 0, -1):
        above = up[number]
        if above is not None:
            end[above] = max(end[above], end[number])
    return Folding(shown=shown, parent=up, end=end, hidden=hidden, stands_for=stands_for)
