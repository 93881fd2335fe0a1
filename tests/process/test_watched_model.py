"""Real ranks watch a real model: one structure, one recorded graph, the times of one rank, in page, folder and report.

In the compiled job rank 0 alone watches: a collective, or a wait for another rank, would hang it.
"""

from __future__ import annotations

import json
import re

import pytest

from tests.process.job import Job


@pytest.mark.parametrize("how", ["ddp", *(pytest.param(how, marks=pytest.mark.long) for how in ("fsdp", "compiled"))])
def test_d35_d87_wrapped_models_are_one_structure_on_all_ranks(how: str, scratch, leak_check) -> None:
    job = Job.run("watched.py", scratch, how)
    try:
        assert job.wait(180) == 0, job.stderr
    finally:
        job.close()
    folder = job.folder()
    graph = json.loads((folder / "graph.json").read_text())
    document = job.document()
    assert (graph["label"], document["label"], document["hash"]) == ("Net", "Net", graph["hash"])
    assert [
        event for event in job.events() if event["kind"] in ("hash mismatch", "graph refused", "monitor fault")
    ] == []
    assert document["metadata"]["parameters"]["total"] == graph["parameters"]["total"] == 28_498
    names = [node["name"] for node in graph["nodes"]]
    assert names[:4] == ["", "embed", "blocks", "blocks.0"]
    svg = (folder / "graph.svg").read_text()
    assert "blocks.0.up" in svg
    baked = re.search(r'id="trackside-data">(.*?)</script>', (folder / "report.html").read_text(), re.DOTALL)
    assert baked is not None
    assert json.loads(baked[1])["graph"]["hash"] == graph["hash"]
    assert graph["recorded"] is (how != "compiled")
    if how == "compiled":
        assert "compiled" in graph["note"]
        return
    flows = {(names[edge["source"]], names[edge["target"]]) for edge in graph["edges"]}
    assert {("embed", "blocks.0.norm"), ("blocks.0.up", "blocks.0.down"), ("blocks.0", "blocks.1.norm")} <= flows
    assert graph["note"] is None
    assert (graph["passes"] > 0, graph["timed_rank"] in (0, 1), graph["on_device"]) == (True, True, False)
    timed = {name: node for name, node in zip(names, graph["nodes"], strict=True) if node["calls"]}
    assert all(node["forward_seconds"] is not None for node in timed.values())
    assert timed["blocks.1.up"]["backward_seconds"] > 0
    assert timed[""]["forward_seconds"] >= timed["blocks.1"]["forward_seconds"]
