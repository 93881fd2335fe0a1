import msgspec
import pytest

from tests.unit.ingest.fake_rank import hello, points, session_id
from trackside.ingest.reader import FrameReader, TableSnapshot
from trackside.run.inputs import FrameRefused, MessageArrived, MetricAppeared, PointsArrived, SessionOpened
from trackside.wire import codec, messages


class Link:
    """A reader and all that it does to the outside."""

    def __init__(self, name_limit: int = 10_000) -> None:
        self.kept: list[tuple[bytes, int]] = []
        self.sent: list[tuple[bytes, messages.Downward]] = []
        self.asked: list[bytes] = []
        self.has_room = True
        self.reader = FrameReader(
            "run-a",
            keep=lambda session, seq, _at, _frame: self.kept.append((session, seq)),
            send=lambda session, message: self.sent.append((session, message)),
            ask_again=self.asked.append,
            has_room=lambda is_bulk: self.has_room,
            name_limit=name_limit,
        )

    def feed(self, rank: int, message: messages.Message | bytes, seq: int = 0, at: float = 1000.0, **options):
        frame = message if isinstance(message, bytes) else codec.encode(message, seq)
        self.reader.feed(session_id(rank), frame, at, **options)

    def take(self):
        return self.reader.take()


@pytest.fixture
def link() -> Link:
    return Link()


def values_of(batch) -> list[tuple[int, int, int, float]]:
    return list(zip(batch.metric.tolist(), batch.rank.tolist(), batch.step.tolist(), batch.value.tolist(), strict=True))


def test_points_of_all_sessions_become_one_batch_with_the_runs_metric_ids(link):
    link.feed(0, hello(0))
    link.feed(1, hello(1, generation=2))
    link.feed(0, points([{0: 1.0, 1: 2.0}, {0: 3.0}], names={0: "loss", 1: "lr"}), 1)
    link.feed(1, points([{7: 5.0}], step=9, names={7: "lr"}), 1)
    opened0, opened1, loss, lr, arrived = link.take()
    assert (opened0.hello.identity.rank, opened1.hello.identity.rank) == (0, 1)
    assert (loss, lr) == (MetricAppeared(0, "loss", None, "mean"), MetricAppeared(1, "lr", None, "mean"))
    assert isinstance(arrived, PointsArrived)
    assert values_of(arrived.batch) == [(0, 0, 0, 1.0), (1, 0, 0, 2.0), (0, 0, 1, 3.0), (1, 1, 9, 5.0)]
    assert arrived.batch.generation.tolist() == [0, 0, 0, 2]
    assert arrived.batch.epoch.tolist() == [-1] * 4
    assert arrived.batch.time.tolist() == [1000.0, 1000.0, 1001.0, 1000.0]
    assert link.kept == [(session_id(0), 0), (session_id(1), 0), (session_id(0), 1), (session_id(1), 1)]
    assert link.take() == []


def test_d02_a_process_that_learns_its_rank_late_is_that_rank_from_then_on(link):
    link.feed(0, hello(0))
    link.feed(0, points([{0: 1.0}], names={0: "loss"}), 1)
    said = codec.decode_body(codec.open_envelope(hello(0)))
    identity = messages.Identity(rank=5, local_rank=1, world_size=8)
    link.feed(0, codec.encode(msgspec.structs.replace(said, identity=identity)))
    link.feed(0, points([{0: 2.0}], step=1), 2)
    batches = [i for i in link.take() if isinstance(i, PointsArrived)]
    assert [v for b in batches for v in values_of(b.batch)] == [(0, 0, 0, 1.0), (0, 5, 1, 2.0)]


def test_what_is_sent_again_is_taken_once(link):
    link.feed(0, hello(0))
    first = points([{0: 1.0}], names={0: "loss"})
    link.feed(0, first, 1)
    link.feed(0, hello(0))
    link.feed(0, first, 1)
    link.feed(0, points([{0: 2.0}], step=1), 2)
    batches = [i for i in link.take() if isinstance(i, PointsArrived)]
    assert [v for b in batches for v in values_of(b.batch)] == [(0, 0, 0, 1.0), (0, 0, 1, 2.0)]
    assert link.reader.counters.frames_duplicate == 1


