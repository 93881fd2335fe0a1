"""The accessibility scan."""

from playwright.sync_api import Page

from tests.conftest import ROOT

AXE = ROOT / "web/node_modules/axe-core/axe.min.js"


def violations(page: Page) -> list[str]:
    """What axe finds on the page as it is now; the scan is loaded once a page."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run({resultTypes: ['violations']})")
    return [f"{v['id']}: {[n['html'][:300] for n in v['nodes'][:3]]}" for v in found["violations"]]
