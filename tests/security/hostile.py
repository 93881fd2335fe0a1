"""Texts that would do harm if anything took them for more than text, and a run that holds them everywhere."""

from __future__ import annotations

import json
import time

import msgspec

from tests.browser.fleet import Fleet, wait_for
from trackside.wire import documents, messages

CANARY = "window.__owned=(window.__owned||0)+1"
TEXTS = {
    "script": f"<script>{CANARY}</script>",
    "end of script": f"</script><script>{CANARY}</script><!--",
    "comment": f"<!--<script>{CANARY}",
    "image": f'<img src=x onerror="{CANARY}">',
    "attribute": f'" onmouseover="{CANARY}" autofocus onfocus="{CANARY}" x="',
    "quote": f"'-({CANARY})-'",
    "svg": f'<svg onload="{CANARY}"><animate onbegin="{CANARY}"/></svg>',
    "frame": f'<iframe srcdoc="<script>parent.{CANARY}</script>"></iframe>',
    "address": f"javascript:{CANARY}",
    "outside": '<link rel=stylesheet href="//outside.invalid/x.css"><img src="//outside.invalid/x.png">',
    "style": "</style><style>*{background:url(//outside.invalid/x)}",
    "template": "${7*7}{{7*7}}#{7*7}<%= 7*7 %>",
    "prototype": "__proto__",
    "direction": "\u202egnp.exe\u202c\u2066x\u2069\u200f",
    "terminal": "\x1b]0;owned\x07\x1b[2J\x1b[31m\r\x9b1m",
    "formula": '=HYPERLINK("http://outside.invalid","x")',
    "path": "../../../../etc/passwd",
    "separator": "\u2028\u2029\u0085line\nbreak",
}
DRAWING = (
    '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 40 40" '
    f'onload="{CANARY}"><script>{CANARY}</script><foreignObject><body onload="{CANARY}"><iframe src="//outside.invalid/"/>'
    f'</body></foreignObject><a xlink:href="javascript:{CANARY}"><text y="20">drawn</text></a>'
    f'<use href="//outside.invalid/x.svg#a"/><image href="//outside.invalid/x.png"/><animate attributeName="href" '
    f'to="javascript:{CANARY}"/><style>@import url(//outside.invalid/x.css);</style>'
    '<rect width="4" height="4" style="fill:url(//outside.invalid/x#a)"/></svg>'
)


def fill(fleet: Fleet) -> None:
    """Put every text into everything that a rank can name, and wait until the page's answers have it."""
    texts = list(TEXTS.values())
    fleet.log({"loss": [1.0, 0.5, float("nan")], **{text: [1.0, 2.0, 3.0] for text in texts}})
    fleet.send(0, messages.SetMetadata(text=json.dumps({text: {text: [text, texts]} for text in texts})))
    fleet.send(0, messages.SetGraph(svg=DRAWING, graph=_graph(texts), label=TEXTS["image"], hash=TEXTS["attribute"]))
    fleet.send(0, messages.SetHardware(cpu=TEXTS["image"], gpu=TEXTS["script"]))
    fleet.send(0, messages.SetPlan(name=TEXTS["end of script"], project=TEXTS["image"], epochs=3))
    for rank in (0, 1):
        report = messages.EpochReport(epoch=0, metrics=dict.fromkeys(texts, 0.5), batches=3, seconds=1.0)
        fleet.send(rank, report)
    for text in texts:
        fleet.send(0, messages.UserEvent(time=time.time(), title=text, text=text, level="critical"))
        fleet.send(1, messages.Notice(time=time.time(), about=text, text=text))
    gpu = messages.GpuSample(index=0, uuid=TEXTS["image"], name=TEXTS["script"], util=0.5, clock_limits=texts)
    sample = messages.ResourceSample(
        time=time.time(),
        interval_seconds=1.0,
        host=messages.HostSample(cpu=0.5, cpu_limit_source=TEXTS["image"], gpus=[gpu]),
        rank=messages.RankSample(cpu=0.5, gpu=gpu),
    )
    fleet.send(0, sample)
    fleet.totals = {0: {"phase": TEXTS["image"], "step": 2, "phases": dict.fromkeys(texts, 1.0)}}
    fleet.steps(0, 40, {1: 0.1})
    wait_for(lambda: len(fleet.read("api/v1/metrics")) > len(texts), "every metric")
    wait_for(lambda: fleet.read("api/v1/epochs") and fleet.read("api/v1/run")["has_graph"], "epochs and graph")
    wait_for(lambda: fleet.read("api/v1/run")["has_svg"], "the drawing")


def _graph(texts: list[str]) -> msgspec.Raw:
    nodes = [documents.GraphNode(id=0, name="", type=TEXTS["script"], parent=None, order=0)]
    nodes += [
        documents.GraphNode(id=number, name=text, type=text, parent=0, parameters=1, order=number)
        for number, text in enumerate(texts, 1)
    ]
    edges = [documents.GraphEdge(source=a, target=a + 1) for a in range(1, len(texts))]
    graph = documents.GraphDocument(
        label=TEXTS["image"],
        hash="a1",
        parameters=documents.GraphParameters(total=9, trainable=9, frozen=0, shared=0),
        recorded=True,
        note=TEXTS["image"],
        nodes=nodes,
        edges=edges,
    )
    return msgspec.Raw(msgspec.msgpack.encode(graph))
