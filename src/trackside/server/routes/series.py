"""Chart answers: validated, cached for a moment, one query for however many viewers ask the same."""

import asyncio
import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import get_args

from starlette.requests import Request
from starlette.responses import Response

from trackside.server import answers
from trackside.server.answers import AnswerError
from trackside.server.encoding import encode
from trackside.server.paths import known_path
from trackside.server.tally import Tally
from trackside.sinks.protocol import RunSource
from trackside.wire.documents import XAxis

DEFAULT_POINTS = 1000
MOST_POINTS = 10_000
KEPT_S = 0.2
KEPT_BYTES = 8 * 1024 * 1024
MOST_WAITING = 256
"""Different questions that may wait for an answer; a page with all its charts in view asks a few dozen."""
AXES: tuple[XAxis, ...] = get_args(XAxis)


@dataclass(frozen=True, slots=True)
class Question:
    """What a chart asks."""

    metric: str
    path: str
    x: XAxis
    start: float | None
    end: float | None
    points: int


class SeriesRoute:
    """`/api/v1/series`.

    Args:
        source: answers the questions.
        monotonic: seconds.
        tally: counts what is refused.
    """

    def __init__(self, source: RunSource, monotonic: Callable[[], float], tally: Tally) -> None:
        self._source = source
        self._monotonic = monotonic
        self._tally = tally
        self._kept: OrderedDict[Question, tuple[float, bytes]] = OrderedDict()
        self._kept_bytes = 0
        self._asked: dict[Question, asyncio.Task[bytes]] = {}

    async def series(self, request: Request) -> Response:
        question = read_question(request)
        kept = self._kept.get(question)
        content = kept[1] if kept is not None and kept[0] > self._monotonic() else await self._shared(question)
        return await answers.body(request, content, "application/json")

    async def _shared(self, question: Question) -> bytes:
        """Ask once for all who wait; one who leaves does not take the answer from the others."""
        task = self._asked.get(question)
        if task is None:
            if len(self._asked) >= MOST_WAITING:
                self._tally.charts_refused += 1
                text = f"{MOST_WAITING} other chart questions wait for their answers; ask again in a moment."
                raise AnswerError(503, "too_many_questions", text, {"Retry-After": "1"})
            task = self._asked[question] = asyncio.create_task(self._ask(question))
            task.add_done_callback(lambda _done: self._asked.pop(question, None))
        return await asyncio.shield(task)

    async def _ask(self, question: Question) -> bytes:
        known_path(self._source, question.path)
        try:
            answer = await self._source.series(
                question.metric, question.path, question.x, question.start, question.end, question.points
            )
        except KeyError as missing:
            raise AnswerError(
                404,
                "unknown_metric",
                f"This run has no values of a metric {question.metric[:200]!r} at {question.path[:200]!r}; "
                "see api/v1/metrics for those it has.",
            ) from missing
        content = encode(answer)
        self._keep(question, content)
        return content

    def _keep(self, question: Question, content: bytes) -> None:
        """For the next who ask the same in a moment; what is out of date, or too much, goes."""
        now = self._monotonic()
        self._drop(question)
        self._kept[question] = (now + KEPT_S, content)
        self._kept_bytes += len(content)
        while self._kept and (self._kept_bytes > KEPT_BYTES or next(iter(self._kept.values()))[0] <= now):
            self._drop(next(iter(self._kept)))

    def _drop(self, question: Question) -> None:
        dropped = self._kept.pop(question, None)
        self._kept_bytes -= len(dropped[1]) if dropped is not None else 0


def read_question(request: Request) -> Question:
    """Read the parameters.

    Raises:
        AnswerError: 400, one is missing or not what it must be.
    """
    query = request.query_params
    metric = query.get("metric")
    if not metric:
        raise AnswerError(400, "metric_missing", "Say which metric: api/v1/series?metric=loss")
    x = query.get("x", "step")
    if x not in AXES:
        raise AnswerError(400, "bad_x", f"x is {x[:50]!r}; it must be one of {', '.join(AXES)}.")
    start, end = _bound(query.get("from"), "from"), _bound(query.get("to"), "to")
    if start is not None and end is not None and start > end:
        raise AnswerError(400, "bad_range", f"from is {start:g} and to is {end:g}; from must not be above to.")
    return Question(metric, query.get("path", "root"), x, start, end, read_points(query.get("points")))


def _bound(text: str | None, name: str) -> float | None:
    if text is None or text == "":
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise AnswerError(400, f"bad_{name}", f"{name} is {text[:50]!r}; it must be a finite number.")
    return value


def read_points(text: str | None) -> int:
    """How many points are wanted.

    Raises:
        AnswerError: 400, not a number from 1 to `MOST_POINTS`.
    """
    if text is None or text == "":
        return DEFAULT_POINTS
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text[:9]) <= MOST_POINTS or len(text) > 9:
        raise AnswerError(400, "bad_points", f"points is {text[:50]!r}; it must be a number from 1 to {MOST_POINTS:,}.")
    return int(text)
