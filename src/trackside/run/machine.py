"""The machine itself: `handle(input, now) -> instructions`."""

from collections.abc import Callable
from typing import Any, ClassVar

import msgspec

from trackside.run import (
    again,
    clocks,
    description,
    epochs,
    failures,
    inputs,
    lifecycle,
    liveness,
    metrics,
    model,
    pace,
    pages,
    resources,
    takeover,
    topology,
    view,
)
from trackside.run.cohort import CohortWindow
from trackside.run.diagnose.diagnoser import Diagnoser, DiagnoserSnapshot
from trackside.run.diagnose.words import summary_lines
from trackside.run.events import clear_event, forget_recalled, raise_event, recall_events
from trackside.run.inputs import Input, Moment
from trackside.run.outputs import CompleteRun, Instruction, PrintLine, PublishPoints, PublishRun, Reply
from trackside.run.quota import raise_by_rank, say_rest
from trackside.run.state import Run, Settings
from trackside.wire import documents, messages
from trackside.wire.ids import ROOT_PATH

PUBLISH_SECONDS = 1.0
"""Ages and silences grow without an input; the page hears of them this often."""


class Checkpoint(msgspec.Struct, kw_only=True):
    """What `RunMachine.snapshot` encodes."""

    run: Run
    latest: metrics.LatestCells
    diagnoser: DiagnoserSnapshot = msgspec.field(default_factory=DiagnoserSnapshot)


EARLIEST_START_S = 3600.0
"""A session older than this says nothing about when the run began."""


