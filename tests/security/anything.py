"""Whatever somebody who holds the run's key could send: every kind of message, every field, any value that its type allows."""

from __future__ import annotations

import struct
import types
import typing
from typing import Any

import msgspec
from hypothesis import strategies as st

from trackside.wire import codec, messages

HOSTILE_TEXT = (
    "",
    "\0",
    "../../../etc/passwd",
    "/etc/passwd",
    "a/b/../../c",
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "\x1b]0;owned\x07\x1b[2J",
    "=HYPERLINK(0)",
    "\u202eevil\u202c",
    "\ud7ff\ue000\uffff\U0010ffff",
    "é" * 300,
    "%s%n{0}{}",
    "'; DROP TABLE points; --",
    "root/node-a/rank0",
    "rank0",
    "loss",
    "NaN",
)
INTS = st.sampled_from((0, 1, -1, 2, 3, 255, 2**31 - 1, 2**31, -(2**31) - 1, 2**53, 2**63 - 1, -(2**63), 2**64 - 1))
FLOATS = st.floats() | st.sampled_from((0.0, -0.0, 1e308, -1e308, 1e-320, 1.0, -1.0, 253402300800.0, -1e18))
TEXTS = st.sampled_from(HOSTILE_TEXT) | st.text(max_size=12)
BLOBS = st.binary(max_size=24)


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a field's type."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind in _PLAIN:
        return _PLAIN[kind]
    if origin in (typing.Union, types.UnionType):
        return st.one_of(*map(values_of, arguments))
    if origin is typing.Literal:
        return st.sampled_from(arguments)
    if origin is list:
        return st.lists(values_of(arguments[0]), max_size=4)
    if origin is dict:
        return st.dictionaries(values_of(arguments[0]), values_of(arguments[1]), max_size=4)
    return fields_of(kind)


def fields_of(kind: Any) -> st.SearchStrategy[Any]:
    """Structs of a kind, every field any value of its type."""
    hints = typing.get_type_hints(kind)
    return st.builds(kind, **{name: values_of(hints[name]) for name in kind.__struct_fields__})


def _raw() -> st.SearchStrategy[msgspec.Raw]:
    leaves = st.none() | st.booleans() | INTS | FLOATS | TEXTS
    trees = st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3))
    return trees.map(lambda tree: msgspec.Raw(msgspec.msgpack.encode(tree)))


_PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    int: INTS | st.integers(-3, 70),
    float: FLOATS,
    str: TEXTS,
    bytes: BLOBS,
    bool: st.booleans(),
    type(None): st.none(),
    msgspec.Raw: _raw(),
}


DEFINITIONS = fields_of(messages.SeriesDef) | st.builds(messages.SeriesDef, id=st.integers(0, 4), name=TEXTS)


@st.composite
def columns(draw: st.DrawFn) -> messages.Points:
    """Points whose columns fit each other, with any value in them."""
    calls = draw(st.integers(1, 4))
    widths = draw(st.lists(st.integers(0, 3), min_size=calls, max_size=calls))
    values = sum(widths)
    signed = st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 9) | st.sampled_from((-(2**63), 2**63 - 1))
    series = st.integers(0, 4) | st.sampled_from((65_535, 65_536, 2**32 - 1))
    return messages.Points(
        defs=draw(st.lists(DEFINITIONS, max_size=3)),
        time=_pack("d", draw(st.lists(FLOATS, min_size=calls, max_size=calls))),
        step=_pack("q", draw(st.lists(signed, min_size=calls, max_size=calls))),
        epoch=_pack("i", draw(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=calls, max_size=calls))),
        width=_pack("I", widths),
        series=_pack("I", draw(st.lists(series, min_size=values, max_size=values))),
        value=_pack("d", draw(st.lists(FLOATS, min_size=values, max_size=values))),
    )


@st.composite
def step_times(draw: st.DrawFn) -> messages.StepTimes:
    """Step times whose columns fit each other."""
    rows = draw(st.integers(1, 4))
    names = draw(st.lists(TEXTS | st.sampled_from(("data", "forward", "collective", "rest")), max_size=4))

    def real(count: int) -> bytes:
        return _pack("d", draw(st.lists(FLOATS, min_size=count, max_size=count)))

    whole = st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 50)
    return messages.StepTimes(
        phases=names,
        step=_pack("q", draw(st.lists(whole, min_size=rows, max_size=rows))),
        count=_pack("I", draw(st.lists(st.integers(0, 2**32 - 1), min_size=rows, max_size=rows))),
        ended_at=real(rows),
        wall=real(rows),
        own=real(rows),
        seconds=real(rows * len(names)),
        samples=_pack("q", draw(st.lists(whole, min_size=rows, max_size=rows))),
    )


@st.composite
def module_times(draw: st.DrawFn) -> messages.ModuleTimes:
    """Module times whose columns fit each other."""
    rows = draw(st.integers(0, 4))
    return messages.ModuleTimes(
        passes=draw(values_of(int)),
        on_device=draw(st.booleans()),
        module=_pack("I", draw(st.lists(st.integers(0, 2**32 - 1), min_size=rows, max_size=rows))),
        forward=_pack("d", draw(st.lists(FLOATS, min_size=rows, max_size=rows))),
        backward=_pack("d", draw(st.lists(FLOATS, min_size=rows, max_size=rows))),
        memory=_pack("q", draw(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=rows, max_size=rows))),
        graph=draw(st.none() | TEXTS),
    )


def _pack(kind: str, numbers: list[Any]) -> bytes:
    return struct.pack(f"<{len(numbers)}{kind}", *numbers)


KINDS = tuple(kind for name, kind in codec.UPWARD.items() if name != "hello")
MESSAGES: st.SearchStrategy[messages.Message] = st.one_of(
    columns(), columns(), step_times(), module_times(), *(fields_of(kind) for kind in KINDS)
)


def hellos(session: bytes, run: str) -> st.SearchStrategy[messages.Hello]:
    """Any hello that this link of this run may say."""
    hints = typing.get_type_hints(messages.Hello)
    possible = st.builds(
        messages.Identity,
        rank=st.integers(0, 3),
        local_rank=values_of(int),
        world_size=st.integers(1, 5),
        generation=st.integers(0, 2),
    )
    own = {"session": st.just(session), "run": st.just(run), "identity": possible | values_of(hints["identity"])}
    return st.builds(
        messages.Hello, **{name: values_of(hints[name]) for name in messages.Hello.__struct_fields__} | own
    )


def damaged(frame: bytes) -> st.SearchStrategy[bytes]:
    """A frame with a byte changed, cut short, with something behind it, or with a piece of it twice."""

    def change(at: int, how: int, byte: int) -> bytes:
        at %= len(frame)
        if how == 0:
            return frame[:at] + bytes([byte]) + frame[at + 1 :]
        if how == 1:
            return frame[:at]
        return frame + frame[at:] if how == 2 else frame[:at] + frame[at // 2 :]

    return st.builds(change, st.integers(0, 1 << 20), st.integers(0, 3), st.integers(0, 255))
