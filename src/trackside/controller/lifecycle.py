"""The composition root: builds a controller's parts, joins them, runs them."""

import asyncio
import contextlib
import logging
import secrets
import signal
from collections.abc import Callable, Coroutine, Iterator, Sequence

import msgspec

from trackside.controller import resume
from trackside.controller.beginning import Beginning
from trackside.controller.broom import Broom
from trackside.controller.config import ControllerConfig
from trackside.controller.desk import ControllerDesk
from trackside.controller.dispatch import Dispatch
from trackside.controller.document import DocumentWriter, HeatWriter
from trackside.controller.durable import DurableMarks
from trackside.controller.ending import Ending
from trackside.controller.farewell import Farewells
from trackside.controller.identity import save_identity, written_identity
from trackside.controller.intake import Intake
from trackside.controller.limits import LimitWatch
from trackside.controller.source import LiveSource
from trackside.controller.watch import ParentWatch, SessionWatch
from trackside.controller.website import Site, Website
from trackside.errors import DiskSilentError
from trackside.ingest.listener import Listener
from trackside.ingest.reader import FrameReader
from trackside.run import inputs
from trackside.run.inputs import Input, Moment
from trackside.run.topology import path_of, ranks_in_order
from trackside.server.built import read_files
from trackside.server.hub import Hub
from trackside.sinks.live import LiveSink
from trackside.sinks.plugins import PluginSink, start_plugins
from trackside.sinks.prometheus import take_scrape
from trackside.sinks.report import ReportSink
from trackside.sinks.terminal import TerminalSink
from trackside.store import DiskThreads, SeriesReader, StoreStatus, StoreWriter
from trackside.wire.machine import machine_id
from trackside.wire.messages import Downward, WorkerExited
from trackside.wire.processes import is_running

log = logging.getLogger("trackside.controller")

