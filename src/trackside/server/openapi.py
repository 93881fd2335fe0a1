"""Describes the HTTP interface (OpenAPI 3.1) from the structs it answers with."""

from typing import Any

import msgspec

from trackside._version import __version__
from trackside.server.routes.series import AXES, DEFAULT_POINTS, MOST_POINTS
from trackside.wire import baked, documents

Json = dict[str, Any]
REFERENCE = "#/components/schemas/{name}"
PATH = {
    "name": "path",
    "in": "query",
    "description": "`root`, `root/<host>` or `root/<host>/rank<N>`.",
    "schema": {"type": "string", "default": "root"},
}


def _query(name: str, description: str, schema: Json, *, required: bool = False) -> Json:
    return {"name": name, "in": "query", "required": required, "description": description, "schema": schema}


COUNT: Json = {"type": "integer", "minimum": 1, "maximum": MOST_POINTS, "default": DEFAULT_POINTS}
SERIES_PARAMETERS = [
    _query("metric", "Name of the metric, as it was logged.", {"type": "string"}, required=True),
    PATH,
    _query("x", "What the x column holds.", {"enum": list(AXES), "default": "step"}),
    _query("from", "Smallest x, inclusive.", {"type": "number"}),
    _query("to", "Largest x, inclusive.", {"type": "number"}),
    _query("points", "Most entries wanted; longer series are reduced to buckets that keep their extremes.", COUNT),
]
POINTS = _query("points", "Most samples wanted of each path; fewer where paths are very many.", COUNT)
STREAM_PARAMETERS = [
    PATH,
    _query("lastEventId", "As the header `Last-Event-ID`, for clients that cannot set it.", {"type": "string"}),
    {"name": "Last-Event-ID", "in": "header", "required": False, "schema": {"type": "string"}},
]
STREAM_TEXT = (
    "Server-sent events `hello` (StreamHello), `run` (RunDocument), `ranks` (RankEntry list below the path), `points` "
    "(PointsEvent), `epoch` (EpochRecord), `event` (EventRecord), `resources` (StreamResources), `complete` "
    "(RunDocument), with ids; resumable. Unless `hello.resumed`, the whole state follows."
)


def _json(summary: str, schema: Json, parameters: list[Json] | None = None, errors: tuple[int, ...] = ()) -> Json:
    return _get(summary, {"application/json": {"schema": schema}}, parameters, errors)


def _get(summary: str, content: Json, parameters: list[Json] | None = None, errors: tuple[int, ...] = ()) -> Json:
    refusal = {"application/json": {"schema": _ref(documents.ErrorDocument)}}
    responses: Json = {"200": {"description": summary, "content": content}}
    for status in (*errors, 401, 403):
        responses[str(status)] = {"description": ERRORS[status], "content": refusal}
    get: Json = {"summary": summary, "responses": dict(sorted(responses.items()))}
    if parameters:
        get["parameters"] = parameters
    return {"get": get}


ERRORS = {
    400: "A parameter is not what it must be.",
    401: "The token is missing or wrong; only where the page is not bound to loopback.",
    403: "An unknown host name or a foreign origin.",
    404: "The run has no such thing.",
    503: "Too many viewers, or the disk of the run folder does not answer.",
}


def _ref(document: type[msgspec.Struct]) -> Json:
    return {"$ref": REFERENCE.format(name=document.__name__)}


def _list(document: type[msgspec.Struct]) -> Json:
    return {"type": "array", "items": _ref(document)}


def _paths() -> Json:
    text = {"schema": {"type": "string"}}
    return {
        "/": _get("The page.", {"text/html": text}),
        "/healthz": _json("Whether it answers, and what it counted.", _ref(documents.Health)),
        "/api/v1/run": _json("The run.", _ref(documents.RunDocument)),
        "/api/v1/ranks": _json("One entry per rank.", _list(documents.RankEntry)),
        "/api/v1/tree": _json("The whole job, its hosts and ranks, every node summed up.", _ref(documents.TreeNode)),
        "/api/v1/metrics": _json("Names, units, and where each has values.", _list(documents.MetricEntry)),
        "/api/v1/series": _json("One metric.", _ref(documents.SeriesAnswer), SERIES_PARAMETERS, (400, 404, 503)),
        "/api/v1/epochs": _json("Epochs, oldest first.", _list(documents.EpochRecord)),
        "/api/v1/resources": _json(
            "Resource samples at or below the path, oldest first.", _list(documents.ResourceRecord), [PATH], (404,)
        ),
        "/api/v1/gauges": _json(
            "The same as columns of a few digits, thinned to `points` samples a path, for drawing.",
            _ref(documents.GaugesAnswer),
            [PATH, POINTS],
            (400, 404),
        ),
        "/api/v1/events": _json("Events, oldest first.", _list(documents.EventRecord)),
        "/api/v1/heat": _json(
            "What each rank's steps took over the whole run, thinned to at most 65,536 cells of a quantity.",
            _ref(documents.HeatAnswer),
            [PATH],
            (404,),
        ),
        "/api/v1/graph": _json(
            "The model graph, or null.", {"anyOf": [_ref(documents.GraphDocument), {"type": "null"}]}
        ),
        "/graph.svg": _get("The model as a picture, sanitised.", {"image/svg+xml": text}, None, (404,)),
        "/api/v1/report": _json("What the report holds, curves thinned; kept once the run is over.", _ref(baked.Baked)),
        "/api/v1/stream": _get(STREAM_TEXT, {"text/event-stream": text}, STREAM_PARAMETERS, (404, 503)),
        "/api/v1/openapi.json": _json("This description.", {"type": "object"}),
        "/metrics": _get("Prometheus text: the last value of every metric.", {"text/plain": text}),
        "/report.html": _get("The report as it would be now, one file.", {"text/html": text}, None, (503,)),
    }


def describe_api() -> Json:
    """The whole description, ready for JSON."""
    structs = [
        value
        for value in (vars(documents) | vars(baked)).values()
        if isinstance(value, type) and issubclass(value, documents.Document) and value is not documents.Document
    ]
    _, components = msgspec.json.schema_components(structs, ref_template=REFERENCE)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Trackside",
            "version": __version__,
            "description": (
                "One run, read-only. Every path lies under the page's own prefix. Times are UTC epoch seconds, durations "
                "seconds, memory bytes, ratios 0 to 1; unknown is null; non-finite numbers are strings."
            ),
        },
        "paths": _paths(),
        "components": {"schemas": dict(sorted(components.items()))},
    }