def test_frames_that_overtook_lost_ones_wait_until_those_are_sent_again(link):
    link.feed(0, hello(0))
    link.feed(0, points([{0: 1.0}], names={0: "loss"}), 1)
    link.feed(0, points([{0: 4.0}], step=3), 4)
    assert link.asked == [session_id(0)]
    for seq in (2, 3, 4):
        link.feed(0, points([{0: float(seq)}], step=seq - 1), seq)
    steps = [v for i in link.take() if isinstance(i, PointsArrived) for v in i.batch.step.tolist()]
    assert steps == [0, 1, 2, 3]
    assert (link.reader.counters.frames_ahead, link.reader.counters.frames_skipped) == (1, 0)


def test_a_gap_that_stays_is_believed_and_counted(link):
    link.feed(0, hello(0))
    link.feed(0, points([{0: 1.0}], names={0: "loss"}), 1)
    link.feed(0, points([{0: 4.0}], step=3), 4, at=1000.0)
    link.feed(0, points([{0: 4.0}], step=3), 4, at=1002.5)
    steps = [v for i in link.take() if isinstance(i, PointsArrived) for v in i.batch.step.tolist()]
    assert steps == [0, 3]
    assert link.reader.counters.frames_skipped == 2


def test_after_a_hello_the_first_frame_may_leave_a_gap(link):
    link.feed(0, hello(0))
    link.feed(0, points([{0: 1.0}], names={0: "loss"}), 5)
    assert len([i for i in link.take() if isinstance(i, PointsArrived)]) == 1
    assert link.reader.counters.frames_skipped == 4


def steps_taken(link: Link) -> list[int]:
    return [step for event in link.take() if isinstance(event, PointsArrived) for step in event.batch.step.tolist()]


def test_what_there_is_no_room_for_comes_again_whole_and_in_order(link):
    frames = {seq: points([{0: 1.0}], step=seq, names={0: "loss"}) for seq in range(1, 8)}
    link.feed(0, hello(0))
    link.feed(0, frames[1], 1)
    link.has_room = False
    link.feed(0, frames[2], 2)
    link.feed(0, frames[3], 3)
    link.reader.ask_for_held(1001.0)
    link.has_room = True
    link.feed(0, frames[4], 4)
    assert (steps_taken(link), link.asked) == ([1], [])
    link.reader.ask_for_held(1002.0)
    link.reader.ask_for_held(1003.0)
    assert link.asked == [session_id(0)], "once"
    link.feed(0, frames[5], 5, at=1020.0)  # was on its way
    for seq in range(1, 8):
        link.feed(0, frames[seq], seq, at=1021.0)
    assert steps_taken(link) == [2, 3, 4, 5, 6, 7]
    assert [seq for _, seq in link.kept] == [0, 1, 2, 3, 4, 5, 6, 7]
    assert (link.reader.counters.frames_held, link.reader.counters.frames_skipped) == (1, 0)
    assert link.asked == [session_id(0)]


def test_a_gap_that_was_true_before_there_was_no_room_is_so_afterwards(link):
    link.feed(0, hello(0))
    link.has_room = False
    link.feed(0, points([{0: 1.0}], step=5, names={0: "loss"}), 5)
    link.has_room = True
    link.reader.ask_for_held(1000.0)
    link.feed(0, points([{0: 1.0}], step=6), 6)
    assert steps_taken(link) == []
    link.feed(0, points([{0: 1.0}], step=5, names={0: "loss"}), 5)
    link.feed(0, points([{0: 1.0}], step=6), 6)
    assert (steps_taken(link), link.reader.counters.frames_skipped) == ([5, 6], 4)


def test_who_lost_what_was_asked_for_is_heard_again_after_a_while(link):
    link.feed(0, hello(0))
    link.has_room = False
    link.feed(0, points([{0: 1.0}], step=1, names={0: "loss"}), 1)
    link.has_room = True
    link.reader.ask_for_held(1000.0)
    later = points([{0: 1.0}], step=2, names={0: "loss"})
    link.feed(0, later, 2, at=1029.0)
    assert steps_taken(link) == []
    link.feed(0, later, 2, at=1031.0)
    assert (steps_taken(link), link.reader.counters.frames_skipped) == ([2], 1)


def test_who_says_hello_while_there_is_no_room_is_answered_when_there_is(link):
    link.has_room = False
    link.feed(0, hello(0))
    assert (link.take(), link.kept, link.sent) == ([], [], [])
    link.has_room = True
    link.feed(0, hello(0))
    assert isinstance(link.take()[0], SessionOpened)


