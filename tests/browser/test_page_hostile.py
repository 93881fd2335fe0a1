"""Texts and drawings from a rank that would do harm, on the page and in the report: they are shown, and nothing else happens."""

import re
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

from tests.browser.fleet import Fleet
from tests.security.hostile import CANARY, TEXTS, fill

TABS = ("Overview", "Ranks", "Resources", "Model", "Epochs", "Config", "Events")
WATCH = """
window.__broken = [];
document.addEventListener('securitypolicyviolation', e => window.__broken.push(e.violatedDirective + ' ' + e.blockedURI));
"""
LOOK = """() => ({
  owned: window.__owned ?? 0,
  broken: window.__broken,
  handlers: [...document.querySelectorAll('*')].flatMap(e =>
    [...e.attributes].filter(a => a.name.startsWith('on')).map(a => e.tagName + ' ' + a.name)),
  foreign: [...document.querySelectorAll('iframe, object, embed, base, form, link[href*="outside"], img[src*="outside"], '
    + 'img[src="x"], foreignObject, animate, a[href^="javascript:"], svg script')].map(e => e.outerHTML.slice(0, 200)),
  scripts: document.querySelectorAll('script:not([type="application/json"])').length,
  ruled: /[\\u202a-\\u202e\\u2066-\\u2069\\x1b\\x9b\\x07]/.test(document.body.innerText + document.title),
})"""


def look(page: Page, scripts: int) -> None:
    page.evaluate("new Promise(done => setTimeout(done, 0))")
    expected = {"owned": 0, "broken": [], "handlers": [], "foreign": [], "scripts": scripts, "ruled": False}
    assert page.evaluate(LOOK) == expected


def go_round(page: Page, scripts: int) -> dict[str, str]:
    """Every tab, with what can be unfolded unfolded, and pointed at; returns what each says."""
    said = {}
    for tab in TABS:
        page.get_by_role("navigation", name="Parts").get_by_role("link", name=re.compile(f"^{tab}")).click()
        for folded in page.locator("main details:not([open]) > summary").all():
            folded.click()
        for name in page.locator("main bdi:visible").all()[:5]:
            name.hover(force=True, timeout=2000)
        look(page, scripts)
        said[tab] = page.locator("main").inner_text()
    return said


def see_as_text(said: dict[str, str]) -> None:
    for tab, names in {
        "Overview": ("image", "script"),
        "Events": ("image", "end of script"),
        "Config": ("image", "frame"),
    }.items():
        for name in names:
            assert TEXTS[name][:24] in said[tab], (tab, name)


def test_d83_nothing_that_a_rank_says_runs_on_the_page(fleet: Fleet, page: Page) -> None:
    fill(fleet)
    page.add_init_script(WATCH)
    page.goto(fleet.url)
    expect(page.get_by_role("heading", level=1)).to_have_text(re.compile("</script><script>"))
    see_as_text(go_round(page, scripts=2))
    expect(page).to_have_title(re.compile("</script>"))
    page.goto(f"{fleet.url}?path=%3Cimg%20src%3Dx%20onerror%3D{CANARY}%3E&tab=%3Cscript%3E#<img src=x>")
    look(page, scripts=2)


def test_d83_the_drawing_alone_runs_nothing_either(fleet: Fleet, page: Page) -> None:
    fill(fleet)
    page.add_init_script(WATCH)
    answer = page.goto(f"{fleet.url}graph.svg")
    assert answer is not None
    assert "sandbox" in answer.headers["content-security-policy"]
    assert page.evaluate("[window.__owned ?? 0, window.__broken]") == [0, []]
    assert "drawn" in page.content()


def test_d83_nothing_that_a_rank_says_runs_in_the_report(fleet: Fleet, page: Page, tmp_path: Path) -> None:
    fill(fleet)
    report = tmp_path / "report.html"
    answer = page.request.get(f"{fleet.url}report.html")
    assert answer.headers["content-security-policy"] == "default-src 'none'; sandbox"
    report.write_bytes(answer.body())
    page.add_init_script(WATCH)
    page.goto(report.as_uri())
    expect(page.get_by_role("heading", level=1)).to_have_text(re.compile("</script><script>"))
    policy = page.locator("meta[http-equiv=Content-Security-Policy]").get_attribute("content") or ""
    rules = dict(rule.strip().partition(" ")[::2] for rule in policy.split(";"))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    hashes = rules["script-src"].split()
    assert all(re.fullmatch(r"'sha256-[A-Za-z0-9+/=]+'", part) for part in hashes)
    assert "http" not in policy
    see_as_text(go_round(page, scripts=len(hashes)))


def test_a_table_that_is_saved_begins_no_formula(fleet: Fleet, page: Page) -> None:
    fill(fleet)
    page.goto(fleet.url)
    page.get_by_role("navigation", name="Parts").get_by_role("link", name=re.compile("^Epochs")).click()
    with page.expect_download() as saving:
        page.get_by_role("button", name=re.compile("CSV")).first.click()
    name = saving.value.suggested_filename
    assert re.fullmatch(r"[A-Za-z0-9._-]+-epochs\.csv", name), name
    text = Path(saving.value.path()).read_text(encoding="utf-8")
    assert "'=HYPERLINK" in text
    assert not re.search(r"""(^|,)"?[=+@]""", text, re.MULTILINE)


def test_the_canary_sings(page: Page) -> None:
    """Each of the ways in which the tests above would notice something."""
    page.add_init_script(WATCH)
    page.goto("about:blank")
    page.set_content(f'<svg onload="{CANARY}"></svg><a href="javascript:1">\u202ex</a>')
    found: dict[str, Any] = page.evaluate(LOOK)
    assert (found["owned"], len(found["handlers"]), len(found["foreign"]), found["ruled"]) == (1, 1, 1, True)
