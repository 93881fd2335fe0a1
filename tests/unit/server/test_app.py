import asyncio
import json
from typing import Any

import httpx
import pytest

from tests.unit.server.made_run import MadeRun
from tests.unit.server.site import Site
from trackside.server.assets import read_assets
from trackside.server.openapi import describe_api
from trackside.server.security import PAGE_POLICY, Access
from trackside.server.tally import Tally


@pytest.fixture
def site(tmp_path) -> Site:
    return Site(tmp_path)


@pytest.fixture
def guarded(tmp_path) -> Site:
    return Site(tmp_path, token="secret-token", hosts=frozenset({"node-a"}))


DOCUMENTS = [
    "run",
    "ranks",
    "metrics",
    "epochs",
    "events",
    "resources",
    "graph",
    "heat",
    "gauges",
    "tree",
    "report",
    "openapi.json",
    "series?metric=loss",
]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_document_is_json_that_nobody_stores(site, name):
    answer = site.ask(f"/api/v1/{name}")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.headers["cache-control"] == "no-store"
    json.loads(answer.text, parse_constant=pytest.fail)


def test_every_answer_is_guarded_in_the_browser(site):
    for path in ("/", "/api/v1/run", "/nowhere", "/assets/index-CuJzoOfK.js"):
        headers = site.ask(path).headers
        assert headers["content-security-policy"] == PAGE_POLICY
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in headers
    assert "unsafe-inline" not in PAGE_POLICY.replace("style-src-attr 'unsafe-inline'", "")


def test_health_counts(site):
    health = site.ask("/healthz").json()
    assert health["status"] == "ok"
    assert health["counters"]["frames"] == 7
    assert health["counters"]["stream_clients"] == 0


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
@pytest.mark.parametrize("path", ["/", "/api/v1/run", "/nowhere"])
def test_d79_nothing_can_be_changed(site, method, path):
    answer = site.ask(path, method)
    assert (answer.status_code, answer.json()["error"]["code"]) == (405, "read_only")
    assert answer.headers["allow"] == "GET, HEAD"


def test_head_is_get_without_a_body(site):
    for path in ("/", "/api/v1/run", "/api/v1/stream"):
        answer = site.ask(path, "HEAD")
        assert answer.status_code == 200


def test_numbers_that_are_none_are_words(site):
    assert site.ask("/api/v1/series?metric=loss").json()["max"] == [1.0, "Infinity"]


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("", 400, "metric_missing"),
        ("?metric=", 400, "metric_missing"),
        ("?metric=nothing", 404, "unknown_metric"),
        ("?metric=loss&path=root/nowhere", 404, "unknown_path"),
        ("?metric=loss&path=", 404, "unknown_path"),
        ("?metric=loss&path=../../etc", 404, "unknown_path"),
        ("?metric=loss&x=banana", 400, "bad_x"),
        ("?metric=loss&points=0", 400, "bad_points"),
        ("?metric=loss&points=-5", 400, "bad_points"),
        ("?metric=loss&points=10001", 400, "bad_points"),
        ("?metric=loss&points=1e3", 400, "bad_points"),
        ("?metric=loss&points=" + "9" * 400, 400, "bad_points"),
        ("?metric=loss&from=NaN", 400, "bad_from"),
        ("?metric=loss&to=inf", 400, "bad_to"),
        ("?metric=loss&from=x", 400, "bad_from"),
        ("?metric=loss&from=5&to=4", 400, "bad_range"),
    ],
)
def test_a_wrong_question_is_told_what_is_wrong(site, query, status, code):
    answer = site.ask(f"/api/v1/series{query}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert len(answer.json()["error"]["message"]) < 500


def test_a_question_reaches_the_source_as_it_was_asked(site):
    site.ask("/api/v1/series?metric=a%2Fb&path=root%2Fnode-a%2Frank0&x=time&from=1.5&to=2e9&points=7")
    assert site.source.questions == [("a/b", "root/node-a/rank0", "time", 1.5, 2e9, 7)]


def test_many_viewers_cost_one_query(tmp_path):
    site = Site(tmp_path)

    async def many() -> list[httpx.Response]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(site.app), base_url="http://localhost") as client:
            first = await asyncio.gather(*[client.get("/api/v1/series?metric=loss") for _ in range(20)])
            return [*first, await client.get("/api/v1/series?metric=loss")]

    answers = asyncio.run(many())
    assert {answer.text for answer in answers} == {answers[0].text}
    assert len(site.source.questions) == 1


def test_an_answer_is_kept_for_a_moment_only():
    from trackside.server.routes.series import KEPT_S, SeriesRoute

    now = [0.0]
    source = MadeRun()
    route = SeriesRoute(source, lambda: now[0], Tally())

    async def ask(times: int, step: float) -> None:
        for _ in range(times):
            await route.series(_request("metric=loss"))
            now[0] += step

    asyncio.run(ask(3, KEPT_S * 0.4))
    assert len(source.questions) == 1
    asyncio.run(ask(1, 0))
    assert len(source.questions) == 2


