"""The drawn graph: everything in its place, nothing hostile in it, bounded whatever the model is."""

from __future__ import annotations

import itertools
import random
import re
import time
from xml.etree import ElementTree as ET

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.run.play import graph
from trackside.sinks.picture import draw
from trackside.sinks.picture.frontier import MOST_BOXES, choose
from trackside.sinks.picture.layers import BOX_HEIGHT, BOX_WIDTH, arrange
from trackside.sinks.svg import clean_svg
from trackside.wire.documents import GraphDocument, GraphEdge, GraphNode, GraphParameters, TensorSpec

SPEC = TensorSpec(shape=[4, 8], dtype="float32")


def made(parents: list[int | None], edges: set[tuple[int, int]], *, recorded: bool = True) -> GraphDocument:
    """A graph whose modules ran in the order of their places; containers with children did not compute."""
    nodes = [
        GraphNode(id=n, name=f"m{n}" if n else "", type="Linear", parent=p, calls=1, order=n, outputs=[SPEC])
        for n, p in enumerate(parents)
    ]
    return GraphDocument(
        label="Net",
        hash="ab" * 32,
        parameters=GraphParameters(total=1_250_000, trainable=1_000_000, frozen=250_000, shared=3),
        recorded=recorded,
        nodes=nodes,
        edges=[GraphEdge(source=s, target=t, tensor=SPEC) for s, t in sorted(edges)],
    )


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(svg).iter() if element.tag.endswith("}text")]


def test_a_recorded_graph_is_layered_along_its_flow() -> None:
    document = made([None, 0, 0, 0, 0], {(1, 2), (2, 3), (1, 3), (3, 4)})
    scene = choose(document)
    places = arrange(scene)
    heights = {box.node.id: y for box, (_, y) in zip(scene.boxes, places.corners, strict=True)}
    assert heights[1] < heights[2] < heights[3] < heights[4]
    assert len(places.bends[0, 2]) == 2, "the flow that skips a layer is bent round it"
    assert {"Net · 1.25M parameters", "m1", "m4"} <= set(texts(draw(document)))


def test_boxes_never_overlap_and_lie_inside() -> None:
    chance = random.Random(0)
    for size in (2, 10, 60, 118):
        edges = {(s, t) for s, t in itertools.combinations(range(1, size), 2) if chance.random() < 2 / size}
        document = made([None] + [0] * (size - 1), edges or {(1, 2)} if size > 2 else set())
        places = arrange(choose(document))
        corners = places.corners
        for x, y in corners:
            assert 0 <= x <= places.width - BOX_WIDTH
            assert 0 <= y <= places.height - BOX_HEIGHT
        for (x1, y1), (x2, y2) in itertools.combinations(corners, 2):
            assert abs(x1 - x2) >= BOX_WIDTH or abs(y1 - y2) >= BOX_HEIGHT


def test_a_containers_own_result_stands_below_its_children() -> None:
    # 1 is a block of 2 and 3 with a sum of its own; 4 takes the sum
    document = made([None, 0, 1, 1, 0], {(2, 3), (3, 1), (2, 1), (1, 4)})
    scene = choose(document)
    places = arrange(scene)
    heights = {box.node.id: y for box, (_, y) in zip(scene.boxes, places.corners, strict=True)}
    assert heights[2] < heights[3] < heights[1] < heights[4]


def test_a_bare_tree_is_indented_and_says_why() -> None:
    document = msgspec.structs.replace(made([None, 0, 1, 1, 0], set(), recorded=False), note="No pass yet.")
    scene = choose(document)
    assert [(box.node.id, box.depth) for box in scene.boxes] == [(0, 0), (1, 1), (2, 2), (3, 2), (4, 1)]
    assert "No pass yet." in texts(draw(document))


def test_a_huge_graph_is_folded_and_drawn_in_bounded_size() -> None:
    parents: list[int | None] = [None]
    for _ in range(20):
        stage = len(parents)
        parents.append(0)
        parents += [stage] * 200
    size = len(parents)
    leaves = [n for n in range(size) if n % 201 != 1 and n]
    document = made(parents, set(itertools.pairwise(leaves)))
    scene = choose(document)
    assert len(scene.boxes) <= MOST_BOXES
    assert sum(1 + box.folded for box in scene.boxes) == size - 1
    began = time.process_time()
    svg = draw(document)
    assert len(svg) < 300_000
    assert time.process_time() - began < 20
    assert any("+200 inside" in line for line in texts(svg))


def test_times_are_written_and_the_slowest_is_marked() -> None:
    document = made([None, 0, 0], {(1, 2)})
    nodes = [
        document.nodes[0],
        msgspec.structs.replace(document.nodes[1], forward_seconds=0.001, backward_seconds=0.002),
        msgspec.structs.replace(document.nodes[2], forward_seconds=0.0003),
    ]
    document = msgspec.structs.replace(document, nodes=nodes, passes=4, timed_rank=2)
    svg = draw(document)
    assert {"3 ms", "300 µs"} <= set(texts(svg))
    assert any("host time of rank 2, mean of 4 passes" in line for line in texts(svg))
    widths = [float(width) for width in re.findall(r'width="([\d.]+)" height="3"', svg)]
    assert widths[0] > 9 * widths[1]


def test_modules_that_did_not_run_are_counted_and_left_out() -> None:
    document = made([None, 0, 0, 0], {(1, 2)})
    nodes = [*document.nodes[:3], msgspec.structs.replace(document.nodes[3], calls=0, order=None)]
    svg = draw(msgspec.structs.replace(document, nodes=nodes))
    assert "m3" not in texts(svg)
    assert any("1 modules did not run" in line for line in texts(svg))


HOSTILE = '<script>alert(1)</script>"\'&]]>\x00\x1b[31m\u202e</text><image href="http://x"/>'


@pytest.mark.parametrize("recorded", [True, False])
def test_d83_names_are_text_and_nothing_else(recorded: bool) -> None:
    document = graph(HOSTILE, recorded=recorded, note=HOSTILE)
    nodes = [msgspec.structs.replace(node, name=HOSTILE, type=HOSTILE) for node in document.nodes]
    svg = draw(msgspec.structs.replace(document, nodes=nodes, hash=HOSTILE))
    root = ET.fromstring(svg)
    assert {element.tag.rpartition("}")[2] for element in root.iter()} <= {"svg", "g", "title", "text", "rect", "path"}
    assert not any(name.startswith("on") or "href" in name for element in root.iter() for name in element.attrib)
    cleaned = clean_svg(svg)
    assert cleaned is not None
    assert len(list(ET.fromstring(cleaned).iter())) == len(list(root.iter())), "our own drawing passes our own filter"


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_graph_is_drawn(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 40))
    parents: list[int | None] = [None] + [data.draw(st.integers(0, n - 1)) for n in range(1, size)]
    edge = st.tuples(st.integers(0, size - 1), st.integers(0, size - 1))
    document = made(parents, data.draw(st.sets(edge, max_size=80)), recorded=data.draw(st.booleans()))
    nodes = [
        msgspec.structs.replace(
            node,
            calls=data.draw(st.sampled_from([None, 0, 1, 3])),
            order=data.draw(st.none() | st.integers(0, size)),
            hidden=data.draw(st.integers(0, 5)),
            name=data.draw(st.text(max_size=40)),
        )
        for node in document.nodes
    ]
    cleaned = clean_svg(draw(msgspec.structs.replace(document, nodes=nodes)))
    assert cleaned is not None
    ET.fromstring(cleaned)
