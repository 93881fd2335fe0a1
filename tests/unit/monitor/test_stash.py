"""What is set before the link is up."""

from trackside.monitor.stash import Stash
from trackside.wire import messages

PORT = messages.PortWish(port=7117)
SVG = messages.SetGraph(svg="<svg/>", label="net", hash="abc")
METADATA = messages.SetMetadata(text="{}")
WATCHED = messages.SetMetadata(watched={"total": 1})
HARDWARE = messages.SetHardware(cpu="cpu")


def test_b07_it_is_drained_once_in_a_fixed_order() -> None:
    stash = Stash()
    for message in (HARDWARE, METADATA, SVG, PORT, WATCHED):
        assert stash.put(message)
    assert stash.drain() == [PORT, SVG, WATCHED, METADATA, HARDWARE]
    assert stash.drain() == []


def test_b06_the_last_write_of_a_slot_wins_and_an_absent_label_clears_nothing() -> None:
    stash = Stash()
    stash.put(PORT)
    stash.put(messages.PortWish(port=1))
    stash.put(SVG)
    stash.put(messages.SetGraph(svg="<svg>2</svg>"))
    stash.put(messages.SetGraph(label="other"))
    stash.put(METADATA)
    stash.put(messages.SetMetadata(text="[]"))
    assert stash.drain() == [
        messages.PortWish(port=1),
        messages.SetGraph(svg="<svg>2</svg>", label="other", hash="abc"),
        messages.SetMetadata(text="[]"),
    ]


def test_b08_graph_metadata_and_hardware_need_no_port() -> None:
    stash = Stash()
    for message in (SVG, METADATA, HARDWARE):
        stash.put(message)
    assert stash.drain() == [SVG, METADATA, HARDWARE]


def test_a_page_that_was_wished_for_stays_wished_for_when_it_has_been_sent() -> None:
    stash = Stash()
    stash.put(METADATA)
    assert not stash.wants_page
    stash.put(PORT)
    stash.drain()
    assert stash.wants_page


def test_what_has_no_slot_is_not_taken() -> None:
    assert not Stash().put(messages.SetPlan(epochs=1))
    assert Stash().drain() == []


class Interrupted:
    """A lock that somebody else waits for: whoever leaves it lets the other write first."""

    def __init__(self, stash: Stash, other: messages.Upward) -> None:
        self._stash, self._other = stash, other

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        other, self._other = self._other, PORT
        if other is not PORT:
            self._stash.put(other)


def test_b07_what_is_written_while_it_is_drained_comes_with_the_next_drain() -> None:
    stash = Stash()
    stash.put(METADATA)
    later = messages.PortWish(port=1)
    stash._lock = Interrupted(stash, later)  # type: ignore[assignment]
    assert stash.drain() == [METADATA]
    assert stash.drain() == [later]
    assert stash.drain() == []


def test_b06_an_absent_label_or_hash_clears_neither_and_a_drawing_does_not_clear_the_other() -> None:
    stash = Stash()
    stash.put(messages.SetGraph(label="net", hash="abc"))
    stash.put(messages.SetGraph(svg="<svg/>", hash="def"))
    stash.put(messages.SetGraph(svg="<svg>2</svg>"))
    assert stash.drain() == [messages.SetGraph(svg="<svg>2</svg>", label="net", hash="def")]
