"""Very many readers, slow ones, deaf ones, half ones: the ranks and the other pages notice nothing."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.process.job import wait_for
from tests.process.test_floods import MOST_BYTES, Shore
from trackside.server.connection import MOST_CONNECTIONS
from trackside.server.routes.stream import MOST_CLIENTS

VIEWERS = Path(__file__).parent / "scripts" / "viewers.py"


@pytest.fixture(scope="module")
def shore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shore]:
    """One controller for all crowds."""
    made = Shore(tmp_path_factory.mktemp("shore"))
    yield made
    made.close()


def crowd(shore: Shore, kind: str, count: int, seconds: float) -> dict[str, int]:
    command = [sys.executable, str(VIEWERS), shore.fleet.url, kind, str(count), str(seconds)]
    said: dict[str, Any] = json.loads(shore.outlast(command, f"{count} {kind}"))
    assert shore.peak_bytes < MOST_BYTES, f"{shore.peak_bytes / 1e6:.0f} MB"
    print(f"{kind}: {said}, {shore.peak_bytes / 1e6:.0f} MB", file=sys.stderr)
    return said


def all_have_gone(shore: Shore) -> None:
    """Nobody is left but the two pages of the shore and who asks."""
    wait_for(lambda: shore.counters()["http_connections"] <= 6, 30, "the crowd's connections to be given back")
    wait_for(lambda: shore.counters()["stream_clients"] == 2, 30, "the streams of the two pages alone")


def test_a_hundred_pages_at_once(shore: Shore) -> None:
    said = crowd(shore, "streams", 100, 2.0)
    assert (said["200"], said["saw points"]) == (100, 100)
    all_have_gone(shore)


@pytest.mark.parametrize("kind", ["deaf", "slow", "halves"])
def test_clients_that_are_no_use(shore: Shore, kind: str) -> None:
    crowd(shore, kind, 60, 1.5)
    all_have_gone(shore)


def test_questions_without_measure_are_answered_in_words(shore: Shore) -> None:
    said = crowd(shore, "giants", 20, 10.0)
    assert said["400"] == 8, "a giant number, and an address longer than a request may be"
    assert said["404"] == 12, "paths that there are not"


def test_very_many_charts_at_once_are_answered_or_put_off(shore: Shore) -> None:
    said = crowd(shore, "charts", 400, 20.0)
    assert said["200"] > 0
    assert said["200"] + said.get("503", 0) == 400
    if said.get("503"):
        wait_for(lambda: "too many questions" in shore.warnings(), 10, "a warning")
        assert shore.counters()["chart_questions_refused"] == said["503"]


@pytest.mark.long
def test_a_thousand_pages_at_once(shore: Shore) -> None:
    said = crowd(shore, "streams", 1000, 20.0)
    before = 2  # of the shore
    assert said["200"] <= MOST_CLIENTS - before
    assert said["200"] >= MOST_CLIENTS // 2, said
    assert said["200"] + said["503"] + said.get("ended", 0) == 1000
    wait_for(lambda: shore.events("too many pages") or shore.events("too many connections"), 10, "a warning")
    all_have_gone(shore)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["deaf", "slow", "halves"])
def test_more_useless_clients_than_there_are_places(shore: Shore, kind: str) -> None:
    crowd(shore, kind, MOST_CONNECTIONS + 100, 20.0)
    all_have_gone(shore)


def test_an_endless_question_is_not_listened_to(shore: Shore) -> None:
    host, port = shore.fleet.url.removeprefix("http://").strip("/").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as endless:
        endless.sendall(b"GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        answer = b""
        while b"has no body" not in answer and (piece := endless.recv(4096)):
            answer += piece
        assert b" 413 " in answer
        assert b"has no body" in answer
    shore.stays_live("after an endless question")