def test_very_many_different_questions_are_not_all_waited_for(monkeypatch, site):
    from trackside.server.routes import series

    monkeypatch.setattr(series, "MOST_WAITING", 3)
    let, begun = asyncio.Event(), []
    answer = site.source.series

    async def slowly(*question: Any) -> Any:
        begun.append(question)
        await let.wait()
        return await answer(*question)

    site.source.series = slowly

    async def scene() -> list[httpx.Response]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(site.app), base_url="http://localhost") as client:
            asked = [asyncio.create_task(client.get(f"/api/v1/series?metric=loss&points={1 + n}")) for n in range(3)]
            async with asyncio.timeout(10):
                while len(begun) < 3:  # noqa: ASYNC110 - a poll with a deadline
                    await asyncio.sleep(0)
            same = asyncio.create_task(client.get("/api/v1/series?metric=loss&points=1"))
            refused = await client.get("/api/v1/series?metric=loss&points=9")
            let.set()
            return [refused, *await asyncio.gather(same, *asked), await client.get("/healthz")]

    refused, *answered, health = asyncio.run(scene())
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    assert refused.json()["error"]["code"] == "too_many_questions"
    assert [each.status_code for each in answered] == [200] * 4
    assert health.json()["counters"]["chart_questions_refused"] == 1


def test_kept_answers_are_few_bytes(monkeypatch):
    from trackside.server.routes import series

    now = [0.0]
    monkeypatch.setattr(series, "KEPT_BYTES", 1000)
    route = series.SeriesRoute(MadeRun(), lambda: now[0], Tally())

    async def ask(points: int) -> None:
        await route.series(_request(f"metric=loss&points={points}"))

    for points in range(1, 50):
        asyncio.run(ask(points))
        assert 0 < sum(len(content) for _, content in route._kept.values()) == route._kept_bytes <= 1000
    now[0] += 1
    asyncio.run(ask(1))
    assert len(route._kept) == 1, "what is out of date has gone"


def test_what_takes_long_to_make_is_made_once_for_all_who_ask(site):
    takes: list[int] = []
    ranks = site.source.ranks

    def counted(path: str = "root") -> Any:
        takes.append(1)
        return ranks(path)

    site.source.ranks = counted

    async def scene() -> list[httpx.Response]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(site.app), base_url="http://localhost") as client:
            return await asyncio.gather(*[client.get("/api/v1/tree") for _ in range(20)])

    answers = asyncio.run(scene())
    assert {answer.text for answer in answers} == {answers[0].text}
    assert len(takes) == 1


def _request(query: str) -> Any:
    from starlette.requests import Request

    return Request({"type": "http", "query_string": query.encode(), "headers": [], "path": "/", "method": "GET"})


def test_a_large_answer_is_compressed_when_the_client_can(site):
    site.source.entries = site.source.entries * 50
    plain = site.ask("/api/v1/ranks", accept_encoding="identity")
    packed = site.ask("/api/v1/ranks", accept_encoding="gzip")
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.headers["vary"] == "Accept-Encoding"
    assert int(packed.headers["content-length"]) < len(plain.content) / 4
    assert packed.json() == plain.json()


# --- the page's files ---------------------------------------------------------------------------------------------


def test_hashed_files_are_kept_for_ever_and_the_page_is_asked_about(site):
    script = site.ask("/assets/index-CuJzoOfK.js")
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"
    assert "immutable" in script.headers["cache-control"]
    page = site.ask("/")
    assert page.headers["cache-control"] == "no-cache"
    again = site.ask("/", if_none_match=page.headers["etag"])
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    "path", ["/.secret", "/assets/../.secret", "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/assets/", "/x"]
)
def test_d82_no_path_leads_out_of_the_page(site, path):
    answer = site.ask(path)
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")


def test_d72_a_proxy_that_lost_the_slash_gets_it_back(site):
    answer = site.ask("/", x_forwarded_prefix="/proxy/7117", x_forwarded_uri="/proxy/7117?a=1")
    assert (answer.status_code, answer.headers["location"]) == (307, "/proxy/7117/?a=1")
    assert site.ask("/", x_forwarded_prefix="/proxy/7117", x_forwarded_uri="/proxy/7117/").status_code == 200
    assert site.ask("/", x_forwarded_prefix="//evil.example", x_forwarded_uri="//evil.example").status_code == 200


def test_without_a_built_page_the_page_says_so(tmp_path):
    assert b"not built" in read_assets(tmp_path)["index.html"].content


