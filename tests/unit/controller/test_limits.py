"""Nothing is left out in silence."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import msgspec
import pytest

import trackside
from tests.unit.run.play import Play
from tests.unit.server.made_run import MadeRun
from trackside.controller.limits import HARMLESS, QUIET_S, SAID_OTHERWISE, SENTENCES, LimitWatch, warning_of
from trackside.ingest import listener, names, reader
from trackside.ingest.counters import Counters
from trackside.monitor import buffer
from trackside.run import epochs, events, pace, quota
from trackside.run.inputs import LimitPassed, LimitReached
from trackside.server import connection
from trackside.server.hub import Hub
from trackside.server.routes import series, stream
from trackside.server.tally import Tally
from trackside.sinks import plugins
from trackside.store import writer
from trackside.wire import documents, messages


def counters_of_the_controller() -> set[str]:
    """Names written out in `Controller._counters`, and those of the parts it joins."""
    tree = ast.parse((Path(trackside.__file__).parent / "controller" / "lifecycle.py").read_text())
    (counting,) = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "_counters"]
    written = {
        node.value
        for node in ast.walk(counting)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.strip("_ ")
    }
    parts = {*msgspec.structs.asdict(Counters()), *Hub(MadeRun(), "boot").counters(), *Tally().counters()}
    return written | parts


def test_every_counter_is_harmless_or_has_a_sentence():
    unsaid = {
        name
        for name in counters_of_the_controller()
        if warning_of(name) is None and name not in HARMLESS and not name.startswith(SAID_OTHERWISE)
    }
    assert unsaid == set()
    assert not HARMLESS & SENTENCES.keys()


@pytest.mark.parametrize("name", sorted(SENTENCES))
def test_a_sentence_says_how_many(name):
    kind, text = SENTENCES[name]
    assert "1,234" in text.format(1234)
    assert kind == kind.lower()
    assert len({kind for kind, _ in SENTENCES.values()}) == len(SENTENCES)


def test_a_counter_that_grows_is_a_warning_until_it_stands_still():
    counted = {"values_over_name_limit": 5, "frames": 0, "dropped_calls_of_slow{x}": 0}
    watch = LimitWatch(lambda: dict(counted))
    assert watch.look(0.0) == [], "what was counted before it began is no news"
    counted.update(values_over_name_limit=1205, frames=10**6)
    (reached,) = watch.look(2.0)
    assert isinstance(reached, LimitReached)
    assert (reached.kind, reached.count, reached.text[:6]) == ("values left out", 1200, "1,205 ")
    assert watch.look(2.5) == [], "once a second"
    assert watch.look(2.0 + QUIET_S) == []
    assert watch.look(4.0 + QUIET_S) == [LimitPassed("values left out")]
    assert watch.look(6.0 + QUIET_S) == []
    counted["dropped_calls_of_slow{x}"] = 3
    (reached,) = watch.look(8.0 + QUIET_S)
    assert "the sink slowx missed 3 calls" in reached.text  # type: ignore[union-attr]


def test_the_run_warns_as_long_as_it_lasts():
    play = Play()
    for total in (10, 30):
        play.do(LimitReached("values left out", f"{total} values were left out", total))
        play.wait(5)
    (event,) = play.events("values left out")
    assert (event.count, event.text, event.active) == (40, "30 values were left out", True)
    assert [warning.text for warning in play.run.warnings] == ["30 values were left out"]
    play.do(LimitPassed("values left out"))
    assert play.run.warnings == []


def test_the_documentation_has_every_limit_as_it_is():
    text = (Path(__file__).parents[3] / "docs" / "reference" / "limits.md").read_text()
    for limit in (
        reader.DEFAULT_NAME_LIMIT, names.ALL_NAMES_CHARACTERS, names.NAME_LIMIT_CHARACTERS, epochs.MOST_NAMES,
        epochs.MOST_FIGURES, epochs.MAX_EPOCHS, messages.MOST_METADATA_CHARACTERS, listener.MOST_UNREAD, buffer.MAX_CALLS,
        quota.MOST_EVENTS, events.MAX_LIVE, pace.MOST_PHASES, stream.MOST_CLIENTS, connection.MOST_CONNECTIONS,
        series.MOST_WAITING, series.MOST_POINTS, documents.MOST_LATEST_VALUES, writer.MAX_HOT_ROWS,
        writer.MAX_WAITING_RECORDS, plugins.QUEUE_CALLS,
    ):  # fmt: skip
        assert re.search(rf"(?<![\d,]){limit:,}(?![\d,]*\d)", text), limit
    for kind in (
        "values left out",
        "too many pages",
        "too many questions",
        "journal behind",
        "records lost",
    ):
        assert f"*{kind}*" in text
        assert kind in {known for known, _ in SENTENCES.values()}
