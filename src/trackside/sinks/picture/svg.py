"""The drawing as text. Every word in it comes from a rank and is escaped; its colours can be read on light and dark."""

import html
import itertools
from collections.abc import Iterator

from trackside.sinks.picture.frontier import Box, Scene
from trackside.sinks.picture.layers import BOX_HEIGHT, BOX_WIDTH, GAP_Y, INDENT, Arrangement
from trackside.wire.documents import GraphDocument, TensorSpec

CARD = "#f5f7fa"
EDGE = "#8592a6"
INK = "#1f2733"
SOFT = "#5a6675"
BESIDE = "#7d8999"
"""Of what stands beside the cards, on whatever background there is."""
HEAT = "#d9601a"
FONT = "ui-sans-serif, system-ui, sans-serif"
HEAD = 52.0
FOOT = 30.0
_NAME = 31
_DETAIL = 42
_SCALES = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "K"))


def write(graph: GraphDocument, scene: Scene, places: Arrangement) -> str:
    """The whole drawing."""
    width, height = max(places.width, BOX_WIDTH + 240), places.height + HEAD + FOOT
    slowest = max((_seconds(box) or 0.0 for box in scene.boxes if box.node.id), default=0.0)
    size = f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
    label = f'role="img" aria-label="{_safe(_title(graph))}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="{FONT}" {label}>',
        f"<title>{_safe(_title(graph))}</title>",
        _text(24, 28, _title(graph), 15, BESIDE, "600"),
        _text(24, 46, _subtitle(graph, scene), 11, BESIDE),
        f'<g transform="translate(0 {HEAD:.0f})">',
        *(_branches(scene, places) if scene.is_tree else _flows(scene, places)),
        *(_card(box, corner, slowest) for box, corner in zip(scene.boxes, places.corners, strict=True)),
        "</g>",
        _text(24, height - 12, graph.note or "", 11, BESIDE),
        "</svg>",
    ]
    return "\n".join(part for part in parts if part)


def _title(graph: GraphDocument) -> str:
    return f"{graph.label or 'Model'} · {_amount(graph.parameters.total)} parameters"


def _subtitle(graph: GraphDocument, scene: Scene) -> str:
    parts = []
    if graph.parameters.frozen:
        parts.append(f"{_amount(graph.parameters.frozen)} frozen")
    if graph.parameters.shared:
        parts.append(f"{_amount(graph.parameters.shared)} shared")
    if graph.passes:
        where = "device" if graph.on_device else "host"
        parts.append(f"{where} time of rank {graph.timed_rank}, mean of {graph.passes} passes")
    if scene.idle:
        parts.append(f"{scene.idle} modules did not run")
    if graph.hash:
        parts.append(f"structure {graph.hash[:12]}")
    return " · ".join(parts)


def _card(box: Box, corner: tuple[float, float], slowest: float) -> str:
    x, y = corner
    node = box.node
    name = node.name or node.type
    details = [node.type] if node.name else []
    if box.folded:
        details.append(f"+{box.folded} inside")
    if node.parameters:
        details.append(_amount(node.parameters))
    if node.outputs:
        details.append(_shape(node.outputs[0]))
    seconds = _seconds(box)
    place = f'x="{x:.1f}" y="{y:.1f}" width="{BOX_WIDTH:.0f}" height="{BOX_HEIGHT:.0f}"'
    parts = [f"<g><title>{_safe(_hint(box))}</title>", f'<rect {place} rx="6" fill="{CARD}" stroke="{EDGE}"/>']
    if seconds is not None and slowest > 0:
        share = seconds / slowest
        parts.append(
            f'<rect x="{x + 1:.1f}" y="{y + BOX_HEIGHT - 4:.1f}" width="{max(1.0, (BOX_WIDTH - 2) * min(1.0, share)):.1f}" '
            f'height="3" fill="{HEAT}" fill-opacity="{0.35 + 0.65 * min(1.0, share):.2f}"/>'
        )
        parts.append(_text(x + BOX_WIDTH - 9, y + 18, _duration(seconds), 11, INK, anchor="end"))
    parts.append(_text(x + 9, y + 18, _tail(name, _NAME if seconds is None else _NAME - 8), 12, INK, "600"))
    parts.append(_text(x + 9, y + 34, _head(" · ".join(details), _DETAIL), 10.5, SOFT))
    return "".join(parts) + "</g>"