def test_what_lay_in_a_file_waits_for_no_room(link):
    link.feed(0, hello(0))
    link.has_room = False
    link.feed(0, points([{0: 1.0}], step=1, names={0: "loss"}), 1, is_left=True)
    assert steps_taken(link) == [1]


def test_points_come_before_the_goodbye_that_followed_them(link):
    link.feed(0, hello(0))
    link.feed(0, points([{0: 1.0}], names={0: "loss"}), 1)
    link.feed(0, messages.Goodbye(time=1.0), 2)
    kinds = [type(i).__name__ for i in link.take()]
    assert kinds == ["SessionOpened", "MetricAppeared", "PointsArrived", "MessageArrived"]


def test_values_go_on_gathering_while_only_the_rest_is_taken(link):
    link.feed(0, hello(0))
    link.feed(0, points([{0: 1.0}], names={0: "loss"}), 1)
    link.feed(0, messages.Heartbeat(sent_at=1.0, uptime_seconds=1.0))
    kinds = [type(i).__name__ for i in link.reader.take(with_values=False)]
    assert kinds == ["SessionOpened", "MetricAppeared", "MessageArrived"]
    link.feed(0, points([{0: 2.0}], step=1), 2)
    assert link.reader.take(with_values=False) == []
    assert link.reader.values_waiting == 2
    (arrived,) = link.take()
    assert arrived.batch.value.tolist() == [1.0, 2.0]
    assert link.reader.values_waiting == 0


def test_another_runs_session_is_refused_by_name(link):
    link.feed(0, hello(0, run="run-b"))
    ((session, refused),) = link.sent
    assert session == session_id(0)
    assert isinstance(refused, messages.Refused)
    assert "run-a" in refused.reason
    assert "run-b" in refused.reason
    (said,) = link.take()
    assert isinstance(said, FrameRefused)
    link.feed(0, points([{0: 1.0}]), 1)
    assert link.take() == []
    assert link.kept == []
    assert link.reader.counters.frames_before_hello == 1


def test_another_version_is_refused_by_name(link):
    envelope = msgspec.msgpack.encode([99, "hello", 0, {}])
    link.feed(0, envelope)
    link.feed(0, envelope)
    ((_, refused),) = link.sent
    assert "protocol 99" in refused.reason
    (said,) = link.take()
    assert said.kind == "version"
    assert link.reader.counters.frames_refused == 2


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\xff\xff",
        msgspec.msgpack.encode([1, "points", 1, {"time": 3}]),
        codec.encode(messages.Points(time=b"\0" * 7, step=b"", epoch=b"", width=b"", series=b"", value=b""), 1),
        codec.encode(
            messages.Points(
                time=b"\0" * 8, step=b"\0" * 8, epoch=b"\0" * 4, width=b"\1\0\0\0", series=b"\0" * 4, value=b""
            ),
            1,
        ),
        codec.encode(
            messages.Points(
                defs=[messages.SeriesDef(id=2**31, name="x")],
                time=b"",
                step=b"",
                epoch=b"",
                width=b"",
                series=b"",
                value=b"",
            ),
            1,
        ),
        hello(0, session=b"s" * 16),
    ],
)
def test_noise_is_counted_and_said_once(link, frame):
    link.feed(0, hello(0))
    link.take()
    link.feed(0, frame)
    link.feed(0, frame)
    assert link.reader.counters.frames_malformed + link.reader.counters.frames_duplicate == 2
    (said,) = link.take()
    assert (type(said), said.kind) == (FrameRefused, "malformed frame")


def test_an_unknown_kind_is_counted_and_its_place_in_the_order_kept(link):
    link.feed(0, hello(0))
    link.take()
    link.feed(0, msgspec.msgpack.encode([1, "telepathy", 1, {}]))
    link.feed(0, points([{0: 1.0}], names={0: "loss"}), 2)
    assert [type(i) for i in link.take()] == [MetricAppeared, PointsArrived]
    assert link.reader.counters.frames_unknown_kind == 1
    assert link.reader.counters.frames_skipped == 0


