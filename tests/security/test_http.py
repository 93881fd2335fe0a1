"""Who may read the page: other users, other pages in the same browser, and what each answer says to the browser."""

from pathlib import Path

import pytest

from tests.unit.server.site import Site
from trackside.server.assets import read_assets
from trackside.server.built import INDEX
from trackside.server.security import ADD_SLASH, HEADERS, PAGE_POLICY, PICTURE_POLICY

EVERYWHERE = ("/", "/healthz", "/api/v1/run", "/api/v1/stream", "/metrics", "/report.html", "/nowhere", "/a/../b")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.fixture
def guarded(tmp_path: Path) -> Site:
    return Site(tmp_path, token="secret-token", hosts=frozenset({"node-a"}))


def check_headers(answer) -> None:
    for name, value in HEADERS.items():
        assert answer.headers[name] == value
    policy = answer.headers["content-security-policy"]
    assert policy in (PAGE_POLICY, PICTURE_POLICY, "default-src 'none'; sandbox")
    assert not [name for name in answer.headers if name.startswith("access-control-")]
    assert "server" not in answer.headers


def test_d80_every_answer_is_guarded_whatever_it_says(site: Site, guarded: Site) -> None:
    """What is found and what is not, every refusal, and a failure of our own."""
    for path in EVERYWHERE:
        check_headers(site.ask(path, "HEAD" if path.endswith("stream") else "GET"))
        check_headers(site.ask(path, "DELETE"))
        check_headers(site.ask(path, host="evil.example"))
        check_headers(site.ask(path, origin="http://evil.example"))
        check_headers(guarded.ask(path, host="node-a"))
    check_headers(guarded.ask("/?token=secret-token", host="node-a"))
    check_headers(site.ask("/", x_forwarded_prefix="/t", x_forwarded_uri="/t"))
    site.source.picture = "<svg></svg>"
    check_headers(site.ask("/graph.svg"))

    def fail() -> None:
        raise RuntimeError("inner")

    site.source.run = fail  # type: ignore[assignment]
    answer = site.ask("/api/v1/run")
    assert answer.status_code == 500
    check_headers(answer)


def test_d80_nothing_inline_may_run_but_the_one_line_whose_hash_is_known() -> None:
    directives = dict(part.strip().partition(" ")[::2] for part in PAGE_POLICY.split(";"))
    assert directives["default-src"] == "'none'"
    assert "unsafe" not in directives["script-src"]
    assert "http" not in PAGE_POLICY
    assert directives["frame-ancestors"] == directives["base-uri"] == directives["form-action"] == "'none'"
    page = read_assets()[INDEX].content.decode()
    assert page.count("<script>") == page.count(f"<script>{ADD_SLASH}</script>") == 1


@pytest.mark.parametrize("mode", ["cors", "no-cors", "same-origin", "websocket"])
@pytest.mark.parametrize("relation", ["cross-site", "same-site"])
def test_d79_another_sites_page_gets_nothing_for_itself(site: Site, relation: str, mode: str) -> None:
    """Another port of this machine is another site's page too: whoever has an account here may serve one."""
    for path in EVERYWHERE:
        answer = site.ask(path, sec_fetch_site=relation, sec_fetch_mode=mode, sec_fetch_dest="empty")
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "foreign_origin")


@pytest.mark.parametrize("place", ["iframe", "frame", "embed", "object"])
def test_d80_nobody_frames_the_page(site: Site, place: str) -> None:
    answer = site.ask("/", sec_fetch_site="cross-site", sec_fetch_mode="navigate", sec_fetch_dest=place)
    assert answer.status_code == 403


def test_a_link_from_elsewhere_leads_here(site: Site) -> None:
    told = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}
    assert site.ask("/", **told).status_code == 200
    assert site.ask("/api/v1/run", sec_fetch_site="same-origin", sec_fetch_mode="cors").status_code == 200
    assert site.ask("/api/v1/run", sec_fetch_site="none", sec_fetch_mode="navigate").status_code == 200


@pytest.mark.parametrize(
    "origin", ["http://[", "http://", "://", "null", "http://localhost@evil.example", "\xff", "a" * 5000]
)
def test_an_origin_that_is_none_is_foreign(site: Site, origin: str) -> None:
    answer = site.ask("/api/v1/run", origin=origin.encode("latin-1"))  # type: ignore[arg-type]
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "foreign_origin")


@pytest.mark.parametrize(
    "host", ["[", "[::1", "]", ":", "localhost:x", "127.0.0.1.evil.example", "\xe9", "0.0.0.0", "a" * 5000]
)
def test_a_host_that_is_none_is_no_failure(site: Site, host: str) -> None:
    assert site.ask("/api/v1/run", host=host.encode("latin-1")).status_code in (200, 403)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "prefix",
    ["//evil.example", "/\\evil.example", "/a//b", "/a\\b", "http://evil.example", "/a?b", "/a#b", "/a b", "/"],
)
def test_no_header_sends_a_browser_elsewhere(site: Site, prefix: str) -> None:
    answer = site.ask("/", x_forwarded_prefix=prefix, x_forwarded_uri=prefix)
    assert answer.status_code == 200


def test_d72_a_prefix_that_ends_in_one_slash_too_many_or_too_few_is_the_same_page(site: Site) -> None:
    assert site.ask("http://localhost//api/v1/run").json()["id"] == "run-a"
    assert site.ask("http://localhost//").status_code == 200
    assert site.ask("http://localhost//etc/passwd").status_code == 404


def test_a_cookie_that_came_over_tls_stays_there(guarded: Site) -> None:
    plain = guarded.ask("/?token=secret-token", host="node-a").headers["set-cookie"]
    behind = guarded.ask("/?token=secret-token", host="node-a", x_forwarded_proto="https").headers["set-cookie"]
    assert ("Secure" in plain, "Secure" in behind) == (False, True)


def test_the_token_is_compared_in_constant_time(guarded: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every way in goes through the one comparison that takes as long for a near miss."""
    compared: list[tuple[bytes, bytes]] = []

    def compare(shown: bytes, wanted: bytes) -> bool:
        compared.append((shown, wanted))
        return False

    monkeypatch.setattr("trackside.server.security.hmac.compare_digest", compare)
    cookie = f"{guarded.access.cookie}={guarded.access.cookie_value}"
    for told in ({"cookie": cookie}, {"authorization": "Bearer secret-token"}):
        assert guarded.ask("/api/v1/run", host="node-a", **told).status_code == 401
    assert guarded.ask("/api/v1/run?token=secret-token", host="node-a").status_code == 401
    assert len(compared) == 3


def test_no_answer_repeats_the_token(guarded: Site) -> None:
    for path in (*EVERYWHERE[:3], *EVERYWHERE[4:]):
        for token in ("secret-token", "secret-tokem"):
            answer = guarded.ask(f"{path}?token={token}", host="node-a")
            assert token not in answer.text + str(answer.headers), path


def test_the_application_has_no_route_that_changes_anything(site: Site) -> None:
    methods = {method for route in site.app.routes for method in route.methods or ()}
    assert methods == {"GET", "HEAD"}
