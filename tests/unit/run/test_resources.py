"""The hardware of a whole job: what counts once, what is summed, what stays unknown."""

import pytest

from tests.unit.run.play import WALL, Play, batch
from trackside.run import outputs
from trackside.run.inputs import PointsArrived
from trackside.wire import messages
from trackside.wire.documents import ResourceRecord
from trackside.wire.messages import GpuSample, HostSample, RankSample


def gpu(uuid: str | None, used: int = 10, *, index: int = 0, util: float | None = 0.5, mig: bool = False) -> RankSample:
    sample = GpuSample(
        index=index, uuid=uuid, name="H200", util=util, memory_used=used, memory_total=100, power=50.0, mig=mig
    )
    return RankSample(cpu=0.1, memory=5, gpu=sample)


def host(cpu: float | None = 0.5, used: int | None = 4, total: int | None = 8) -> HostSample:
    return HostSample(cpu=cpu, memory_used=used, memory_total=total)


def sample(play: Play, session: bytes, **fields: object) -> None:
    play.tell(session, messages.ResourceSample(time=play.now.wall, interval_seconds=2.0, **fields))  # type: ignore[arg-type]


def whole(play: Play) -> ResourceRecord:
    """The whole job as it is now: any sample sums it up once its pause is over."""
    play.at += 3
    sample(play, next(iter(play.machine.state.sessions)))
    return [record for record in play.machine.resource_records("root") if record.path == "root"][-1]


def test_b26_d16_ranks_that_share_a_device_count_it_once() -> None:
    play = Play()
    sessions = [play.hello(rank, world=3) for rank in range(3)]
    for session, uuid, used in zip(sessions, ("u1", "u1", "u2"), (10, 10, 30), strict=True):
        sample(play, session, rank=gpu(uuid, used, util=used / 100))
    sample(play, sessions[0], host=host())
    record = whole(play)
    assert (record.vram_used, record.vram_total, record.power) == (40, 200, 100.0)
    assert record.gpu_util == pytest.approx((0.1 + 0.1 + 0.3) / 3)
    assert [entry.uuid for entry in record.gpus] == ["u1", "u1", "u2"]
    of_host = play.machine.resource_records("root/a")
    assert [(r.vram_used, r.vram_total) for r in of_host if r.path == "root/a"][-1] == (40, 200)


def test_b26_devices_without_a_readable_uuid_are_told_apart_by_host_and_index() -> None:
    play = Play()
    places = [("a", 0), ("a", 0), ("a", 1), ("b", 0)]
    for rank, (name, index) in enumerate(places):
        sample(play, play.hello(rank, world=5, host=name), rank=gpu(None, index=index))
    sample(play, play.hello(4, world=5, host="b"), rank=gpu(None, index=0, mig=True))
    assert whole(play).vram_total == 400, "a slice shares its card's index and is another device"


def test_b26_an_entry_belongs_to_its_rank_whatever_its_place_and_however_many_there_are() -> None:
    play = Play()
    for rank in range(300):
        session = play.hello(rank, world=300, host=f"h{rank // 8}", local=rank % 8)
        if rank % 3:
            sample(play, session, rank=gpu(f"u{rank}", used=rank, index=rank % 8))
    entries = whole(play).gpus
    assert [entry.index for entry in entries] == [rank for rank in range(300) if rank % 3]
    assert all(entry.memory_used == entry.index for entry in entries)
    assert (entries[-1].index, entries[-1].name) == (299, "h37:lr=3 gr=299 H200")


def test_b26_cpu_is_the_mean_over_hosts_and_memory_their_sum_however_many_ranks_they_have() -> None:
    play = Play()
    zero = play.hello(0, world=4, host="a")
    for rank in (1, 2):
        sample(play, play.hello(rank, world=4, host="a"), rank=RankSample(cpu=0.9, memory=1000))
    three = play.hello(3, world=4, host="b")
    sample(play, zero, host=host(0.2, 4, 8))
    sample(play, three, host=host(0.6, None, 16))
    record = whole(play)
    assert (record.cpu, record.memory_used, record.memory_total) == (pytest.approx(0.4), 4, 24)


def test_b26_two_machines_of_one_name_are_two_hosts_with_their_own_figures() -> None:
    play = Play()
    one, two = play.hello(0, host="node", machine="m1"), play.hello(1, host="node", machine="m2")
    sample(play, one, host=host(0.2, 4, 8))
    sample(play, two, host=host(0.6, 1, 16))
    assert play.run.hosts == ["node", "node~2"]
    shown = {r.path: (r.cpu, r.memory_total) for r in play.machine.resource_records("root") if r.path != "root"}
    assert shown == {"root/node": (0.2, 8), "root/node~2": (0.6, 16)}
    record = whole(play)
    assert (record.cpu, record.memory_used, record.memory_total) == (pytest.approx(0.4), 5, 24)