def test_a_picture_may_style_itself_and_nothing_else(site):
    assert site.ask("/graph.svg").status_code == 404
    site.source.picture = "<svg></svg>"
    answer = site.ask("/graph.svg")
    assert answer.headers["content-type"].startswith("image/svg+xml")
    assert "sandbox" in answer.headers["content-security-policy"]


def test_the_report_is_a_download_with_a_harmless_name(site):
    answer = site.ask("/report.html")
    assert answer.headers["content-disposition"] == 'attachment; filename="-b-tiny--b--report.html"'


# --- who may read --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:7117", "127.0.0.1:1", "[::1]:7117", "x.localhost", "LOCALHOST."]
)
def test_loopback_names_are_ours(site, host):
    assert site.ask("/api/v1/run", host=host).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "10.0.0.1", "node-a", "[2001:db8::1]:80", ""]
)
def test_d79_another_name_is_refused_with_advice(site, host):
    for path in ("/", "/api/v1/run", "/api/v1/stream", "/healthz"):
        answer = site.ask(path, host=host)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "unknown_host")
        assert "--allowed-hosts" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("patterns", "host", "is_known"),
    [
        (("proxy.example",), "proxy.example", True),
        (("proxy.example:8080",), "proxy.example:8080", True),
        ((".example",), "a.b.example", True),
        ((".example",), "example", True),
        ((".example",), "badexample", False),
        (("*",), "anything", True),
        (("proxy.example",), "other.example", False),
    ],
)
def test_d81_a_proxys_name_can_be_allowed(patterns, host, is_known):
    assert Access("run", patterns=patterns).knows_host(host) == is_known


def test_a_foreign_page_may_not_read(site):
    answer = site.ask("/api/v1/stream", origin="http://evil.example")
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "foreign_origin")
    assert site.ask("/api/v1/run", origin="null").status_code == 403
    assert site.ask("/api/v1/run", origin="http://localhost:7117").status_code == 200


def test_without_the_token_nothing_is_shown(guarded):
    for path in ("/", "/api/v1/run", "/api/v1/stream", "/healthz", "/metrics", "/report.html", "/assets/x.js"):
        answer = guarded.ask(path, host="node-a")
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "token_needed")
    assert guarded.ask("/api/v1/run?token=secret-tokem", host="node-a").status_code == 401
    assert guarded.ask("/api/v1/run?token=%F0%9F%9A%80", host="node-a").status_code == 401


def test_the_token_becomes_a_cookie(guarded):
    answer = guarded.ask("/?token=secret-token&tab=ranks", host="node-a")
    assert (answer.status_code, answer.headers["location"]) == (303, "./?tab=ranks")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert "secret-token" not in cookie
    shown = cookie.partition(";")[0]
    assert guarded.ask("/", host="node-a", cookie=f"other=1; {shown}").status_code == 200
    assert guarded.ask("/api/v1/run", host="node-a", cookie=shown[:-1] + "x").status_code == 401


def test_programs_show_the_token_as_they_like(guarded):
    assert guarded.ask("/metrics", host="node-a", authorization="Bearer secret-token").text == "trackside_up 1\n"
    assert guarded.ask("/api/v1/run?token=secret-token", host="node-a").status_code == 200


def test_a_failure_is_an_error_document_and_no_trace(site):
    def fail() -> None:
        raise RuntimeError("inner secret")

    site.source.run = fail  # type: ignore[method-assign]
    answer = site.ask("/api/v1/run")
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "failed")
    assert "inner secret" not in answer.text


# --- the description -----------------------------------------------------------------------------------------------


def test_the_description_is_current():
    from tests.unit.server.test_wire_types import load

    openapi = load("openapi")
    assert openapi.TARGET.read_text(encoding="utf-8") == openapi.generate(), "run python scripts/openapi.py"


def test_every_route_is_described_and_every_description_answers(site):
    described = set(describe_api()["paths"])
    served = {route.path for route in site.app.routes} - {"/{path:path}"}
    assert described == served


def test_every_field_of_an_answer_is_described(site):
    schema = describe_api()["components"]["schemas"]["RunDocument"]
    assert set(site.ask("/api/v1/run").json()) == set(schema["properties"])


def test_gauges_are_scoped_and_bounded_as_asked(site):
    assert site.ask("/api/v1/gauges?path=root/nowhere").status_code == 404
    refused = site.ask("/api/v1/gauges?points=0")
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "bad_points")
    assert set(site.ask("/api/v1/gauges?points=2").json()) == {"origin", "tracks", "latest"}


def test_the_heat_map_is_scoped_like_everything_else(site):
    assert site.ask("/api/v1/heat").json()["ranks"] == [0, 1]
    assert site.ask("/api/v1/heat?path=root/node-b/rank1").json()["ranks"] == [1]
    assert site.ask("/api/v1/heat?path=root/nowhere").status_code == 404
