"""Anything may happen in any order; some things hold all the time."""

import contextlib
import math
from collections import Counter

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from tests.unit.run.play import Play
from trackside.run import inputs, outputs
from trackside.run.cohort import update_of
from trackside.run.events import MAX_LIVE
from trackside.run.machine import RunMachine
from trackside.run.tree import tree_of
from trackside.wire import messages

RANKS = st.integers(0, 3)
VALUES = st.floats(allow_nan=True, allow_infinity=True, width=32)
SECONDS = st.one_of(st.floats(0, 2), st.floats(5, 400))


class RunLife(RuleBasedStateMachine):
    """Ranks and launchers that come, log, fall silent, die, return and start again, and a controller that restarts."""

    sessions = Bundle("sessions")
    agents = Bundle("agents")

    @initialize(launched=st.booleans(), wants_page=st.booleans())
    def begin(self, launched: bool, wants_page: bool) -> None:
        self.play = Play(launched=launched, wants_page=wants_page)
        self.generation = 0
        self.number = 0
        self.logged = 0
        self.noticed = 0
        self.not_finite = 0
        self.waiting: set[int] = set()
        self.published: set[int] = set()
        self.elapsed = 0.0
        self.svg: str | None = None
        self.metadata: object = None
        self.asked: int | None = None
        self.bound: int | None = None
        self.is_asking = False
        self.ports_seen = 0
        self.play.metric(0, "loss")
        self.play.metric(1, "acc", "max")

    # --- coming and going ---------------------------------------------------------------------------------------------

    @rule(target=sessions, rank=RANKS, host=st.sampled_from("ab"), behind=st.integers(0, 1))
    def hello(self, rank: int, host: str, behind: int) -> bytes:
        self.number += 1
        generation = max(0, self.generation - behind)
        session = self.play.hello(rank, 4, host, generation=generation, key=b"s%015d" % self.number)
        self.play.machine.state.sessions[session].pid = self.number
        return session

    @rule(session=sessions, rank=RANKS)
    def reconnect(self, session: bytes, rank: int) -> None:
        self.play.hello(rank, 4, generation=self.generation, key=session)

    @rule(target=agents, host=st.sampled_from("ab"))
    def agent(self, host: str) -> bytes:
        return self.play.agent(host)

    @rule(agent=agents, world=st.integers(1, 4), again=st.booleans())
    def start_workers(self, agent: bytes, world: int, again: bool) -> None:
        if again and self.generation < 3:
            self.generation += 1
        for rank in range(world):
            identity = messages.Identity(rank=rank, local_rank=rank, world_size=world, generation=self.generation)
            self.play.tell(agent, messages.WorkerStarted(identity=identity, pid=5, time=1.0))

    @rule(agent=agents, rank=RANKS, signal=st.sampled_from(["SIGKILL", "SIGTERM", None]), code=st.integers(0, 2))
    def exit_worker(self, agent: bytes, rank: int, signal: str | None, code: int) -> None:
        exit_code = None if signal else code
        exited = messages.WorkerExited(
            rank=rank, generation=self.generation, time=1.0, exit_code=exit_code, signal=signal
        )
        self.play.tell(agent, exited)

    @rule(agent=agents, ranks=st.lists(RANKS))
    def see_workers(self, agent: bytes, ranks: list[int]) -> None:
        self.play.tell(agent, messages.WorkerAlive(ranks=ranks, generation=self.generation))

    @rule(session=sessions, clean=st.booleans())
    def goodbye(self, session: bytes, clean: bool) -> None:
        self.play.tell(session, messages.Goodbye(time=1.0, clean=clean))

    @rule(agent=agents, code=st.integers(0, 1))
    def end_job(self, agent: bytes, code: int) -> None:
        self.play.tell(agent, messages.JobEnded(time=1.0, exit_code=code))
        self.play.tell(agent, messages.Goodbye(time=1.0))

    @rule(session=st.one_of(sessions, agents))
    def vanish(self, session: bytes) -> None:
        self.play.do(inputs.ProcessGone(session))

    @rule()
    def lose_launcher(self) -> None:
        self.play.do(inputs.LauncherGone())

    # --- saying something ---------------------------------------------------------------------------------------------

    @rule(
        session=sessions,
        samples=st.none() | st.integers(0, 1000),
        dropped=st.integers(0, 5),
        offset=st.none() | st.floats(-20, 20),
        own=st.none() | st.floats(0, 1),
    )
    def beat(self, session: bytes, samples: int | None, dropped: int, offset: float | None, own: float | None) -> None:
        self.play.beat(
            session,
            step=samples,
            samples=samples,
            batches=samples or 0,
            dropped_points=dropped,
            clock_offset=offset,
            own_step_seconds=own,
        )

    @rule(metric=st.integers(0, 2), rank=RANKS, step=st.integers(0, 50), value=VALUES, behind=st.integers(0, 1))
    def points(self, metric: int, rank: int, step: int, value: float, behind: int) -> None:
        self.play.points([(metric, rank, step, value)], max(0, self.generation - behind))
        self.logged += metric < 2
        self.not_finite += metric < 2 and not math.isfinite(value)

    @rule(
        session=sessions,
        number=st.integers(0, 5),
        loss=st.none() | VALUES,
        acc=st.none() | VALUES,
        batches=st.integers(0, 9),
        samples=st.none() | st.integers(0, 99),
    )
    def epoch(
        self,
        session: bytes,
        number: int,
        loss: float | None,
        acc: float | None,
        batches: int,
        samples: int | None,
    ) -> None:
        values = {name: value for name, value in (("loss", loss), ("acc", acc)) if value is not None}
        report = messages.EpochReport(epoch=number, metrics=values, batches=batches, samples=samples, seconds=1.0)
        self.play.tell(session, report)

    @rule(reduction=st.sampled_from(["mean", "sum", "min", "max", "last"]))
    def declare(self, reduction: messages.Reduction) -> None:
        self.play.metric(1, "acc", reduction)

    @rule(session=sessions, count=st.integers(1, 9))
    def notice(self, session: bytes, count: int) -> None:
        if session in self.play.machine.state.sessions:
            self.play.tell(session, messages.Notice(time=1.0, about="value refused", text="no number", count=count))
            self.noticed += count

    @rule(session=sessions, epochs=st.none() | st.integers(0, 9), steps=st.none() | st.integers(0, 99))
    def plan(self, session: bytes, epochs: int | None, steps: int | None) -> None:
        self.play.tell(session, messages.SetPlan(epochs=epochs, steps=steps))

    @rule(session=st.one_of(sessions, agents), cpu=st.none() | st.floats(0, 1))
    def sample(self, session: bytes, cpu: float | None) -> None:
        host = messages.HostSample(cpu=cpu, memory_used=4)
        self.play.tell(session, messages.ResourceSample(time=1.0, interval_seconds=2.0, host=host))

    @rule(session=sessions, port=st.none() | st.integers(7000, 7002))
    def wish(self, session: bytes, port: int | None) -> None:
        self.play.tell(session, messages.PortWish(port=port))

    @rule(is_taken=st.booleans())
    def try_to_bind(self, is_taken: bool) -> None:
        """What the controller does about a wish, some time later."""
        if not self.is_asking:
            return
        self.is_asking = False
        if is_taken:
            self.play.do(inputs.PageBindFailed(self.asked or 7117, "held by another"))
        else:
            self.bound = self.asked or 7117
            self.play.do(inputs.PageBound("a", self.bound, "the line"))

    @rule(session=sessions, svg=st.none() | st.sampled_from(["", "<svg>1</svg>", "<svg>2</svg>"]))
    def draw(self, session: bytes, svg: str | None) -> None:
        if session in self.play.machine.state.sessions:
            self.svg = self.svg or svg or None
        self.play.tell(session, messages.SetGraph(svg=svg, hash="h"))

    @rule(session=sessions, text=st.sampled_from(['{"lr": 1}', '{"lr": 2}', "[1]", "null", '{"lr": ', ""]))
    def describe(self, session: bytes, text: str) -> None:
        if session in self.play.machine.state.sessions:
            with contextlib.suppress(msgspec.DecodeError):
                self.metadata = msgspec.json.decode(text)
        self.play.tell(session, messages.SetMetadata(text=text))

    # --- time ---------------------------------------------------------------------------------------------------------

    @rule(seconds=SECONDS)
    def wait(self, seconds: float) -> None:
        self.play.wait(seconds)
        state = self.play.machine.state
        waiting = [number for number, epoch in state.epochs.items() if not epoch.published]
        if not waiting:
            return
        assert not state.completed
        reported = state.epochs[min(waiting)].reports
        assert any(
            rank.monitored and rank.state in ("alive", "late") and rank.rank not in reported
            for rank in state.ranks.values()
        ), "an epoch waits that nobody owes"

    @rule(seconds=st.floats(-7200, 7200))
    def jump_the_wall_clock(self, seconds: float) -> None:
        self.play.skew += seconds
        self.play.wait(0)

    @rule(crashed=st.booleans())
    def restart_controller(self, crashed: bool) -> None:
        before, now = self.play.machine, self.play.now
        after = RunMachine.restore(before.snapshot())
        assert after.snapshot() == before.snapshot()
        assert after.rank_entries(now) == before.rank_entries(now)
        assert after.run_document(now) == before.run_document(now)
        assert repr(after.last_values()) == repr(before.last_values())
        self.play.machine = after
        self.play.wait(0)  # until then nobody could tell a clock that was set from time that has passed
        if crashed:
            self.bound, self.is_asking, self.ports_seen = None, False, len(self.play.asked(outputs.RegisterPort))
            self.play.do(inputs.Replayed(downtime_seconds=1.0))

    # --- what always holds --------------------------------------------------------------------------------------------

    @invariant()
    def every_rank_is_counted_once_and_belongs_to_the_generation(self) -> None:
        run = self.play.run
        counts = run.ranks
        total = counts.alive + counts.late + counts.lost + counts.finished + counts.failed
        assert total == len(self.play.ranks) <= 4
        assert {entry.generation for entry in self.play.ranks} <= {run.generation}
        assert all(entry.rank < (run.world_size or 0) for entry in self.play.ranks)

    @invariant()
    def shares_sum_to_one(self) -> None:
        shares = [entry.batch_share for entry in self.play.ranks if entry.batch_share is not None]
        assert not shares or abs(sum(shares) - 1) < 1e-9

    @invariant()
    def rates_and_times_are_never_negative(self) -> None:
        run = self.play.run
        assert run.elapsed_seconds >= 0
        assert run.eta_seconds is None or run.eta_seconds >= 0
        assert all((entry.age_seconds or 0) >= 0 and (entry.throughput or 0) >= 0 for entry in self.play.ranks)

    @invariant()
    def b19_b20_at_most_one_port_is_tried_at_a_time_and_none_after_one_is_bound(self) -> None:
        asked = self.play.asked(outputs.RegisterPort)
        for wish in asked[self.ports_seen :]:
            assert not self.is_asking
            assert self.bound is None
            self.asked, self.is_asking = wish.port, True
        self.ports_seen = len(asked)
        if self.bound is not None:
            assert self.play.machine.state.bound_port == self.bound
            assert self.play.machine.state.later_wishes == []

    @invariant()
    def b22_the_first_drawing_stays(self) -> None:
        assert self.play.machine.svg() == self.svg

    @invariant()
    def b23_the_last_metadata_that_could_be_read_stands(self) -> None:
        assert self.play.run.metadata == self.metadata

    @invariant()
    def b32_who_ended_cleanly_has_no_open_alarm(self) -> None:
        clean = {entry.path for entry in self.play.ranks if entry.state == "finished"}
        kinds = ("rank lost", "rank failed")
        assert [w for w in self.play.run.warnings if w.path in clean and w.kind in kinds] == []

    @invariant()
    def b33_time_runs_by_the_monotonic_clock_and_stands_still_at_the_end(self) -> None:
        run = self.play.run
        assert run.elapsed_seconds >= self.elapsed - 1e-6
        assert run.elapsed_seconds <= self.play.at + 1e-6
        if run.ended_at is None:
            assert abs(run.elapsed_seconds - self.play.at) < 1e-6
        self.elapsed = run.elapsed_seconds

    @invariant()
    def points_are_counted(self) -> None:
        assert sum(entry.points for entry in self.play.machine.metric_entries()) == self.logged

    @invariant()
    def b34_no_epoch_is_published_before_an_earlier_one_that_waits(self) -> None:
        epochs = self.play.machine.state.epochs
        waiting = {number for number, epoch in epochs.items() if not epoch.published}
        fresh = {number for number in epochs if number not in waiting and number not in self.published}
        assert not any(earlier < number for number in fresh for earlier in waiting & self.waiting)
        self.published, self.waiting = set(epochs) - waiting, waiting

    @invariant()
    def b35_an_epoch_s_loss_is_within_its_ranks_and_nan_where_one_is(self) -> None:
        for epoch in self.play.machine.state.epochs.values():
            if not epoch.published or not epoch.reports or epoch.record is None:
                continue
            losses = [report.metrics["loss"] for report in epoch.reports.values() if "loss" in report.metrics]
            names = {name for report in epoch.reports.values() for name in report.metrics}
            assert (set(epoch.record.metrics), epoch.record.ranks) == (names, len(epoch.reports))
            assert list(epoch.record.metrics) == sorted(names, key=lambda name: (name != "loss", name))
            shown = epoch.record.metrics.get("loss")
            if losses and all(map(math.isfinite, losses)):
                assert isinstance(shown, float)
                assert min(losses) <= shown <= max(losses)
            elif any(map(math.isnan, losses)):
                assert shown == "NaN"

    @invariant()
    def b38_a_node_is_the_sum_of_those_below_it(self) -> None:
        machine = self.play.machine
        ranks, metrics, values = self.play.ranks, machine.metric_entries(), machine.last_values()
        root = tree_of(ranks, metrics, values)
        hosts = {entry.host for entry in ranks}
        assert {node.level for node in root.children} <= ({"host"} if len(hosts) > 1 else {"rank"})
        assert root.ranks == len(ranks) == sum(node.ranks for node in root.children)
        for name in ("throughput", "batch_share", "samples"):
            below = [getattr(node, name) for node in root.children if getattr(node, name) is not None]
            whole = getattr(root, name)
            assert (whole is None) == (not below)
            assert whole is None or math.isclose(whole, sum(below))
        counts = Counter(name for name, *_ in values)
        assert {name: metric.ranks for name, metric in root.metrics.items()} == counts
        own = [value for name, _, _, value in values if name == "loss"]
        if own and all(map(math.isfinite, own)):
            assert min(own) <= float(root.metrics["loss"].value or 0.0) <= max(own)

    @invariant()
    def b39_a_cohort_s_steps_ascend_and_its_mean_is_within_its_extremes(self) -> None:
        machine = self.play.machine
        for rows in machine.root.recent().values():
            steps = rows["step"].tolist()
            assert steps == sorted(set(steps))
            shown = update_of(rows, "mean")
            for low, mean, high, count, worst in zip(
                shown.min, shown.mean, shown.max, shown.count, shown.worst, strict=True
            ):
                assert count >= 1
                assert worst is None or 0 <= worst < 4
                finite = [value for value in (low, mean, high) if not isinstance(value, str)]
                assert finite == sorted(v for v in finite if v is not None)
        assert sum(entry.non_finite for entry in machine.metric_entries()) == self.not_finite

    @invariant()
    def events_are_bounded_in_order_and_their_counts_are_true(self) -> None:
        events = self.play.events()
        ids = [event.id for event in events]
        assert ids == sorted(set(ids))
        assert len(ids) <= MAX_LIVE
        assert sum(event.count for event in events if event.kind == "value refused") == self.noticed
        assert set(self.play.machine.state.event_marks) == set(ids)
        assert set(self.play.machine.state.latest_events.values()) <= set(ids)

    @invariant()
    def a_condition_of_a_rank_holds_only_for_ranks_that_are_there(self) -> None:
        paths = {entry.path for entry in self.play.ranks}
        for warning in self.play.run.warnings:
            assert "/rank" not in warning.path or warning.path in paths

    @invariant()
    def a_lost_rank_has_one_open_warning_and_no_other_has(self) -> None:
        lost = sorted(entry.path for entry in self.play.ranks if entry.state == "lost")
        assert sorted(w.path for w in self.play.run.warnings if w.kind == "rank lost") == lost

    @invariant()
    def at_most_one_session_samples_a_host_and_it_is_there(self) -> None:
        state = self.play.machine.state
        for host in state.hosts.values():
            assert host.sampler is None or host.sampler in state.sessions
        appointed: dict[bytes, bool] = {}
        for reply in self.play.asked(outputs.Reply):
            if isinstance(reply.message, messages.Appoint | messages.Welcome):
                appointed[reply.session] = reply.message.sample_host
        holders = {host.sampler for host in state.hosts.values()} - {None}
        open_samplers = {s for s, on in appointed.items() if on and s in state.sessions and state.sessions[s].is_open}
        assert open_samplers <= holders

    @invariant()
    def epochs_ascend_and_the_run_completes_once(self) -> None:
        numbers = [record.epoch for record in self.play.machine.epoch_records()]
        assert numbers == sorted(set(numbers))
        assert len(self.play.asked(outputs.CompleteRun)) == self.play.machine.state.completed
        assert (self.play.run.ended_at is not None) == self.play.machine.state.completed

    @invariant()
    def everything_can_be_shown(self) -> None:
        machine = self.play.machine
        msgspec.json.encode(
            [
                self.play.run,
                self.play.ranks,
                machine.metric_entries(),
                machine.epoch_records(),
                machine.event_records(),
                machine.resource_records("root"),
            ]
        )


TestRunLife = RunLife.TestCase
TestRunLife.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
