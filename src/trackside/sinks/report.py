"""The report: the page with the data inside, one file that needs no server and no network."""

import asyncio
import base64
import contextlib
import hashlib
import html
import logging
import re
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from trackside.errors import StoreError
from trackside.run.diagnose.heat import thinned
from trackside.sinks.protocol import RunSource
from trackside.sinks.quiet import QuietSink
from trackside.wire.baked import Baked, BakedSeries
from trackside.wire.documents import HeatAnswer, Number, ResourceRecord
from trackside.wire.ids import ROOT_PATH

log = logging.getLogger("trackside.sinks")

DATA_BYTES = 2_500_000
"""What the data may weigh; with the page a report of a million points stays below 3 MB."""
STEPS_OF_DETAIL = (1500, 700, 350, 150, 60)
"""Entries a curve may have; the first that fits the weight is taken."""
MOST_RESOURCES = 1500
HEAT_CELLS = 16_384
"""Of one quantity of the heat map; about 100 KB."""
LATER = "assets/later/"
"""Where the built page has the scripts that it loads when they are first needed."""
DIGITS = 7
"""Significant digits of a curve's values; the Parquet files hold them whole."""

_SCRIPT = re.compile(rb'\s*<script type="module"[^>]*\ssrc="\./(?P<path>[^"]+)"[^>]*></script>')
_STYLE = re.compile(rb'\s*<link rel="stylesheet"[^>]*\shref="\./(?P<path>[^"]+)"[^>]*/?>')
_PRELOAD = re.compile(rb'\s*<link rel="modulepreload"[^>]*>')
_ESCAPES = {
    b"<": b"\\u003c",
    b">": b"\\u003e",
    b"&": b"\\u0026",
    "\u2028".encode(): b"\\u2028",
    "\u2029".encode(): b"\\u2029",
}


def escape_json(text: bytes) -> bytes:
    """JSON text that can stand inside a script element: nothing in it ends the element or begins a comment."""
    for character, escaped in _ESCAPES.items():
        text = text.replace(character, escaped)
    return text


def inline_page(files: Mapping[str, bytes], data: bytes, title: str) -> bytes:
    """The built page as one file.

    Args:
        files: of the built page, by path; `index.html` is one.
        data: JSON of a `Baked`.
        title: of the document.
    """
    index = _PRELOAD.sub(b"", files["index.html"])
    scripts, styles = _later(files) + _contents(_SCRIPT, index, files), _contents(_STYLE, index, files)
    body = _STYLE.sub(b"", _SCRIPT.sub(b"", index))
    scripts = [_safe_script(script) for script in scripts]
    head = _policy(scripts, styles) + b"".join(b"<style>%s</style>" % style for style in styles)
    tail = b'<script type="application/json" id="trackside-data">%s</script>' % escape_json(data)
    tail += b"".join(b'<script type="module">%s</script>' % script for script in scripts)
    body = re.sub(rb"<title>.*?</title>", lambda _: b"<title>%s</title>" % html.escape(title).encode(), body, count=1)
    body = _insert(body, b"<meta charset", head, after=b">")
    place = body.rfind(b"</body>")
    return body + tail if place < 0 else body[:place] + tail + body[place:]


def _later(files: Mapping[str, bytes]) -> list[bytes]:
    """Scripts that the live page loads when they are first needed. A report has them from the start, before the page's own:
    each stands alone and announces itself, since nothing inside a file can be imported.
    """
    return [content for path, content in sorted(files.items()) if path.startswith(LATER) and path.endswith(".js")]


def _contents(pattern: "re.Pattern[bytes]", index: bytes, files: Mapping[str, bytes]) -> list[bytes]:
    return [files[match["path"].decode()] for match in pattern.finditer(index)]


def _safe_script(script: bytes) -> bytes:
    """Script text that does not end its own element, with the same meaning."""
    return re.sub(rb"<(?=/script|!--)", rb"\\x3c", script, flags=re.IGNORECASE)


def _insert(page: bytes, before: bytes, added: bytes, after: bytes) -> bytes:
    """Put `added` behind the first element that begins with `before`; the policy must come before what it rules."""
    start = page.find(before)
    if start < 0:
        return added + page
    end = page.index(after, start) + len(after)
    return page[:end] + added + page[end:]


def _policy(scripts: list[bytes], styles: list[bytes]) -> bytes:
    rules = (
        f"default-src 'none'; script-src {_hashes(scripts)}; style-src {_hashes(styles)}; "
        "style-src-attr 'unsafe-inline'; img-src data:; font-src data:; base-uri 'none'; form-action 'none'"
    )
    return f'<meta http-equiv="Content-Security-Policy" content="{rules}">'.encode()