def test_b17_each_machine_of_one_name_has_a_sampler_of_its_own() -> None:
    play = Play()
    one, two = play.hello(0, host="node", machine="m1"), play.hello(1, host="node", machine="m2")
    assert appointed(play) == {one, two}


def test_b17_d20_every_host_has_one_sampler_on_a_machine_without_gpus_too() -> None:
    play = Play()
    sessions = {rank: play.hello(rank, world=6, host=f"n{rank // 2}") for rank in (1, 0, 3, 2, 4, 5)}
    assert appointed(play) == {sessions[0], sessions[2], sessions[4]}


def test_b17_a_welcome_says_who_samples_the_host() -> None:
    play = Play()
    for rank, name in ((0, "a"), (1, "a"), (2, "b"), (3, "b")):
        play.hello(rank, world=4, host=name)
    replies = [reply for reply in play.asked(outputs.Reply) if isinstance(reply.message, messages.Welcome)]
    assert [reply.message.sample_host for reply in replies] == [True, False, True, False]


def test_b17_an_agent_samples_its_host_and_only_ranks_that_do_not_sample_themselves() -> None:
    play = Play()
    agent = play.agent()
    zero, one = play.hello(0, world=3), play.hello(1, world=3)
    assert appointed(play) == {agent}
    assert spared(play, agent) == [0, 1]
    play.tell(one, messages.Goodbye(time=WALL))
    assert spared(play, agent) == [0], "its process may go on, and is then sampled from outside"
    play.tell(zero, messages.Goodbye(time=WALL))
    assert spared(play, agent) == []


def test_b17_an_agent_that_comes_late_or_again_is_told_whom_to_spare() -> None:
    play = Play()
    for rank in range(2):
        play.hello(rank)
    assert spared(play, play.agent()) == [0, 1]
    play.said.clear()
    assert spared(play, play.agent()) == [0, 1]


def test_b17_ranks_of_a_former_generation_are_not_spared() -> None:
    play = Play()
    agent = play.agent()
    play.hello(0), play.hello(1)
    play.hello(1, generation=1)
    assert spared(play, agent) == [1]


def test_b18_a_rank_that_wants_no_sampling_is_sampled_by_nobody() -> None:
    play = Play()
    agent = play.agent()
    sample(play, agent, host=host())
    identity = messages.Identity(rank=0, local_rank=0, world_size=2)
    play.tell(agent, messages.WorkerStarted(identity=identity, pid=4000, time=WALL))
    sample(play, agent, rank=gpu("u0"), of_rank=0)
    assert play.ranks[0].gpu is not None
    play.hello(0, resources=False)
    play.hello(1)
    assert (spared(play, agent), appointed(play)) == ([0, 1], {agent})
    sample(play, agent, rank=gpu("u0"), of_rank=0)
    assert (play.ranks[0].gpu, play.ranks[0].cpu, play.ranks[0].memory) == (None, None, None)


def test_b18_a_host_none_of_whose_ranks_wants_it_is_not_sampled() -> None:
    play = Play()
    agent = play.agent()
    zero = play.hello(0, resources=False)
    assert (appointed(play), spared(play, agent)) == (set(), [0])
    one = play.hello(1, resources=False)
    assert (appointed(play), spared(play, agent)) == (set(), [0, 1])
    for session in (zero, one):
        play.tell(session, messages.Goodbye(time=WALL))
    assert (appointed(play), spared(play, agent)) == (set(), [0, 1]), "nor afterwards"


def test_b18_without_an_agent_a_rank_that_wants_no_sampling_is_not_elected() -> None:
    play = Play()
    play.hello(0, resources=False)
    one = play.hello(1)
    assert appointed(play) == {one}


def test_b13_figures_of_a_rank_whose_driver_hangs_become_unknown() -> None:
    play = Play()
    session = play.hello(0, world=1)
    sample(play, session, rank=gpu("u0"))
    for _ in range(31):
        play.beat(session)
        play.wait(1)
    (entry,) = play.ranks
    assert (entry.state, entry.gpu, entry.cpu, entry.memory) == ("alive", None, None, None)
    play.tell(session, messages.Goodbye(time=WALL))


def test_the_last_figures_of_a_rank_that_ended_stay() -> None:
    play = Play(launched=True)
    session, agent = play.hello(0, world=2), play.agent()
    one = play.hello(1)
    sample(play, session, rank=gpu("u0", used=99))
    play.tell(agent, messages.WorkerExited(rank=0, generation=0, time=WALL, exit_code=None, signal="SIGKILL"))
    for _ in range(40):
        play.beat(one)
        play.wait(1)
    failed = play.ranks[0]
    assert failed.gpu is not None
    assert (failed.state, failed.gpu.memory_used) == ("failed", 99)


def appointments(play: Play) -> dict[bytes, messages.Appoint]:
    """The latest word to each session."""
    replies = [reply for reply in play.asked(outputs.Reply) if isinstance(reply.message, messages.Appoint)]
    return {reply.session: reply.message for reply in replies}


