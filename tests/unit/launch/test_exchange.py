"""The controller's address in a real rendezvous store."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from trackside.launch import exchange


@pytest.fixture(scope="module")
def dist() -> object:
    return pytest.importorskip("torch.distributed")


@pytest.fixture
def stores(dist: object) -> tuple[object, object]:
    """Two hosts' connections to one store."""
    server = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)  # type: ignore[attr-defined]
    client = dist.TCPStore("127.0.0.1", server.port, is_master=False, wait_for_workers=False)  # type: ignore[attr-defined]
    return dist.PrefixStore("round_1", server), dist.PrefixStore("round_1", client)  # type: ignore[attr-defined]


def test_a_host_that_asks_early_gets_the_address_when_it_is_there(stores: tuple[object, object]) -> None:
    late = threading.Timer(0.1, exchange.publish, (stores[0], "trackside1:abc"))
    late.start()
    assert exchange.look_up(stores[1], wait_s=10) == "trackside1:abc"
    late.join(10)


def test_an_empty_address_says_that_there_is_none(stores: tuple[object, object]) -> None:
    exchange.publish(stores[0], "")
    assert exchange.look_up(stores[1], wait_s=10) is None


def test_peers_that_publish_nothing_cost_a_bounded_wait(stores: tuple[object, object]) -> None:
    began = time.monotonic()
    assert exchange.look_up(stores[1], wait_s=0.2) is None
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("wanted", [(0, 3), (3, 0)])  # a host that has just joined may get any group rank
def test_b31_hosts_agree_on_the_highest_generation(stores: tuple[object, object], wanted: tuple[int, int]) -> None:
    with ThreadPoolExecutor() as pool:
        first = pool.submit(exchange.agree, stores[0], wanted[0], 0, 2)
        second = pool.submit(exchange.agree, stores[1], wanted[1], 1, 2)
        assert (first.result(30), second.result(30)) == (3, 3)


def test_b31_a_store_that_remembers_the_last_rendezvous_does_not_hold_the_generation_back(
    stores: tuple[object, object],
) -> None:
    with ThreadPoolExecutor() as pool:
        for generation in range(3):
            first = pool.submit(exchange.agree, stores[0], generation, 0, 2)
            second = pool.submit(exchange.agree, stores[1], generation, 1, 2)
            assert (first.result(30), second.result(30)) == (generation, generation)


def test_hosts_that_say_nothing_of_their_generation_cost_a_bounded_wait(stores: tuple[object, object]) -> None:
    assert exchange.agree(stores[0], 2, 0, 2, wait_s=0.1) == 2
    assert exchange.agree(stores[1], 5, 2, 3, wait_s=0.1) == 5


def test_a_host_alone_asks_nobody() -> None:
    assert exchange.agree(Broken(), 4, 0, 1) == 4


class Broken:
    def set(self, *_: object) -> None:
        raise RuntimeError("connection reset")

    def wait(self, *_: object) -> None:
        raise RuntimeError("connection reset")


def test_a_store_that_breaks_costs_the_address_and_nothing_else() -> None:
    exchange.publish(Broken(), "trackside1:abc")
    assert exchange.agree(Broken(), 2, 1, 2) == 2
    assert exchange.look_up(Broken()) is None
