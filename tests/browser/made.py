"""Documents of a made-up run for the page: a model, who is behind, what every rank's steps took; and a report of them."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from trackside.server.built import read_files
from trackside.sinks.report import inline_page
from trackside.wire import baked as wire_baked
from trackside.wire import documents

STARTED = 1_700_000_000.0
VIEWS = [
    (375, "dark"),
    (1440, "light"),
    (3840, "dark"),
    *(pytest.param(*view, marks=pytest.mark.long) for view in ((375, "light"), (1440, "dark"), (3840, "light"))),
]
"""Width of a window and its theme."""
HOSTILE = '<img src=x onerror="window.hit=1">'


def diagnosis(**changes: Any) -> documents.Diagnosis:
    """Rank 1 waits for its data."""
    blamed = documents.Verdict(
        id=1,
        kind="data starvation",
        text="rank 1 waits for data 180 ms a step, its peers 20 ms; 2.5 times its peers' own time since step 120",
        claim="rank 1 waits for data; 2.5 times its peers' own time",
        path="root/node-b/rank1",
        rank=1,
        phase="data",
        module="body.1.fc",
        since_step=120,
        own_seconds=0.18,
        peer_seconds=0.02,
        gain_seconds=0.16,
        steps=40,
    )
    over = documents.Verdict(
        id=0, kind="slow step", text="a step of 3 s", path="root", active=False, since_step=9, until_step=10
    )
    fields: dict[str, Any] = {
        "steps": 40,
        "step_seconds": 0.3,
        "bound": "input",
        "bound_text": "Data takes 53 % of a step.",
        "phases": {"data": 0.02, "forward": 0.05, "backward": 0.07, "collective": 0.16},
        "gain_ratio": 0.53,
        "verdicts": [blamed, over],
        "balance": [documents.SharePart(rank=1, share=0.5, suggested=0.3)],
    }
    return documents.Diagnosis(**{**fields, **changes})


def ranks(count: int = 2, slow: int | None = 1) -> list[documents.RankEntry]:
    hosts = ("node-a", "node-b")
    return [rank(number, hosts[number % 2], is_slow=number == slow) for number in range(count)]


def rank(number: int, host: str, *, is_slow: bool) -> documents.RankEntry:
    data = 0.18 if is_slow else 0.02
    phases = {"data": data, "forward": 0.05, "backward": 0.07, "augment": 0.01, "collective": 0.2 - data}
    return documents.RankEntry(
        rank=number,
        local_rank=0,
        host=host,
        path=f"root/{host}/rank{number}",
        label=f"rank {number}",
        generation=0,
        state="finished",
        step=400,
        epoch=None,
        phase=None,
        age_seconds=None,
        exit_code=0,
        signal=None,
        samples=1000,
        throughput=100.0,
        batch_share=0.5,
        clock_offset_seconds=0.0021234,
        gpu=None,
        cpu=None,
        memory=None,
        step_seconds=0.33,
        own_step_seconds=0.13 + data,
        phases=phases,
        verdict="data starvation" if is_slow else None,
        suggested_share=0.3 if is_slow else None,
    )


def heat(count: int = 2, slow: int | None = 1, columns: int = 50) -> documents.HeatAnswer:
    """One rank is slow in the second half."""

    def cells(usual: float, more: float) -> list[list[float | None]]:
        return [
            [
                usual + (more if row == slow and column >= columns // 2 else 0.001 * (column % 3))
                for column in range(columns)
            ]
            for row in range(count)
        ]

    return documents.HeatAnswer(
        ranks=list(range(count)),
        step=[8 * (column + 1) for column in range(columns)],
        time=[STARTED + 2.0 * (column + 1) for column in range(columns)],
        own=cells(0.15, 0.16),
        data=cells(0.02, 0.16),
        wall=cells(0.33, 0.0),
    )


def graph(*, timed: bool = True, recorded: bool = True, stages: int = 3) -> documents.GraphDocument:
    """A body of stages, each a linear layer and an activation, and a head that shares the first stage's weight."""
    nodes = [documents.GraphNode(id=0, name="", type="Net", parent=None, order=0)]
    leaves: list[int] = []

    def module(parent: int, name: str, kind: str, parameters: int = 0) -> int:
        full = f"{nodes[parent].name}.{name}".removeprefix(".")
        spec = documents.TensorSpec(shape=[8, 64], dtype="float32")
        node = documents.GraphNode(
            id=len(nodes),
            name=full,
            type=kind,
            parent=parent,
            parameters=parameters,
            trainable=parameters,
            calls=1 if recorded else None,
            order=len(nodes) if recorded else None,
            inputs=[spec] if recorded else [],
            outputs=[spec] if recorded else [],
            forward_seconds=0.001 * len(nodes) if timed else None,
            backward_seconds=0.002 * len(nodes) if timed else None,
        )
        nodes.append(node)
        return node.id

    body = module(0, "body", "Sequential", 4160 * stages)
    for number in range(stages):
        stage = module(body, str(number), "Stage", 4160)
        leaves += [module(stage, "fc", "Linear", 4160), module(stage, "act", HOSTILE)]
    head = module(0, "head", "Linear", 4160)
    nodes[head] = msgspec.structs.replace(nodes[head], shared_with=[leaves[0]])
    edges = [documents.GraphEdge(source=a, target=b) for a, b in zip(leaves, [*leaves[1:], head], strict=True)]
    return documents.GraphDocument(
        label="Net",
        hash="a1b2c3d4",
        parameters=documents.GraphParameters(total=4160 * stages, trainable=4160 * stages, frozen=0, shared=4160),
        recorded=recorded,
        note=None if recorded else "the first pass raised KeyError",
        nodes=nodes,
        edges=edges if recorded else [],
        passes=12 if timed else 0,
        timed_rank=1 if timed else None,
    )


