import asyncio
import base64
import hashlib
import json
import os
import re
import threading
import time
from pathlib import Path

import msgspec
import pytest

from tests.unit.server.made_run import MadeRun
from trackside.errors import StoreError
from trackside.sinks import report as report_module
from trackside.sinks.report import ReportSink, bake, escape_json, inline_page, thin
from trackside.wire.baked import Baked
from trackside.wire.documents import ResourceRecord

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
    "assets/later/arrange-12345678.js": b"globalThis.arrange = '</script>'",
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


def test_what_the_live_page_loads_later_runs_before_the_pages_own_script(page):
    scripts = re.findall(rb'<script type="module">(.*?)</script>', page, re.DOTALL)
    assert [b"globalThis.arrange" in script for script in scripts] == [True, False]
    assert b"graph" not in scripts


def test_nothing_in_the_data_ends_its_element(page):
    assert page.count(b"</script>") == 3
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
    scripts = re.findall(rb'<script type="module">(.*?)</script>', page, re.DOTALL)
    style = re.search(rb"<style>(.*?)</style>", page, re.DOTALL)[1]
    for part in (*scripts, style):
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


@pytest.mark.parametrize("state", ["finished", "failed", "terminated"])
def test_b50_the_report_is_written_however_the_run_ended(tmp_path, monkeypatch, state):
    source = MadeRun()
    ended = msgspec.structs.replace(source.run(), state=state, state_detail="rank 1: SIGKILL")
    monkeypatch.setattr(source, "run", lambda: ended)
    asyncio.run(ReportSink(source, FILES, tmp_path / "report.html", lambda: 2000.0).shut_down())
    run = data_of((tmp_path / "report.html").read_bytes()).run
    assert (run.state, run.state_detail) == (state, "rank 1: SIGKILL")


def test_b50_a_failure_names_the_absolute_path_and_leaves_no_half_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    target = tmp_path / "report.html"
    target.mkdir()
    sink = ReportSink(MadeRun(), FILES, Path("report.html"), lambda: 2000.0)
    with pytest.raises(StoreError, match=f"^{re.escape(str(target))} was not written: Is a directory$"):
        asyncio.run(sink.shut_down())
    assert list(tmp_path.iterdir()) == [target]
    target.rmdir()
    asyncio.run(sink.shut_down())
    assert target.is_file()


def test_lesson_a_hung_shared_mount_stalls_the_report_alone(tmp_path):
    """Opening a pipe that nobody reads never returns, as a file on a mount that hangs."""
    pipe = tmp_path / "report.html.part"
    os.mkfifo(pipe)
    sink = ReportSink(MadeRun(), FILES, tmp_path / "report.html", lambda: 2000.0)

    async def end() -> int:
        turns = 0
        writing = asyncio.create_task(sink.shut_down())
        deadline = time.monotonic() + 30
        while not any(thread.name == "trackside-report" for thread in threading.enumerate()):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)
        for _ in range(20):
            await asyncio.sleep(0.01)
            turns += 1
        assert not writing.done()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await writing
        return turns

    try:
        assert asyncio.run(end()) == 20
    finally:
        (hung,) = [thread for thread in threading.enumerate() if thread.name == "trackside-report"]
        with pipe.open("rb") as reader:
            while reader.read(65536):
                pass
        hung.join(10)
    assert not hung.is_alive()
    assert hung.daemon, "nobody waits for it when the process ends"


def test_lesson_the_data_is_baked_once_before_the_first_script():
    """It was baked before every script instead of the first."""
    second = b'<script type="module" crossorigin src="./assets/more-12345678.js"></script>'
    files = {
        **FILES,
        "index.html": INDEX.replace(b"</head>", second + b"</head>"),
        "assets/more-12345678.js": b"more()",
    }
    page = inline_page(files, b'{"a": 1}', "x")
    assert page.count(b'id="trackside-data"') == 1
    scripts = [found.start() for found in re.finditer(rb'<script type="module">', page)]
    assert len(scripts) == 3
    assert page.index(b'id="trackside-data"') < scripts[0]


def test_the_report_is_written_once(tmp_path):
    sink = ReportSink(MadeRun(), FILES, tmp_path / "report.html", lambda: 2000.0)

    async def twice() -> None:
        await sink.shut_down()
        (tmp_path / "report.html").unlink()
        await sink.shut_down()

    asyncio.run(twice())
    assert not (tmp_path / "report.html").exists()


def test_what_the_report_holds_is_made_once_the_run_is_over_and_kept(tmp_path):
    moments = iter(range(1000, 2000))
    sink = ReportSink(MadeRun(), FILES, tmp_path / "report.html", lambda: float(next(moments)))

    async def ask() -> list[float]:
        before = [await sink.data(), await sink.data()]
        await sink.shut_down()
        after = [await sink.data(), await sink.data()]
        return [msgspec.json.decode(data, type=Baked).written_at for data in (*before, *after)]

    assert asyncio.run(ask()) == [1000, 1001, 1002, 1002]
    assert data_of((tmp_path / "report.html").read_bytes()).written_at == 1002


def test_what_a_report_of_a_run_that_is_over_holds_is_made_once(tmp_path):
    moments = iter(range(1000, 2000))
    wall = lambda: float(next(moments))  # noqa: E731
    sink = ReportSink(MadeRun(), FILES, tmp_path / "report.html", wall, is_final=lambda: True)

    async def ask() -> bool:
        return await sink.data() == await sink.data()

    assert asyncio.run(ask())