def test_names_beyond_the_limit_are_said_once_and_their_values_counted():
    link = Link(name_limit=2)
    link.feed(0, hello(0))
    names = {0: "a", 1: "b", 2: "c", 3: "d"}
    link.feed(0, points([{0: 0.0, 1: 1.0, 2: 2.0, 3: 3.0}], names=names), 1)
    inputs = link.take()
    assert [i.kind for i in inputs if isinstance(i, FrameRefused)] == ["too many names"]
    (batch,) = [i.batch for i in inputs if isinstance(i, PointsArrived)]
    assert batch.value.tolist() == [0.0, 1.0]
    assert link.reader.counters.values_over_name_limit == 2
    assert link.reader.counters.values == 2


def test_values_of_an_undefined_series_are_counted(link):
    link.feed(0, hello(0))
    link.feed(0, points([{0: 0.0, 5000: 1.0}], names={0: "a"}), 1)
    (batch,) = [i.batch for i in link.take() if isinstance(i, PointsArrived)]
    assert batch.value.tolist() == [0.0]
    assert link.reader.counters.values_without_definition == 1


@pytest.mark.parametrize("name", ["a/b", 'q"uote', "<b>x</b>", "🚀", "n" * 10_000, "a:b@1", " "])
def test_any_name_is_a_name(link, name):
    link.feed(0, hello(0))
    link.feed(0, points([{0: 1.0}], names={0: name}), 1)
    assert MetricAppeared(0, name, None, "mean") in link.take()


def test_b38_one_rank_s_declaration_counts_and_what_others_assume_does_not(link):
    for rank in range(3):
        link.feed(rank, hello(rank))
    link.feed(0, points([{0: 1.0}], names={0: "tokens"}), 1)
    assert MetricAppeared(0, "tokens", None, "mean") in link.take()
    declared = messages.SeriesDef(id=4, name="tokens", unit="tokens", reduction="sum", declared=True)
    said = msgspec.structs.replace(points([{4: 1.0}]), defs=[declared])
    link.feed(1, said, 1)
    assert MetricAppeared(0, "tokens", "tokens", "sum") in link.take()
    link.feed(1, said, 2)
    link.feed(2, points([{0: 1.0}], names={0: "tokens"}), 1)
    assert [i for i in link.take() if isinstance(i, MetricAppeared)] == []
    again = Link()
    again.reader.restore(link.reader.snapshot())
    again.feed(3, hello(3))
    again.feed(3, msgspec.structs.replace(said, defs=[msgspec.structs.replace(declared, reduction="max")]), 1)
    assert MetricAppeared(0, "tokens", "tokens", "max") in again.take()


def test_a_restored_table_goes_on_where_it_was(link):
    link.feed(0, hello(0))
    link.feed(0, points([{0: 1.0, 1: 2.0}], names={0: "loss", 1: "lr"}), 1)
    link.take()
    saved = msgspec.msgpack.encode(link.reader.snapshot())

    again = Link()
    again.reader.restore(msgspec.msgpack.decode(saved, type=TableSnapshot))
    again.feed(0, points([{1: 9.0}], step=1), 2)
    assert again.take() == [], "a session is heard after its hello only"
    again.feed(0, hello(0))
    again.feed(0, points([{0: 1.0}]), 1)
    again.feed(0, points([{1: 9.0}], step=1), 2)
    opened, arrived = again.take()
    assert isinstance(opened, SessionOpened)
    assert values_of(arrived.batch) == [(1, 0, 1, 9.0)]


def test_replayed_frames_make_the_same_inputs_and_are_not_kept_again(link):
    frames = [hello(0), codec.encode(points([{0: 1.0}], names={0: "loss"}), 1), codec.encode(points([{0: 2.0}]), 4)]
    for frame in frames:
        link.feed(0, frame, replaying=True)
    kinds = [type(i) for i in link.take()]
    assert kinds == [SessionOpened, MetricAppeared, PointsArrived]
    assert link.kept == []
    assert link.reader.highest_seq(session_id(0)) == 4
    link.reader.replayed()
    link.feed(0, points([{0: 5.0}]), 9)
    assert link.take() == []


def test_messages_arrive_in_order_with_their_session(link):
    link.feed(0, hello(0))
    beat = messages.Heartbeat(sent_at=1.0, uptime_seconds=2.0)
    wish = messages.PortWish(port=7117)
    link.feed(0, beat)
    link.feed(0, wish, 1)
    assert link.take()[1:] == [MessageArrived(session_id(0), beat), MessageArrived(session_id(0), wish)]
    assert link.kept == [(session_id(0), 0), (session_id(0), 1)]
