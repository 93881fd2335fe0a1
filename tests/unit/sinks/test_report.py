import asyncio
import base64
import hashlib
import json
import re

import msgspec
import pytest

from tests.unit.server.made_run import MadeRun
from trackside.sinks import report as report_module
from trackside.sinks.report import ReportSink, bake, escape_json, inline_page, thin
from trackside.wire.documents import Baked, ResourceRecord

SCRIPT = b'const a = "</script><!-- x"; import.meta.url;'
INDEX = b"""<!doctype html>
<html lang="en"><head>
    <meta charset="utf-8" />
    <title>Trackside</title>
    <link rel="modulepreload" crossorigin href="./assets/graph-12345678.js">
    <script type="module" crossorigin src="./assets/index-12345678.js"></script>
    <link rel="stylesheet" crossorigin href="./assets/style-12345678.css">
</head><body><div id="app"></div></body></html>"""
FILES = {
    "index.html": INDEX,
    "assets/index-12345678.js": SCRIPT,
    "assets/style-12345678.css": b"body{color:red}",
    "assets/graph-12345678.js": b"graph",
}


def data_of(page: bytes) -> Baked:
    text = re.search(rb'<script type="application/json" id="trackside-data">(.*?)</script>', page, re.DOTALL)[1]
    return msgspec.json.decode(text, type=Baked)


@pytest.fixture
def page(tmp_path) -> bytes:
    sink = ReportSink(MadeRun(), FILES, tmp_path / "report.html", lambda: 2000.0)
    asyncio.run(sink.shut_down())
    return (tmp_path / "report.html").read_bytes()


def test_b50_the_report_is_one_file_with_everything_inside(page):
    assert b"src=" not in page
    assert b"href=" not in page
    assert b"body{color:red}" in page
    data = data_of(page)
    assert (data.written_at, data.run.name, len(data.ranks)) == (2000.0, "<b>tiny</b>", 2)
    assert data.series[0].mean == [0.1234568]
    assert data.series[0].min == ["NaN"]


def test_nothing_in_the_data_ends_its_element(page):
    assert page.count(b"</script>") == 2
    assert b"<script>alert" not in page
    assert data_of(page).run.metadata == {"note": "</script><script>alert(1)</script>"}
    assert b"<title>&lt;b&gt;tiny&lt;/b&gt; \xc2\xb7 Trackside</title>" in page


def test_data_is_escaped_and_reads_the_same():
    text = json.dumps({"a": "<>&\u2028\u2029 é", "b": "</script>"}, ensure_ascii=False).encode()
    escaped = escape_json(text)
    assert not set(b"<>&") & set(escaped)
    assert "\u2028".encode() not in escaped
    assert json.loads(escaped) == json.loads(text)


def test_the_policy_names_exactly_what_runs(page):
    policy = re.search(rb'http-equiv="Content-Security-Policy" content="([^"]+)"', page)[1].decode()
    script = re.search(rb'<script type="module">(.*?)</script>', page, re.DOTALL)[1]
    style = re.search(rb"<style>(.*?)</style>", page, re.DOTALL)[1]
    for part in (script, style):
        assert f"'sha256-{base64.b64encode(hashlib.sha256(part).digest()).decode()}'" in policy
    assert policy.startswith("default-src 'none'")
    assert "connect-src" not in policy
    assert page.index(b"http-equiv") < page.index(b"<style>")


def test_a_page_that_is_not_built_still_holds_the_data():
    page = inline_page({"index.html": b"<h1>The page is not built</h1>"}, b"{}", "x")
    assert b'id="trackside-data">{}</script>' in page


def test_a_report_that_would_be_heavy_has_fewer_points(monkeypatch):
    asked: list[int] = []
    source = MadeRun()
    original = source.baked_series

    async def baked_series(points: int):
        asked.append(points)
        curve = (await original(points))[0]
        return [msgspec.structs.replace(curve, mean=[0.5] * points * 10)]

    monkeypatch.setattr(source, "baked_series", baked_series)
    text = asyncio.run(bake(source, 1.0, weight=20_000))
    assert len(text) <= 20_000
    assert asked == list(report_module.STEPS_OF_DETAIL[: len(asked)])
    assert len(asked) > 1


def record(at: float, path: str) -> ResourceRecord:
    return ResourceRecord(time=at, path=path, host="h", rank=None)


def test_samples_are_thinned_evenly_within_each_path():
    records = [record(float(n), path) for n in range(1000) for path in ("root/a", "root/b")]
    kept = thin(records, most=20)
    assert len(kept) == 20
    assert [r.time for r in kept if r.path == "root/a"][-1] == 999.0
    assert kept == sorted(kept, key=lambda r: r.time)
    assert thin(records[:10], most=20) == records[:10]


def test_the_report_is_written_once(tmp_path):
    sink = ReportSink(MadeRun(), FILES, tmp_path / "report.html", lambda: 2000.0)

    async def twice() -> None:
        await sink.shut_down()
        (tmp_path / "report.html").unlink()
        await sink.shut_down()

    asyncio.run(twice())
    assert not (tmp_path / "report.html").exists()