def run_document(**changes: Any) -> documents.RunDocument:
    fields: dict[str, Any] = {
        "id": "made",
        "name": "made",
        "state": "finished",
        "state_detail": None,
        "started_at": STARTED,
        "ended_at": STARTED + 100,
        "elapsed_seconds": 100.0,
        "epoch": None,
        "epochs": None,
        "step": 400,
        "steps": 400,
        "eta_seconds": None,
        "world_size": 2,
        "generation": 0,
        "ranks": documents.RankCounts(finished=2),
        "hosts": ["node-a", "node-b"],
        "label": "Net",
        "hash": "a1b2c3d4",
        "hardware": None,
        "metadata": {"lr": 0.1},
        "warnings": [],
        "version": "0",
        "clock_offset_max": 0.008412345,
    }
    return documents.RunDocument(**{**fields, **changes})


def report(
    folder: Path,
    *,
    diagnosed: documents.Diagnosis | None = None,
    who: list[documents.RankEntry] | None = None,
    heated: documents.HeatAnswer | None = None,
    model: documents.GraphDocument | None = None,
    svg: str | None = None,
    events: list[documents.EventRecord] | None = None,
    **changes: Any,
) -> str:
    """The address of a report with these inside, made of the built page."""
    everyone = ranks() if who is None else who
    steps = list(range(0, 400, 10))
    falling = [2.0 / (1 + step / 100) for step in steps]
    loss = wire_baked.BakedSeries(
        metric="loss",
        path="root",
        step=steps,
        epoch=[None] * len(steps),
        time=[STARTED + step / 4 for step in steps],
        mean=falling,
        min=falling,
        max=falling,
        count=[len(everyone)] * len(steps),
        total_points=len(steps),
        reduction="mean",
    )
    run = run_document(
        diagnosis=diagnosed, has_graph=model is not None, has_svg=svg is not None, world_size=len(everyone),
        **changes,
    )  # fmt: skip
    entry = documents.MetricEntry(name="loss", points=len(steps), first_step=0, last_step=390, last=falling[-1])
    baked = wire_baked.Baked(
        written_at=STARTED + 101,
        run=run,
        ranks=everyone,
        metrics=[entry],
        epochs=[],
        events=events or [],
        resources=[],
        series=[loss],
        graph=model,
        svg=svg,
        heat=heated,
    )
    target = folder / "report.html"
    target.write_bytes(inline_page(read_files(), msgspec.json.encode(baked), "made · Trackside"))
    return target.as_uri()