class RunMachine:
    """State of one run and the rules that change it.

    Threads: the controller's event loop only. Blocks: never.
    """

    def __init__(self, state: Run) -> None:
        self.state = state
        self.root = CohortWindow()
        """Recent values of the whole job."""
        self.diagnoser = Diagnoser()
        """Step times of every rank, and what they say."""
        self._latest = metrics.LatestValues()
        self._merged = description.MergedMetadata()
        self._graph_view = model.GraphView()
        self._is_restored = False

    @classmethod
    def begin(
        cls, *, run_id: str, name: str, directory: str, version: str, settings: Settings, started: Moment
    ) -> "RunMachine":
        """A run that has just begun."""
        return cls(
            Run(
                id=run_id,
                name=name,
                directory=directory,
                version=version,
                settings=settings,
                started_wall=started.wall,
                started_mono=started.mono,
                seen_wall=started.wall,
                seen_mono=started.mono,
            )
        )

    @classmethod
    def restore(cls, snapshot: bytes) -> "RunMachine":
        """The machine that `snapshot` was taken of; cohort windows begin empty.

        Its first input tells whether the monotonic clock is still the same (see `run.clocks`).
        """
        checkpoint = msgspec.msgpack.decode(snapshot, type=Checkpoint)
        machine = cls(checkpoint.run)
        machine.latest.restore(checkpoint.latest)
        machine.diagnoser.restore(checkpoint.diagnoser)
        machine._is_restored = True
        return machine

    def snapshot(self) -> bytes:
        """The whole state, for a checkpoint."""
        diagnoser = self.diagnoser.snapshot()
        return msgspec.msgpack.encode(Checkpoint(run=self.state, latest=self._latest.snapshot(), diagnoser=diagnoser))

    def reopen(self) -> None:
        """Go on after the end: what comes is taken in, and the next look ends the run again as of then."""
        self.state.completed = False

    def handle(self, event: Input, now: Moment) -> list[Instruction]:
        """Apply one input; return what is to be done about it, in order."""
        state = self.state
        if self._is_restored:
            clocks.take_over(state, now)
            self._is_restored = False
        state.seen_wall, state.seen_mono = now.wall, now.mono
        return self._HANDLERS[type(event)](self, event, now)

    # --- reading -----------------------------------------------------------------------------------------------------

    @property
    def latest(self) -> metrics.LatestValues:
        """Last value of every metric on every rank."""
        return self._latest

    def run_document(self, now: Moment) -> documents.RunDocument:
        """`/api/v1/run`."""
        return view.run_document(self.state, self._merged.of(self.state), self.diagnoser.document(), now)

    def rank_entries(self, now: Moment, path: str = ROOT_PATH) -> list[documents.RankEntry]:
        """`/api/v1/ranks`, of the ranks at or below a path."""
        return view.rank_entries(self.state, self.diagnoser, now, path)

    def heat(self, path: str) -> documents.HeatAnswer:
        """`/api/v1/heat?path=`."""
        return self.diagnoser.heat(None if path == ROOT_PATH else self.ranks_below(path))

    def metric_entries(self) -> list[documents.MetricEntry]:
        """`/api/v1/metrics`."""
        return metrics.metric_entries(self.state, self.root, self._latest)

    def epoch_records(self) -> list[documents.EpochRecord]:
        """`/api/v1/epochs`, ascending."""
        known = sorted(self.state.epochs.values(), key=lambda epoch: epoch.epoch)
        return [epoch.record for epoch in known if epoch.record is not None]

    def event_records(self) -> list[documents.EventRecord]:
        """`/api/v1/events`, oldest first."""
        return list(self.state.events)

    def resource_records(self, path: str, most: int = resources.MOST_RECORDS) -> list[documents.ResourceRecord]:
        """`/api/v1/resources?path=`, oldest first; `most` of them, thinned alike on every path."""
        return resources.records_below(self.state, path, most)

    def graph(self) -> documents.GraphDocument | None:
        """The model graph with the times of the slowest rank, or None; the same object while nothing of it changes."""
        return self._graph_view.of(self.state)

    def svg(self) -> str | None:
        """The user's SVG as it arrived, not yet sanitised."""
        return self.state.svg

    def last_values(self, most: int = documents.MOST_LATEST_VALUES) -> list[tuple[str, int, str, float]]:
        """(metric, rank, host, latest value) of every cell that has one, of whole metrics, at most `most` of them."""
        out: list[tuple[str, int, str, float]] = []
        for metric in self.state.metrics.values():
            numbers = [number for number in self._latest.ranks_with(metric.id) if number in self.state.ranks]
            if len(out) + len(numbers) > most:
                break
            for number, value in zip(numbers, self._latest.of(metric.id, numbers) if numbers else (), strict=True):
                out.append((metric.name, number, self.state.ranks[number].host or "", value))
        return out

    def ranks_below(self, path: str) -> frozenset[int] | None:
        """Ranks at or below a path; None for an unknown path (the root is always known)."""
        found = frozenset(rank.rank for rank in topology.ranks_at(self.state, path))
        return found if found or path == ROOT_PATH else None

    # --- inputs ------------------------------------------------------------------------------------------------------

    def _session_opened(self, event: inputs.SessionOpened, now: Moment) -> list[Instruction]:
        self._begin_no_later_than(now.mono - event.hello.uptime_seconds)
        told = failures.tell_before(self.state, event.hello.identity, now)
        return self._own_wish(now) + told + topology.open_session(self.state, event.hello, now)

    def _begin_no_later_than(self, mono: float) -> None:
        """A run began with its first session, which may have had to start the controller first."""
        early = self.state.started_mono - mono
        if 0 < early < EARLIEST_START_S and not self.state.sessions:
            self.state.started_mono -= early
            self.state.started_wall -= early

    def _message_arrived(self, event: inputs.MessageArrived, now: Moment) -> list[Instruction]:
        if event.session not in self.state.sessions:
            return []
        out = liveness.note_life(self.state, event.session, now)
        handler = self._MESSAGES.get(type(event.message))
        return out + handler(self, event.session, event.message, now) if handler else out

    def _points_arrived(self, event: inputs.PointsArrived, now: Moment) -> list[Instruction]:
        batch = metrics.of_possible_ranks(event.batch)
        if not len(batch):
            return []
        out = metrics.take_points(self.state, batch, self.root, self._latest, now)
        return [PublishPoints(batch), *out]

    def _ticked(self, event: inputs.Ticked, now: Moment) -> list[Instruction]:
        state = self.state
        if state.completed:
            return []
        state.may_restart = event.may_restart
        out = self._own_wish(now) + failures.tell_due(state, now) + liveness.check_silence(state, now)
        pace.note_step(state, now)
        out += epochs.publish_complete(state, now)
        out += self.diagnoser.tick(state, now)
        out += say_rest(state, now)
        if state.published_at is None or not 0 <= now.mono - state.published_at < PUBLISH_SECONDS:
            state.published_at = now.mono
            out.append(PublishRun())
        end = lifecycle.check_end(state, now)
        if end and isinstance(end[-1], CompleteRun) and state.ended_wall == now.wall:
            out += self._last_words(now)
        return out + end

    def _last_words(self, now: Moment) -> list[Instruction]:
        """A last look, and what the run's time went into, in at most five lines."""
        out = self.diagnoser.look(self.state, now)
        return out + [PrintLine(line) for line in summary_lines(self.diagnoser.document(), self.state.directory)]

    def _frame_refused(self, event: inputs.FrameRefused, now: Moment) -> list[Instruction]:
        return raise_event(self.state, now, event.kind, event.text, severity="warn", path=event.path)

    def _limit_reached(self, event: inputs.LimitReached, now: Moment) -> list[Instruction]:
        return raise_event(self.state, now, event.kind, event.text, severity="warn", count=event.count, active=True)

    def _limit_passed(self, event: inputs.LimitPassed, now: Moment) -> list[Instruction]:
        return clear_event(self.state, event.kind, ROOT_PATH)

    def _sink_failed(self, event: inputs.SinkFailed, now: Moment) -> list[Instruction]:
        text = f"the sink {event.sink} failed: {event.reason}"
        return raise_event(self.state, now, "sink failed", text, severity="warn", key=event.sink, active=True)

    def _page_bound(self, event: inputs.PageBound, now: Moment) -> list[Instruction]:
        return pages.bound(self.state, event, now)

    def _page_bind_failed(self, event: inputs.PageBindFailed, now: Moment) -> list[Instruction]:
        return pages.bind_failed(self.state, event, now)

    def _store_stalled(self, event: inputs.StoreStalled, now: Moment) -> list[Instruction]:
        known = self.state.stalled_since is not None
        self.state.stalled_since, self.state.stall_reason = event.since, event.reason
        if known:
            return [PublishRun()]
        text = f"the run folder does not take what arrives: {event.reason}"
        return [*raise_event(self.state, now, "disk", text, severity="critical", active=True), PublishRun()]

    def _store_recovered(self, event: inputs.StoreRecovered, now: Moment) -> list[Instruction]:
        self.state.stalled_since = self.state.stall_reason = None
        return [*clear_event(self.state, "disk", "root"), PublishRun()]

    def _launcher_gone(self, event: inputs.LauncherGone, now: Moment) -> list[Instruction]:
        return lifecycle.lose_launcher(self.state, now)

    def _process_gone(self, event: inputs.ProcessGone, now: Moment) -> list[Instruction]:
        return liveness.lose_process(self.state, event, now)

    def _stop_asked(self, event: inputs.StopAsked, now: Moment) -> list[Instruction]:
        return lifecycle.ask_stop(self.state, event, now)

    def _events_recalled(self, event: inputs.EventsRecalled, now: Moment) -> list[Instruction]:
        return recall_events(self.state, event.records, now)

    def _replayed(self, event: inputs.Replayed, now: Moment) -> list[Instruction]:
        """Nobody could be heard while the controller was away: everybody's silence begins anew."""
        state = self.state
        forget_recalled(state)
        for rank in state.ranks.values():
            rank.seen = now.mono if not rank.is_over else rank.seen
        for session in state.sessions.values():
            session.seen = now.mono
        was_asked = state.asked_page
        port = state.bound_port if state.bound_port is not None else state.asked_port
        state.bound_port, state.asked_page, state.asked_port = None, False, None
        down = "" if event.downtime_seconds is None else f" after {event.downtime_seconds:.1f} s"
        text = f"the controller came back{down} and replayed its journal"
        if event.downtime_seconds is None and not state.ranks:
            text = "no controller had heard anything of this run yet; this one takes in what is left of it"
        told = sum(event.count for event in state.events if event.kind == "controller restarted")
        count = max(1, event.restarts - told)  # those before were not in the journal
        out = raise_event(state, now, "controller restarted", text, severity="warn", count=count)
        return [*out, *(pages.wish(state, None, port, now) if was_asked else ()), PublishRun()]

    def _job_started_again(self, event: inputs.JobStartedAgain, now: Moment) -> list[Instruction]:
        told = failures.tell_all(self.state, now)
        return told + again.start_again(self.state, event, now) + self._own_wish(now)

    # --- messages ----------------------------------------------------------------------------------------------------

    def _heartbeat(self, session: bytes, beat: messages.Heartbeat, now: Moment) -> list[Instruction]:
        pong = Reply(session, messages.Pong(sent_at=beat.sent_at, received_at=now.wall))
        beat = pace.within_bounds(beat)
        known = self.state.sessions[session]
        rank = self.state.ranks.get(known.rank) if known.rank is not None else None
        if rank is None or rank.session != session:
            return [pong]
        rank.phase = beat.phase
        rank.step = beat.step if beat.step is not None else rank.step
        rank.epoch = beat.epoch if beat.epoch is not None else rank.epoch
        takeover.note_epoch(self.state, rank.generation, beat.epoch)
        rank.samples = beat.samples if beat.samples is not None else rank.samples
        rank.step_seconds, rank.own_step_seconds = beat.step_seconds, beat.own_step_seconds
        pace.note_progress(rank, beat, now.mono)
        out = liveness.note_dropped(self.state, session, beat.dropped_points, now)
        out += liveness.note_clock(self.state, rank, beat.clock_offset, now)
        return [pong, *out, PublishRun()]

    def _epoch(self, session: bytes, report: messages.EpochReport, now: Moment) -> list[Instruction]:
        known = self.state.sessions[session]
        if known.rank is None:
            return []
        rank = self.state.ranks.get(known.rank)
        if rank is not None and rank.generation == known.generation:
            rank.epoch = report.epoch
        takeover.note_epoch(self.state, known.generation, report.epoch)
        return epochs.report_epoch(self.state, known.rank, known.generation, report, now)

    def _resources(self, session: bytes, sample: messages.ResourceSample, now: Moment) -> list[Instruction]:
        out = resources.take_sample(self.state, session, sample, now)
        number = self.state.sessions[session].rank if sample.of_rank is None else sample.of_rank
        rank = self.state.ranks.get(number) if number is not None else None
        if rank is not None and rank.sampled_at == now.mono:
            self.diagnoser.note_memory(rank, now)
        return out

    def _step_times(self, session: bytes, message: messages.StepTimes, now: Moment) -> list[Instruction]:
        known = self.state.sessions[session]
        rank = self.state.ranks.get(known.rank) if known.rank is not None else None
        if rank is not None and rank.session == session and rank.generation == known.generation:
            self.diagnoser.accept(rank.rank, rank.generation, session, message)
        return []

    def _port(self, session: bytes, wish: messages.PortWish, now: Moment) -> list[Instruction]:
        return pages.wish(self.state, session, wish.port, now)

    def _own_wish(self, now: Moment) -> list[Instruction]:
        """The way the run was started counts as a wish, once."""
        state = self.state
        if not state.settings.wants_page or state.own_wish_counted:
            return []
        state.own_wish_counted = True
        return pages.wish(state, None, state.settings.port, now)

    def _metadata(self, session: bytes, message: messages.SetMetadata, now: Moment) -> list[Instruction]:
        return description.take_metadata(self.state, message, now)

    def _plan(self, session: bytes, message: messages.SetPlan, now: Moment) -> list[Instruction]:
        return description.take_plan(self.state, message, now)

    def _graph(self, session: bytes, message: messages.SetGraph, now: Moment) -> list[Instruction]:
        return description.take_graph(self.state, session, message, now)

    def _module_times(self, session: bytes, message: messages.ModuleTimes, now: Moment) -> list[Instruction]:
        return model.take_times(self.state, session, message)

    def _hardware(self, session: bytes, message: messages.SetHardware, now: Moment) -> list[Instruction]:
        return description.take_hardware(self.state, session, message)

    def _user_event(self, session: bytes, event: messages.UserEvent, now: Moment) -> list[Instruction]:
        text = f"{event.title}: {event.text}" if event.text else event.title
        path = self._path_of(session)
        return raise_by_rank(self.state, now, "user", text, severity=event.level, path=path, key=text[:200])

    def _notice(self, session: bytes, notice: messages.Notice, now: Moment) -> list[Instruction]:
        path = self._path_of(session)
        kind, text, count = notice.about[:80], notice.text, max(1, notice.count)
        key = text[:200] if kind == "value refused" else ""  # it names the metric: each is told
        return raise_by_rank(self.state, now, kind, text, severity=notice.level, path=path, key=key, count=count)

    def _path_of(self, session: bytes) -> str:
        number = self.state.sessions[session].rank
        rank = self.state.ranks.get(number) if number is not None else None
        return topology.path_of(rank) if rank else "root"

    def _goodbye(self, session: bytes, message: messages.Goodbye, now: Moment) -> list[Instruction]:
        return liveness.say_goodbye(self.state, session, message, now)

    def _worker_started(self, session: bytes, message: messages.WorkerStarted, now: Moment) -> list[Instruction]:
        told = failures.tell_before(self.state, message.identity, now)
        return told + topology.start_worker(self.state, session, message, now)

    def _worker_exited(self, session: bytes, message: messages.WorkerExited, now: Moment) -> list[Instruction]:
        return liveness.exit_worker(self.state, message, now)

    def _worker_alive(self, session: bytes, message: messages.WorkerAlive, now: Moment) -> list[Instruction]:
        out: list[Instruction] = []
        for number in message.ranks:
            rank = self.state.ranks.get(number)
            if rank and rank.generation == message.generation and not rank.monitored and not rank.is_over:
                out += liveness.touch(self.state, rank, now)
        return out

    def _job_ended(self, session: bytes, message: messages.JobEnded, now: Moment) -> list[Instruction]:
        return lifecycle.end_job(self.state, message, now)

    def _metric_appeared(self, event: inputs.MetricAppeared, now: Moment) -> list[Instruction]:
        return metrics.define_metric(self.state, event)

    _HANDLERS: ClassVar[dict[type, Callable[["RunMachine", Any, Moment], list[Instruction]]]] = {
        inputs.SessionOpened: _session_opened,
        inputs.MessageArrived: _message_arrived,
        inputs.MetricAppeared: _metric_appeared,
        inputs.PointsArrived: _points_arrived,
        inputs.FrameRefused: _frame_refused,
        inputs.LimitReached: _limit_reached,
        inputs.LimitPassed: _limit_passed,
        inputs.SinkFailed: _sink_failed,
        inputs.PageBound: _page_bound,
        inputs.PageBindFailed: _page_bind_failed,
        inputs.StoreStalled: _store_stalled,
        inputs.StoreRecovered: _store_recovered,
        inputs.LauncherGone: _launcher_gone,
        inputs.ProcessGone: _process_gone,
        inputs.StopAsked: _stop_asked,
        inputs.EventsRecalled: _events_recalled,
        inputs.Replayed: _replayed,
        inputs.JobStartedAgain: _job_started_again,
        inputs.Ticked: _ticked,
    }

    _MESSAGES: ClassVar[dict[type, Callable[["RunMachine", bytes, Any, Moment], list[Instruction]]]] = {
        messages.Heartbeat: _heartbeat,
        messages.EpochReport: _epoch,
        messages.ResourceSample: _resources,
        messages.StepTimes: _step_times,
        messages.PortWish: _port,
        messages.SetMetadata: _metadata,
        messages.SetPlan: _plan,
        messages.SetGraph: _graph,
        messages.ModuleTimes: _module_times,
        messages.SetHardware: _hardware,
        messages.UserEvent: _user_event,
        messages.Notice: _notice,
        messages.Goodbye: _goodbye,
        messages.WorkerStarted: _worker_started,
        messages.WorkerExited: _worker_exited,
        messages.WorkerAlive: _worker_alive,
        messages.JobEnded: _job_ended,
    }
