"""A controller's ingest and store without its loop: frames in, a run folder out."""

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import numpy as np

from tests.unit.ingest.fake_rank import hello, points, session_id
from trackside.ingest.reader import FrameReader, TableSnapshot
from trackside.run.inputs import MetricAppeared, PointsArrived, SessionOpened
from trackside.store import Resumption, RunFolder, StoreStatus, StoreWriter, find_resumption
from trackside.store.journal import Frame
from trackside.wire import codec, messages
from trackside.wire.columns import PointBatch
from trackside.wire.ids import rank_path

RUN = "run-a"
DEADLINE_S = 20.0


def wait_until(condition: Callable[[], bool], what: str = "it") -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen within {DEADLINE_S} s"
        time.sleep(0.005)


class Station:
    """Takes frames as a controller does and keeps account of what was acknowledged."""

    def __init__(self, folder: RunFolder, resumption: Resumption | None = None) -> None:
        self.folder = folder
        self.durable: dict[bytes, int] = {}
        self.said: list[StoreStatus] = []
        self.checkpoints_wanted = 0
        self.seqs: dict[int, int] = {}
        self.writer = StoreWriter(
            folder,
            on_durable=self._note,
            on_status=self.said.append,
            on_checkpoint_wanted=self._want,
            next_file=1 if resumption is None else resumption.next_file,
        )
        self.asked: list[bytes] = []
        self.reader = FrameReader(
            RUN,
            keep=self.writer.journal,
            send=lambda *_: None,
            ask_again=self.asked.append,
            has_room=self.writer.has_room,
        )
        if resumption is not None:
            self._go_on(resumption)
        self.writer.start()

    @classmethod
    def resume(cls, folder: RunFolder) -> "Station":
        return cls(folder, find_resumption(folder))

    def greet(self, rank: int, generation: int = 0, session: int | None = None) -> None:
        identity = session_id(rank if session is None else session)
        self.reader.feed(identity, hello(rank, session=identity, generation=generation), time.time())
        self._apply()

    def log(self, rank: int, step: int, calls: list[dict[str, float]], *, session: int | None = None) -> int:
        """Log values by name from a step on; return the frame's sequence."""
        number = rank if session is None else session
        seq = self.seqs[number] = self.seqs.get(number, 0) + 1
        names = sorted({name for call in calls for name in call})
        ids = {name: at for at, name in enumerate(names)}
        message = points(
            [{ids[name]: value for name, value in call.items()} for call in calls],
            step=step,
            names={at: name for name, at in ids.items()},
        )
        self.feed(number, message, seq)
        return seq

    def feed(self, session: int, message: messages.Message, seq: int) -> None:
        self.reader.feed(session_id(session), codec.encode(message, seq), time.time())
        self._apply()

    def wait_durable(self) -> None:
        """Until everything that was logged is on the disk."""
        want = {session_id(number): seq for number, seq in self.seqs.items()}
        wait_until(
            lambda: all(self.durable.get(key, 0) >= seq for key, seq in want.items()), "the last acknowledgement"
        )

    def checkpoint(self) -> None:
        self._apply()
        self.writer.checkpoint(msgspec.msgpack.encode(self.reader.snapshot()))

    def rotate(self) -> None:
        """A checkpoint, and wait until what came before is a segment."""
        wait_until(lambda: self.writer.status().waiting_bytes == 0, "the commit")
        before = self.folder.journal_files()
        self.checkpoint()
        wait_until(lambda: not set(before) & set(self.folder.journal_files()), "the rotation")

    def close(self, *, clean: bool = True) -> bool:
        return self.writer.close(clean=clean, deadline_seconds=DEADLINE_S)

    def _go_on(self, resumption: Resumption) -> None:
        if resumption.checkpoint is not None:
            self.reader.restore(msgspec.msgpack.decode(resumption.checkpoint, type=TableSnapshot))
        for metric, entry in enumerate(self.reader.snapshot().names):
            self.writer.define_metric(metric, entry.name)
        for known in self.reader.snapshot().sessions.values():
            if known.rank is not None:
                self.writer.define_rank(known.rank, known.generation, rank_path("node-a", known.rank))
        for frame in resumption.frames():
            if isinstance(frame, Frame):
                self.reader.feed(frame.session, frame.data, frame.arrival, replaying=True)
                self._apply()
        self.reader.replayed()

    def _apply(self) -> None:
        for happened in self.reader.take():
            if isinstance(happened, PointsArrived):
                self.writer.points(happened.batch)
            elif isinstance(happened, MetricAppeared):
                self.writer.define_metric(happened.id, happened.name)
            elif isinstance(happened, SessionOpened) and happened.hello.identity is not None:
                identity = happened.hello.identity
                self.writer.define_rank(identity.rank, identity.generation, rank_path("node-a", identity.rank))

    def _note(self, marks: dict[bytes, int]) -> None:
        for session, seq in marks.items():
            self.durable[session] = max(seq, self.durable.get(session, 0))

    def _want(self) -> None:
        self.checkpoints_wanted += 1


@contextlib.contextmanager
def open_station(folder: RunFolder) -> Iterator[Station]:
    station = Station(folder)
    try:
        yield station
    finally:
        station.close(clean=False)


def new_folder(base: Path, name: str = "train") -> RunFolder:
    return RunFolder.create(base, name, 1_700_000_000.0)


def batch(
    value: object, *, step: object = None, metric: int = 0, rank: int = 0, generation: int = 0, time_s: object = None
) -> PointBatch:
    values = np.atleast_1d(np.asarray(value, np.float64))
    count = len(values)
    steps = np.arange(count) if step is None else np.broadcast_to(step, count)
    return PointBatch(
        metric=np.full(count, metric, np.int32),
        rank=np.full(count, rank, np.int32),
        generation=np.full(count, generation, np.int32),
        epoch=np.full(count, -1, np.int32),
        step=steps.astype(np.int64),
        time=(1000.0 + steps if time_s is None else np.broadcast_to(time_s, count)).astype(np.float64),
        value=values,
    )
