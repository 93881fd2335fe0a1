"""`graph.json` and `graph.svg` kept current."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from tests.unit.run.play import graph
from trackside.controller.model import PAUSE_S, ModelFiles
from trackside.wire.documents import GraphDocument


class Folder:
    """What was written and shown, and the graph as it is now."""

    def __init__(self) -> None:
        self.graph: GraphDocument | None = None
        self.graphs: list[GraphDocument] = []
        self.pictures: list[str] = []
        self.shown: list[str] = []
        self.files = ModelFiles(
            read=lambda: self.graph,
            write_graph=lambda content: self.graphs.append(msgspec.json.decode(content, type=GraphDocument)),
            write_picture=lambda content: self.pictures.append(content.decode()),
            show=self.shown.append,
        )


@pytest.fixture
def folder() -> Folder:
    return Folder()


def test_a_new_graph_is_written_and_drawn_at_once(folder: Folder) -> None:
    async def run() -> None:
        folder.files.set(None)
        assert folder.graphs == []
        folder.graph = graph(recorded=True)
        folder.files.set(None)
        await folder.files.settle()
        folder.files.set(None)
        await folder.files.settle()

    asyncio.run(run())
    assert folder.graphs == [graph(recorded=True)]
    assert folder.pictures == folder.shown
    assert len(folder.shown) == 1
    assert folder.shown[0].startswith("<svg")
    assert ">a</text>" in folder.shown[0]


def test_new_figures_are_written_now_and_then_and_at_the_end(folder: Folder) -> None:
    async def run() -> None:
        folder.graph = graph(recorded=True)
        folder.files.write_if_due(0.0)
        for tick in range(1, 10):
            folder.graph = graph(recorded=True, passes=tick)
            folder.files.write_if_due(tick * PAUSE_S / 4)
        folder.files.write_if_due(100.0)
        folder.files.write_if_due(200.0)
        folder.graph = graph(recorded=True, passes=99)
        await folder.files.settle()

    asyncio.run(run())
    assert [document.passes for document in folder.graphs] == [0, 4, 8, 9, 99]


def test_the_users_own_picture_is_shown_in_any_order(folder: Folder) -> None:
    async def run() -> None:
        folder.graph = graph(recorded=True)
        folder.files.set(None)
        folder.files.set("<svg><rect/></svg>")
        await folder.files.settle()
        folder.graph = graph(recorded=True, passes=3)
        folder.files.write_now()
        await folder.files.settle()

    asyncio.run(run())
    assert "<rect" in folder.shown[-1]
    assert ">a</text>" not in folder.shown[-1]
    assert len(folder.graphs) == 2