TICK_S = 0.2
MOST_GATHERED = 50_000
"""Values."""
DISK_S = 5.0
"""How long the end waits for the disk to tell what ranks left."""
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Controller:
    """One run's controller.

    Args:
        config: how it was asked to run.
        beginning: what it begins with.

    Threads: everything on the event loop that calls `run`; the store's thread only posts into it.
    """

    def __init__(self, config: ControllerConfig, beginning: Beginning) -> None:
        self.folder, self.identity = beginning.folder, beginning.identity
        self._config = config
        self._lock, self._problem, self._settings = beginning.lock, beginning.problem, beginning.settings
        self._resumption, self._events = beginning.resumption, beginning.events
        self._machine = beginning.machine
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over, self._hurry, self._asked_to_end = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._held: list[Callable[[], None]] | None = None
        """While the journal is replayed: what others have said meanwhile."""
        self._parent: ParentWatch | None = None
        self._sessions = SessionWatch(machine_id())
        self._gone: list[inputs.ProcessGone] = []
        """Seen to have ended at the last look; told at the next, when what they had sent has arrived."""
        self._plugins: list[PluginSink] = []
        self._limits: LimitWatch | None = None
        self._writer = self._make_writer()
        self._frames = FrameReader(
            self.identity.run,
            keep=self._writer.journal,
            send=self._send,
            ask_again=self._ask_again,
            has_room=self._writer.has_room,
        )
        self._frames.restore(beginning.table)
        if not beginning.table.sessions:
            self._frames.begin_session(0, self.identity.requeues)
        self._listener = Listener(self.identity.keys, self._frames, self._arrived)
        self._durable = DurableMarks(self._listener.send, machine_id())
        self._reader = SeriesReader(self._writer.table.snapshot)
        self._disk = DiskThreads("trackside-disk", limit_s=DISK_S)
        self._intake = Intake(
            self.folder,
            self.identity.run,
            config.spool_folders,
            starters=self.identity.starters,
            reader=self._frames,
            apply=self._drained,
            disk=self._disk,
        )
        self._inheriting: set[asyncio.Task[None]] = set()
        self._farewells = Farewells(self._left_by, self._intake.take_in, self._tell)
        self._source = LiveSource(self._machine, self._reader, resume.present, self._counters)
        self._hub = Hub(self._source, secrets.token_hex(4), root=self._machine.root)
        self._document = DocumentWriter(self._source, self._write_document)
        self._heat = HeatWriter(self._source, lambda content: self._writer.write_file(self.folder.heat, content))
        self._report = ReportSink(self._source, read_files(), self.folder.report, lambda: resume.present().wall)
        self._desk = self._make_desk()
        self._broom = Broom(self.identity.run, lambda: self._desk.can_print, self._desk.print_line)
        self._dispatch = Dispatch(self._machine, self._writer, self._desk, resume.present)
        self._website = self._make_website()

    # --- parts --------------------------------------------------------------------------------------------------------

    def _make_writer(self) -> StoreWriter:
        return StoreWriter(
            self.folder,
            on_durable=lambda marks: self._post(lambda: self._durable.note(marks)),
            on_status=lambda status: self._post(lambda: self._store_said(status)),
            on_checkpoint_wanted=lambda: self._post(self._checkpoint),
            next_file=1 if self._resumption is None else self._resumption.next_file,
        )

    def _make_desk(self) -> ControllerDesk:
        return ControllerDesk(
            machine=self._machine,
            listener=self._listener,
            durable=self._durable,
            source=self._source,
            hub=self._hub,
            writer=self._writer,
            document=self._document,
            terminal=TerminalSink() if self._config.parent_pid is None else None,
            completed=self._over.set,
        )

    def _make_website(self) -> Website:
        site = Site(
            run=self.identity.run,
            bind=self.identity.bind,
            token=self.identity.token,
            allowed_hosts=tuple(self.identity.allowed_hosts),
            default_port=self._config.port,
        )
        return Website(
            site,
            self._source,
            self._hub,
            report=self._report,
            prometheus=self._take_scrape,
            said=self._page_said,
        )

    # --- running ------------------------------------------------------------------------------------------------------

    def bind(self) -> None:
        """Take the link's port, and remember it, so that a restarted controller is found there.

        Raises:
            PortTakenError: the address is not to be had.
            OSError: the run folder cannot be written.
        """
        host = "127.0.0.1" if self.identity.listen == "localhost" else self.identity.listen
        self.identity.link_port = self._listener.bind(host, self.identity.link_port)
        save_identity(self.folder, self.identity)

    async def run(self, ready: Callable[[], None]) -> int:
        """Serve until the run is over; returns the exit code.

        Args:
            ready: called once ranks are served.

        Raises:
            DiskSilentError: the end was asked for while the disk held back the journal that is to be replayed.
        """
        loop = self._loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self.stop, signal.Signals(number).name)
        self._writer.start()
        self._plugins = start_plugins(self._source, loop, self._sink_failed)
        page = None if self.identity.no_page else self._website
        self._dispatch.sinks = [LiveSink(self._hub, page), self._report, *self._plugins]
        try:
            if self.is_next_session:
                await self._begin_session()
            elif self.is_reopened:
                await self._take_up()
            elif self._resumption is not None:
                await self._replay()
        except DiskSilentError:
            self._close(loop)
            raise
        self._limits = LimitWatch(self._counters)
        if self._problem is not None:
            self.apply([inputs.FrameRefused("not the former run", self._problem)])
        self._listener.start(loop)
        self._document.write_if_due(resume.present().mono)
        ready()
        tasks = [loop.create_task(self._tick(), name="trackside tick")]
        if not self._config.reopen:
            tasks.append(loop.create_task(self._broom.run(), name="trackside sweep"))
        self._watch_parent(loop)
        try:
            await self._over.wait()
            await self._make_ending().run()
        finally:
            for task in tasks:
                task.cancel()
            self._close(loop)
        return 0

    @property
    def has_sinks_of_others(self) -> bool:
        """Whether code that is not ours runs in this process."""
        return bool(self._plugins)

    def stop(self, reason: str) -> None:
        """End the run; asked again, end it without waiting for anybody. `reason`: a signal's name, or who asked."""
        self._asked_to_end.set()
        if self._held is not None:
            self._held.append(lambda: self.stop(reason))
            return
        if self._machine.state.stop_reason is not None or self._over.is_set():
            self._hurry.set()
        self.apply([inputs.StopAsked(reason), inputs.Ticked()])

    def end_again(self) -> None:
        """End a run that was reopened."""
        self.apply([inputs.Ticked()])

    def _make_ending(self) -> Ending:
        return Ending(
            folder=self.folder,
            take_in=self._take_in_rest,
            intake=self._intake,
            seal=self._seal,
            apply=self._drained,
            sinks=self._dispatch.sinks,
            failed=self._sink_failed,
            desk=self._desk,
            document=self._document,
            heat=self._heat,
            writer=self._writer,
            hub=self._hub,
            website=self._website,
            release=self._lock.release,
            hold=self.identity.hold or self._config.hold,
            hurry=self._hurry,
        )

    def _close(self, loop: asyncio.AbstractEventLoop) -> None:
        self._listener.close()
        self._reader.close()
        self._disk.close()
        self._broom.close()
        self._sessions.close()
        if self._parent is not None:
            self._parent.close()
        for number in SIGNALS:
            loop.remove_signal_handler(number)

    def apply(self, happened: Sequence[Input], moment: Moment | None = None) -> None:
        """Apply inputs to the run."""
        for event in happened:
            if isinstance(event, inputs.SessionOpened):
                self._sessions.greet(event.hello)
        happened = happened if self._dispatch.replaying else self._farewells.pass_on(happened)
        if happened:
            self._dispatch.apply(happened, moment)

    def _left_by(self, exited: WorkerExited) -> bytes | None:
        """Session of a rank's process, where that is one of this machine."""
        rank = self._machine.state.ranks.get(exited.rank)
        if rank is None or rank.session is None or rank.generation != exited.generation:
            return None
        return rank.session if self._sessions.has_seen(rank.session) else None

    def _tell(self, happened: Sequence[Input]) -> None:
        self.apply(self._frames.take())
        self._dispatch.apply(happened)

    def _arrived(self) -> None:
        """Frames were read. While nobody can look, their values wait for the next tick: together they cost a fraction."""
        can_look = self._website.is_open or bool(self._plugins)
        self.apply(self._frames.take(with_values=can_look or self._frames.values_waiting > MOST_GATHERED))

    def _drained(self) -> None:
        self.apply(self._frames.take())

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            try:
                self._look_around()
            except Exception:  # noqa: BLE001 - top of task
                log.exception("the controller's tick failed")

    def _look_around(self) -> None:
        self._listener.nudge()
        gone, self._gone = self._gone, []
        if gone:
            self._in_background(self._inherit(gone))
        self._gone = [inputs.ProcessGone(key, how.exit_code, how.signal) for key, how in self._sessions.take_gone()]
        limits = () if self._limits is None else self._limits.look(resume.present().mono)
        self._frames.ask_for_held(resume.present().wall)
        self._intake.remove_durable(self._durable.marks)
        self.apply([*self._frames.take(), *limits, inputs.Ticked(self._sessions.has_restarter())])
        if self._parent is not None:
            self._parent.poll()
        self._heat.write_if_due(resume.present().mono)
        self._broom.tell()
        self._desk.tick(resume.present().mono)

    def _in_background(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._inheriting.add(task)
        task.add_done_callback(self._inheriting.discard)

    async def _lose_launcher(self) -> None:
        """Who started this has ended, perhaps before it had said a word: what it left is taken in before that is said."""
        left: list[bytes] = []
        try:
            if not self._machine.state.sessions:
                left = await self._intake.take_in()
        except Exception:  # noqa: BLE001 - top of task
            log.exception("what the process that started the controller left was not taken in")
        self.apply([*self._frames.take(), *map(inputs.ProcessGone, left), inputs.LauncherGone()])
        if self.identity.hold or self._config.hold:
            self._hurry.set()  # who wanted the page to stay has gone

    async def _inherit(self, gone: list[inputs.ProcessGone]) -> None:
        """Processes have ended: what they had on their way is taken in before that is said."""
        try:
            await self._intake.take_in(of=[event.session for event in gone])
        except Exception:  # noqa: BLE001 - top of task
            log.exception("what ended processes left was not taken in")
        self.apply([*self._frames.take(), *gone])

    async def _take_in_rest(self) -> None:
        """At the end: what every session that is over left, of those too that never came."""
        await self._farewells.settle()
        if self._inheriting:
            await asyncio.wait(self._inheriting)
        self.apply([inputs.ProcessGone(session) for session in await self._intake.take_in()])

    def _seal(self) -> Callable[[], None]:
        """From now on nothing is taken in; returns what keeps the state of this moment in the run folder."""
        self._drained()
        self._farewells.flush()
        self._frames.close()
        seal = resume.pack_seal(self.identity, resume.write_checkpoint(self._machine, self._frames))
        return lambda: resume.write_seal(self.folder, seal)

    # --- resuming -----------------------------------------------------------------------------------------------------

    async def _replay(self) -> None:
        """Bring everything back to where the journal ends."""
        now = resume.present()
        with self._replaying():
            self.apply([inputs.EventsRecalled(self._events)])
            found = await self._read_journal(now)
        downtime = None if found.last_arrival is None else max(0.0, now.wall - found.last_arrival)
        self.apply([*resume.damage_found(found), inputs.Replayed(downtime, self.identity.restarts)])
        self._hear_held()
        await self._catch_up()

    @contextlib.contextmanager
    def _replaying(self) -> Iterator[None]:
        """What is told is of the past; what others say meanwhile waits."""
        self._held, self._dispatch.replaying = [], True
        try:
            self._define_known()
            yield
        finally:
            self._dispatch.replaying = False

    def _hear_held(self) -> None:
        held, self._held = self._held or [], None
        for call in held:
            call()

    async def _read_journal(self, now: Moment) -> resume.Replay:
        """What there is of one."""
        found = resume.Replay(0, 0, None)
        if self._resumption is not None:
            async with contextlib.aclosing(resume.read_ahead(self._resumption, self._asked_to_end)) as entries:
                apply = lambda at: self.apply(self._frames.take(), at)  # noqa: E731
                found = await resume.replay(entries, self._frames, apply, now)
        self._durable.note(self._frames.highest(), acknowledge=False)
        return found

    @property
    def is_reopened(self) -> bool:
        """Whether its run had ended before, and only takes in what came to light."""
        return self._machine.state.ended_wall is not None and not self._machine.state.completed

    @property
    def is_next_session(self) -> bool:
        """Whether the run's job was started again, and nothing of that is known yet."""
        return self._machine.state.session < self.identity.session

    @property
    def note(self) -> str | None:
        """What whoever started this should know of the run."""
        if self._problem is not None:
            return self._problem
        if not self.identity.session:
            return None
        return f"session {self.identity.session + 1} of {self.folder.path}"

    async def _begin_session(self) -> None:
        """The run goes on with other processes; first comes all that the former ones left."""
        state, heard = self._machine.state, self._machine.state.seen_wall
        with self._replaying():
            if state.ended_wall is None:
                self.apply([inputs.EventsRecalled(self._events)])
            found = await self._read_journal(resume.present())
        await self._intake.take_in()
        generation = state.generation + bool(state.ranks)
        self._frames.begin_session(generation, self.identity.requeues)
        began = inputs.JobStartedAgain(
            session=self.identity.session,
            generation=generation,
            settings=self._settings,
            heard_wall=heard if found.last_arrival is None else found.last_arrival,
            by=None if self._config.job is None else self._config.job.words,
        )
        self.apply([*resume.damage_found(found), began])
        self._checkpoint()
        self._hear_held()

    async def _take_up(self) -> None:
        """A run that had ended goes on where it was; a journal there is of an attempt that was cut short."""
        with self._replaying():
            await self._read_journal(resume.present())
        self._hear_held()
        before = self._frames.counters.values
        await self._catch_up()
        more = self._frames.counters.values - before
        if more:
            text = f"{more:,} values that had not been delivered when the run ended were taken in"
            self.apply([inputs.FrameRefused("taken in late", text)])

    async def _catch_up(self) -> None:
        """What happened on this machine while nobody listened: ranks that left their last words, ranks that have gone."""
        await self._intake.take_in()
        state = self._machine.state
        here = {name for name, host in state.hosts.items() if host.machine_id == machine_id()}
        silent = [session for session, known in state.sessions.items() if known.is_open and known.host in here]
        gone = [session for session in silent if not is_running(state.sessions[session].pid)]
        self.apply([inputs.ProcessGone(session) for session in gone])

    def _define_known(self) -> None:
        """Tell the parts what the checkpoint knows, since nobody will say it again."""
        state = self._machine.state
        for metric in state.metrics.values():
            self._writer.define_metric(metric.id, metric.name)
            self._desk.define_metric(metric.id, metric.name, metric.reduction)
        for rank in ranks_in_order(state):
            self._writer.define_rank(rank.rank, rank.generation, path_of(rank))
            self._desk.define_rank(rank.rank, rank.generation, path_of(rank))
        for record in self._machine.epoch_records():
            self._writer.epoch(record)
        self._desk.graph_set(state.svg, state.graph)

    def _checkpoint(self) -> None:
        self.apply(self._frames.take())
        self._farewells.flush()
        self._writer.checkpoint(resume.write_checkpoint(self._machine, self._frames))

    # --- what others say ----------------------------------------------------------------------------------------------

    def _post(self, call: Callable[[], None]) -> None:
        """From the store's thread into the loop."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._hear, call)

    def _hear(self, call: Callable[[], None]) -> None:
        if self._held is None:
            call()
        else:
            self._held.append(call)

    def _store_said(self, status: StoreStatus) -> None:
        since = status.not_persisted_since
        if since is None:
            self.apply([inputs.StoreRecovered()])
        else:
            self.apply([inputs.StoreStalled(since, status.reason or "unknown")])

    async def _take_scrape(self) -> Callable[[], str]:
        return (await take_scrape(self._source, resume.present().wall)).text

    def _page_said(self, said: inputs.PageBound | inputs.PageBindFailed) -> None:
        """Later: it comes while an instruction is carried out."""
        if self._loop is not None:
            self._loop.call_soon(self._take_page, said)

    def _take_page(self, said: inputs.PageBound | inputs.PageBindFailed) -> None:
        self.apply([said])
        if isinstance(said, inputs.PageBound):
            self._desk.print_line(said.url_line)
            self.identity.page_port = said.port
            path, content = written_identity(self.folder, self.identity)
            self._writer.write_file(path, content, private=True)

    def _sink_failed(self, name: str, reason: str) -> None:
        self._dispatch.fail(name, reason)
        self._dispatch.apply([])

    def _watch_parent(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._config.parent_pid is not None:
            self._parent = ParentWatch(self._config.parent_pid, lambda: self._in_background(self._lose_launcher()))
            self._parent.start(loop)

    # --- small things -------------------------------------------------------------------------------------------------

    def _send(self, session: bytes, message: Downward) -> None:
        self._listener.send(session, message)

    def _ask_again(self, session: bytes) -> None:
        self._durable.ask_again(session)

    def _write_document(self, content: bytes) -> None:
        self._writer.write_file(self.folder.document, content)

    def _counters(self) -> dict[str, int]:
        status = self._writer.status()
        return {
            **msgspec.structs.asdict(self._frames.counters),
            **self._hub.counters(),
            **self._website.tally.counters(),
            "points": status.points,
            "points_in_memory": status.points_in_memory,
            "segments": status.segments,
            "segments_unreadable": len(self._reader.unreadable),
            "store_waiting_bytes": status.waiting_bytes,
            "store_dropped_records": status.dropped_records,
            "journal_bytes": status.journal_bytes,
            **{f"failures_of_{name.replace(' ', '_')}": count for name, count in self._dispatch.failures.items()},
            **{f"dropped_calls_of_{sink.name}": sink.dropped_calls for sink in self._plugins},
            **{f"failed_calls_of_{sink.name}": sink.failed_calls for sink in self._plugins},
        }
