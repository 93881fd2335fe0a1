"""Frames as a rank would send them."""

import numpy as np

from trackside.wire import codec, messages


def session_id(number: int) -> bytes:
    return b"s" + number.to_bytes(15, "big")


def hello(
    rank: int = 0,
    *,
    session: bytes | None = None,
    run: str | None = "run-a",
    generation: int = 0,
    identity: messages.Identity | None = None,
) -> bytes:
    own = messages.Identity(rank=rank, local_rank=rank, world_size=8, generation=generation)
    return codec.encode(
        messages.Hello(
            session=session_id(rank) if session is None else session,
            role="rank",
            run=run,
            identity=identity or own,
            host=messages.HostFacts(host="node-a", machine_id="m-a"),
            process=messages.ProcessFacts(pid=100 + rank),
            sent_at=1000.0,
        )
    )


def points(calls: list[dict[int, float]], *, step: int = 0, names: dict[int, str] | None = None) -> messages.Points:
    """One call a step from `step` on, each with {series id: value}."""
    count = len(calls)
    return messages.Points(
        defs=[messages.SeriesDef(id=series, name=name) for series, name in (names or {}).items()],
        time=(1000.0 + np.arange(count, dtype="<f8")).tobytes(),
        step=(step + np.arange(count, dtype="<i8")).tobytes(),
        epoch=np.full(count, -1, "<i4").tobytes(),
        width=np.array([len(call) for call in calls], "<u4").tobytes(),
        series=np.array([series for call in calls for series in call], "<u4").tobytes(),
        value=np.array([value for call in calls for value in call.values()], "<f8").tobytes(),
    )
