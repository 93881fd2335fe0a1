"""What others do at our ports: one who reads a hundred times too slowly, random bytes, what a rank has sent sent again."""

import random
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from tests.faults.job import WatchedTraining
from tests.faults.outcomes import Tell, show
from tests.process.job import wait_for

pytestmark = pytest.mark.usefixtures("leak_check")
Watch = Callable[..., WatchedTraining]
CONNECTIONS = 60


def page_port(training: WatchedTraining) -> int:
    return int(training.url.rsplit(":", 1)[1].strip("/\n"))


class SlowReader:
    """Asks for the page's stream and takes a hundred bytes a second of it, where there are many thousands."""

    def __init__(self, port: int) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self._socket.connect(("127.0.0.1", port))
        self._socket.sendall(b"GET /api/v1/stream?path=root HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while not self._stop.wait(0.1) and self._socket.recv(10):
            pass

    def close(self) -> None:
        self._stop.set()
        self._thread.join(5)
        self._socket.close()


@pytest.fixture
def slow_readers() -> Iterator[list[SlowReader]]:
    readers: list[SlowReader] = []
    yield readers
    for reader in readers:
        reader.close()


def test_a_page_that_reads_a_hundred_times_too_slowly_is_alone_with_it(
    watch: Watch, tell: Tell, slow_readers: list[SlowReader]
) -> None:
    training = watch(hz=500)
    training.wait_for_step(30)
    slow_readers += [SlowReader(page_port(training)) for _ in range(3)]
    wait_for(lambda: training.get("healthz")["counters"]["stream_clients"] >= 4, 20, "three more pages")
    before = len(training.page.steps("loss"))
    goes_on = training.moves_on(1000)
    shown = wait_for(lambda: len(training.page.steps("loss")) > before + 500, 30, "values in the other page")
    training.end()
    training.settle()
    tell(
        "three pages read a hundred times too slowly",
        training=training.same(),
        points=training.complete(),
        page=(show("another one goes on", (goes_on, shown), (True, True)), training.page_ended()),
        report=training.reported(),
    )


def pour(port: int, data: bytes) -> None:
    """Send it all, whatever the other side makes of it."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as stranger:
        try:
            stranger.sendall(data)
            stranger.shutdown(socket.SHUT_WR)
            stranger.settimeout(0.2)
            while stranger.recv(65_536):
                pass
        except OSError:
            return


@pytest.mark.parametrize("whose", ["page", "link"])
def test_random_bytes_at_a_port_harm_nobody(watch: Watch, tell: Tell, whose: str) -> None:
    training = watch()
    training.wait_for_step(30)
    port = page_port(training) if whose == "page" else training.controller.address.port
    chance = random.Random(whose)
    for _ in range(CONNECTIONS):
        pour(port, chance.randbytes(chance.randrange(1, 100_000)))
    goes_on = show("goes on", training.moves_on(), True)
    training.end()
    training.settle()
    tell(
        f"{CONNECTIONS} connections pour random bytes into the port of the {whose}",
        training=training.same(),
        points=training.complete(),
        page=(goes_on, training.page_ended()),
        report=training.reported(),
    )


def test_what_a_rank_has_sent_is_of_no_use_to_whoever_sends_it_again(watch: Watch, tell: Tell) -> None:
    """Recorded on the way, and sent again from other connections: whole, in part, and with one byte changed."""
    training = watch()
    training.wait_for_step(100)
    recorded = training.link.recorded
    for piece in (recorded, recorded[: len(recorded) // 2], bytes([*recorded[:-1], recorded[-1] ^ 1])):
        pour(training.controller.address.port, piece)
    (rank,) = training.get("api/v1/ranks")
    alone = show("no other rank, and this one is alive", (len(recorded) > 1000, rank["state"]), (True, "alive"))
    goes_on = show("goes on", training.moves_on(), True)
    training.end()
    training.settle()
    tell(
        "what a rank has sent is recorded and sent again, whole, in part and forged",
        training=training.same(),
        points=training.complete(),
        page=(alone, goes_on, training.page_ended()),
        report=training.reported(),
    )