def appointed(play: Play) -> set[bytes]:
    return {session for session, word in appointments(play).items() if word.sample_host}


def spared(play: Play, agent: bytes) -> list[int]:
    return appointments(play)[agent].spared


def test_b13_d23_whose_a_device_is_stays_unknown_when_it_has_no_name() -> None:
    play = Play()
    session = play.hello(0, world=1)
    sample(play, session, rank=gpu(None))
    devices = [GpuSample(index=0), GpuSample(index=1, uuid="u1")]
    sample(play, session, host=HostSample(gpus=devices))
    record = [r for r in play.machine.resource_records("root/a") if r.path == "root/a"][-1]
    assert [device.ours for device in record.gpus] == [None, False]


def test_d23_devices_of_the_host_are_all_there_and_ours_are_marked() -> None:
    play = Play()
    session = play.hello(0, world=1)
    sample(play, session, rank=gpu("u1"))
    sample(play, session, host=HostSample(gpus=[GpuSample(index=i, uuid=f"u{i}") for i in range(3)]))
    record = [r for r in play.machine.resource_records("root/a") if r.path == "root/a"][-1]
    assert [(device.index, device.ours) for device in record.gpus] == [(0, False), (1, True), (2, False)]


def test_d17_devices_of_two_hosts_with_one_index_do_not_collide() -> None:
    play = Play()
    for rank, name in enumerate(("a", "b")):
        sample(play, play.hello(rank, host=name, local=0), rank=gpu(f"u{rank}", used=10 + rank, index=0))
    record = whole(play)
    assert [(e.index, e.name, e.memory_used) for e in record.gpus] == [
        (0, "a:lr=0 gr=0 H200", 10),
        (1, "b:lr=0 gr=1 H200", 11),
    ]


def test_lesson_gauges_do_not_blink_when_an_epoch_or_a_window_arrives() -> None:
    """Samples have a slot of their own: what knows nothing of the hardware takes no figure away."""
    play = Play()
    session = play.hello(0, world=1)
    play.metric(0, "loss")
    sample(play, session, rank=gpu("u1"), host=host())
    before, shown = whole(play), play.ranks[0]
    play.points([(0, 0, 1, 0.5)])
    play.tell(session, messages.EpochReport(epoch=0, metrics={"loss": 0.5}))
    play.beat(session, step=2)
    sample(play, session, host=host(0.7))
    after, still = whole(play), play.ranks[0]
    assert (still.gpu, still.cpu, still.memory) == (shown.gpu, shown.cpu, shown.memory) != (None, None, None)
    assert (after.gpu_util, after.vram_used, after.gpus) == (before.gpu_util, before.vram_used, before.gpus)
    assert (before.cpu, after.cpu) == (0.5, 0.7)


def test_d29_samples_live_on_wall_time_and_move_no_step() -> None:
    play = Play()
    session = play.hello(0, world=1)
    play.metric(0, "loss")
    play.points([(0, 0, 5, 1.0)])
    for _ in range(20):
        play.at += 2
        sample(play, session, rank=gpu("u1"), host=host())
    play.points([(0, 0, 6, 0.5)])
    assert (play.run.step, play.ranks[0].step) == (6, 6)
    (metric,) = play.machine.metric_entries()
    assert (metric.name, metric.points, metric.first_step, metric.last_step) == ("loss", 2, 5, 6)
    times = [record.time for record in play.machine.resource_records("root/a/rank0")]
    assert times == [WALL + 2 * n for n in range(1, 21)]


@pytest.mark.parametrize("ahead", [3600.0, -3600.0])
def test_d86_figures_of_a_rank_whose_clock_is_off_are_those_of_now(ahead: float) -> None:
    """How old a sample is, the controller's own clock says."""
    play = Play()
    session = play.hello(0, world=1)
    for cpu in (0.1, 0.2, 0.3):
        play.at += 2
        message = messages.ResourceSample(time=WALL + ahead - cpu, interval_seconds=2.0, rank=gpu("u0"), host=host(cpu))
        play.tell(session, message)
    assert play.ranks[0].gpu is not None
    record = whole(play)
    assert (record.cpu, record.gpu_util, record.time) == (0.3, 0.5, play.now.wall)


def test_d86_the_latest_value_is_the_one_that_was_logged_last_not_the_one_with_the_highest_time() -> None:
    play = Play()
    play.hello(0, world=1)
    play.metric(0, "loss")
    rows = batch([(0, 0, 1, 5.0), (0, 0, 2, 4.0), (0, 0, 3, 3.0)])
    rows.time[:] = [WALL + 3600, WALL + 50, WALL]
    play.do(PointsArrived(rows))
    assert play.machine.last_values() == [("loss", 0, "a", 3.0)]
    assert play.ranks[0].step == 3
