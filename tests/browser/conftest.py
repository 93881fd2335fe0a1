"""The page over a real controller and real sessions, in a real Chromium."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.browser.fleet import Fleet

SHOTS = Path(__file__).parent / "shots"


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """Two ranks on two hosts, with a page."""
    started = Fleet(tmp_path)
    yield started
    started.close()


@pytest.fixture
def shoot() -> Callable[[Page, str], None]:
    """Takes a picture of the page for whoever changes it; the folder is not committed."""

    def take(page: Page, name: str) -> None:
        SHOTS.mkdir(exist_ok=True)
        page.screenshot(path=SHOTS / f"{name}.png")

    return take