def _hint(box: Box) -> str:
    """What a pointer that rests on a box is told."""
    node = box.node
    lines = [f"{node.name or '(the model)'}: {node.type}"]
    if node.parameters:
        frozen = node.parameters - node.trainable
        lines.append(f"{node.parameters:,} parameters" + (f", {frozen:,} frozen" if frozen else ""))
    lines += [f"in {_shape(spec)} {spec.dtype}" for spec in node.inputs[:4]]
    lines += [f"out {_shape(spec)} {spec.dtype}" for spec in node.outputs[:4]]
    if node.calls is not None and node.calls > 1:
        lines.append(f"{node.calls} calls in a pass")
    for word, seconds in (("forward", node.forward_seconds), ("backward", node.backward_seconds)):
        if seconds is not None:
            lines.append(f"{word} {_duration(seconds)}")
    return "\n".join(lines)


def _flows(scene: Scene, places: Arrangement) -> Iterator[str]:
    for (source, target), spec in scene.flows.items():
        (x1, y1), (x2, y2) = places.corners[source], places.corners[target]
        if source > target:  # back in time
            yield _line(
                f"M{x1:.1f} {y1 + 22:.1f} C{x1 - 40:.1f} {y1:.1f} {x2 - 40:.1f} {y2:.1f} {x2:.1f} {y2 + 22:.1f}",
                spec,
                "5 4",
            )
            continue
        points = [
            (x1 + BOX_WIDTH / 2, y1 + BOX_HEIGHT),
            *places.bends.get((source, target), ()),
            (x2 + BOX_WIDTH / 2, y2),
        ]
        yield _line(_curve(points), spec)
        tip_x, tip_y = points[-1]
        yield (
            f'<path d="M{tip_x - 4:.1f} {tip_y - 7:.1f} L{tip_x + 4:.1f} {tip_y - 7:.1f} L{tip_x:.1f} {tip_y:.1f} Z" '
            f'fill="{EDGE}"/>'
        )


def _curve(points: list[tuple[float, float]]) -> str:
    parts = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    for (x1, y1), (x2, y2) in itertools.pairwise(points):
        if abs(x1 - x2) < 0.5:
            parts.append(f"L{x2:.1f} {y2:.1f}")
        else:
            bend = max(GAP_Y / 2, (y2 - y1) / 2)
            parts.append(f"C{x1:.1f} {y1 + bend:.1f} {x2:.1f} {y2 - bend:.1f} {x2:.1f} {y2:.1f}")
    return " ".join(parts)


def _line(path: str, spec: TensorSpec | None, dashes: str = "") -> str:
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    title = "" if spec is None else f"<title>{_safe(f'{_shape(spec)} {spec.dtype}')}</title>"
    return f'<path d="{path}" fill="none" stroke="{EDGE}" stroke-width="1.3"{dashed}>{title}</path>'


def _branches(scene: Scene, places: Arrangement) -> Iterator[str]:
    """Lines from a container to what it holds."""
    open_at: dict[int, tuple[float, float]] = {}
    for box, (x, y) in zip(scene.boxes, places.corners, strict=True):
        above = open_at.get(box.depth - 1)
        if above is not None:
            stem = above[0] + INDENT / 2
            yield _line(f"M{stem:.1f} {above[1] + BOX_HEIGHT:.1f} V{y + BOX_HEIGHT / 2:.1f} H{x:.1f}", None)
        open_at[box.depth] = (x, y)


def _text(x: float, y: float, words: str, size: float, fill: str, weight: str = "", anchor: str = "") -> str:
    if not words:
        return ""
    heavy = f' font-weight="{weight}"' if weight else ""
    side = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{fill}"{heavy}{side}>{_safe(words)}</text>'


def _seconds(box: Box) -> float | None:
    known = [part for part in (box.node.forward_seconds, box.node.backward_seconds) if part is not None]
    return sum(known) if known else None


def _safe(words: str) -> str:
    """Text that XML can hold and a viewer shows as it is."""
    plain = "".join(letter if letter.isprintable() or letter == "\n" else "·" for letter in words)
    return html.escape(plain, quote=True)


def _tail(words: str, most: int) -> str:
    return words if len(words) <= most else "…" + words[-(most - 1) :]


def _head(words: str, most: int) -> str:
    return words if len(words) <= most else words[: most - 1] + "…"


def _shape(spec: TensorSpec) -> str:
    return "×".join(str(size) for size in spec.shape[:8]) or "scalar"


def _amount(count: int) -> str:
    for scale, letter in _SCALES:
        if count >= scale:
            return f"{count / scale:.3g}{letter}"
    return str(count)


def _duration(seconds: float) -> str:
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return "<1 µs"
