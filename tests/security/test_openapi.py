"""The served description is true: whatever it allows is asked of a real server, and every answer is as it says."""

import http.client
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import checks

from tests.browser.fleet import Fleet
from tests.security.hostile import TEXTS

CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]
STREAM = "/api/v1/stream"
some = settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
plenty = settings(some, max_examples=400)


def ask_everything(fleet: Fleet, how: settings) -> int:
    """Ask each described address with parameters that fit, and with some that do not; return how many there are."""
    schema = schemathesis.openapi.from_url(f"{fleet.url}api/v1/openapi.json")
    operations = [found.ok() for found in schema.exclude(path=STREAM).get_all_operations()]
    for operation in operations:
        cases = operation.as_strategy()
        if operation.query:
            cases |= operation.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE)

        @how
        @given(case=cases)
        def ask(case: Any) -> None:
            case.call_and_validate(checks=CHECKS)

        if operation.query:
            ask()
        else:
            operation.Case().call_and_validate(checks=CHECKS)
    return len(operations)


def test_every_answer_is_as_it_is_described(fleet: Fleet) -> None:
    assert ask_everything(fleet, some) >= 15


@pytest.mark.long
def test_every_answer_is_as_it_is_described_at_length(fleet: Fleet) -> None:
    ask_everything(fleet, plenty)


@settings(some, max_examples=40)
@given(
    path=st.sampled_from(["root", "root/node-a", "root/node-b/rank1", *TEXTS.values()]) | st.text(max_size=30),
    last=st.sampled_from(["", "x-1", "-", "0"]) | st.text(max_size=30),
    head=st.booleans(),
)
def test_the_stream_takes_any_question(fleet: Fleet, path: str, last: str, head: bool) -> None:
    connection = http.client.HTTPConnection(urlsplit(fleet.url).netloc, timeout=20)
    query = urlencode({"path": path, "lastEventId": last}, errors="replace")
    connection.request("HEAD" if head else "GET", f"{STREAM}?{query}")
    answer = connection.getresponse()
    assert answer.status in (200, 404)
    if answer.status == 200 and not head:
        assert answer.read(5) == b"retry"
    connection.sock.close() if connection.sock else None
    answer.close()
    connection.close()