def _hashes(parts: list[bytes]) -> str:
    digests = (base64.b64encode(hashlib.sha256(part).digest()).decode("ascii") for part in parts)
    return " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"


async def bake(source: RunSource, wall: float, weight: int = DATA_BYTES) -> bytes:
    """All that a report holds, as JSON, within `weight` bytes where that is possible at all."""
    text = b""
    for points in STEPS_OF_DETAIL:
        curves = await source.baked_series(points)
        series = await asyncio.to_thread(_all_rounded, curves)
        text = msgspec.json.encode(_baked(source, wall, series))
        if len(text) <= weight:
            break
    return text


def _baked(source: RunSource, wall: float, series: list[BakedSeries]) -> Baked:
    return Baked(
        written_at=wall,
        run=source.run(),
        ranks=source.ranks(),
        metrics=source.metrics(),
        epochs=source.epochs(),
        events=source.events(),
        resources=thin(source.resources("root")),
        series=series,
        graph=source.graph(),
        svg=source.svg() if source.run().has_svg else None,
        heat=_heat(source),
    )


def _heat(source: RunSource) -> HeatAnswer | None:
    """The heat map, coarser than the live one; None when there is none."""
    heat = source.heat(ROOT_PATH)
    return thinned(heat, HEAT_CELLS) if heat.step else None


def thin(records: list[ResourceRecord], most: int = MOST_RESOURCES) -> list[ResourceRecord]:
    """At most so many samples, spread evenly over time within each path, the last of each path kept."""
    if len(records) <= most:
        return records
    by_path: dict[str, list[int]] = {}
    for at, record in enumerate(records):
        by_path.setdefault(record.path, []).append(at)
    share = max(1, most // len(by_path))
    kept: set[int] = set()
    for places in by_path.values():
        step = max(1.0, len(places) / share)
        kept.update(places[-1 - int(i * step)] for i in range(min(share, len(places))))
    return [records[at] for at in sorted(kept)]


def _all_rounded(curves: list[BakedSeries]) -> list[BakedSeries]:
    return [_rounded(curve) for curve in curves]


def _rounded(curve: BakedSeries) -> BakedSeries:
    return msgspec.structs.replace(
        curve,
        mean=[_round(value) for value in curve.mean],
        min=[_round(value) for value in curve.min],
        max=[_round(value) for value in curve.max],
    )


def _round(value: Number) -> Number:
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


class ReportSink(QuietSink):
    """Writes the report when the run is over.

    Args:
        source: of the run.
        files: of the built page.
        target: the file.
        wall: UTC epoch seconds.
        is_final: whether nothing will be added to the run; from `shut_down` on it is so anyway.
    """

    name = "report"

    def __init__(
        self,
        source: RunSource,
        files: Mapping[str, bytes],
        target: Path,
        wall: Callable[[], float],
        is_final: Callable[[], bool] = lambda: False,
    ) -> None:
        self._source = source
        self._files = files
        self._target = target
        self._wall = wall
        self._is_final = is_final
        self._baking: asyncio.Task[bytes] | None = None
        self._written = False

    async def data(self) -> bytes:
        """What the report would hold now, as JSON; what it holds, kept, once the run is over."""
        if self._baking is None and self._is_final():
            self._bake()
        return await (bake(self._source, self._wall()) if self._baking is None else asyncio.shield(self._baking))

    def _bake(self) -> None:
        self._baking = asyncio.ensure_future(bake(self._source, self._wall()))

    async def render(self) -> bytes:
        """The report as it would be now."""
        return inline_page(self._files, await self.data(), f"{self._source.run().name} · Trackside")

    async def shut_down(self) -> None:
        """Write it, once. Blocks: never.

        Raises:
            StoreError: the disk does not take it.
        """
        if self._written:
            return
        self._bake()
        content = await self.render()
        try:
            await _beside(lambda: write_whole(self._target, content))
        except OSError as error:
            reason = error.strerror or str(error)
            raise StoreError(f"{self._target.absolute()} was not written: {reason}") from error
        self._written = True


def write_whole(target: Path, content: bytes) -> None:
    """All of it or nothing. Blocks: for the disk. Raises: OSError."""
    temporary = target.with_suffix(".html.part")
    try:
        temporary.write_bytes(content)
        temporary.replace(target)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


async def _beside(write: Callable[[], None]) -> None:
    """Write in a thread that nobody waits for when the process ends: a shared mount may hang for good."""
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[OSError | None] = loop.create_future()

    def settle(error: OSError | None) -> None:
        if not outcome.done():
            outcome.set_result(error)

    def work() -> None:
        problem = None
        try:
            write()
        except OSError as error:
            problem = error
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(settle, problem)

    threading.Thread(target=work, name="trackside-report", daemon=True).start()
    if (error := await outcome) is not None:
        raise error
