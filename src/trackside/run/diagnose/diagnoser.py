"""Joins the parts: takes what ranks send, looks at it now and then, keeps the verdicts."""

import msgspec

from trackside.run.diagnose import balance, blame, bound, causes, crowding
from trackside.run.diagnose.blame import Behind, Judgement
from trackside.run.diagnose.entries import Entries, is_whole, join
from trackside.run.diagnose.heat import HeatMap, HeatSnapshot
from trackside.run.diagnose.memory import Leak, MemorySample, MemoryTrace
from trackside.run.diagnose.modules import costliest_module
from trackside.run.diagnose.spikes import Spike, SpikeLog
from trackside.run.diagnose.verdicts import VerdictBook
from trackside.run.diagnose.window import Aligned, StepWindow
from trackside.run.inputs import Moment
from trackside.run.outputs import Instruction, PublishRun
from trackside.run.state import Rank, Run
from trackside.run.topology import path_of
from trackside.wire.documents import Diagnosis, HeatAnswer, SharePart, Verdict
from trackside.wire.ids import host_path
from trackside.wire.messages import StepTimes

MOST_PENDING = 8192
"""Messages that wait for the next look; a replayed journal brings any number at once."""
LEAST_PAUSE_S = 0.5
RANKS_PER_S = 512
"""So many ranks make the pause between looks a second longer."""
CONCLUDE_S = 1.0
MEMORY_PAUSE_S = 5.0
SOON_S = 7200.0
"""Memory that lasts for less than this is a warning."""
STARVED = 0.4
FED = 0.25
STARVED_BLOCKS = 32
SHARES_SHOWN = 256
STEADY_GAIN = 0.05


class DiagnoserSnapshot(msgspec.Struct, kw_only=True):
    """A `Diagnoser` in a checkpoint. The window of steps is not in it: it is full again within seconds."""

    book: VerdictBook = msgspec.field(default_factory=VerdictBook)
    heat: HeatSnapshot = msgspec.field(default_factory=HeatSnapshot)
    spikes: list[Spike] = []
    spikes_seen: int = -1
    document: Diagnosis | None = None


class Diagnoser:
    """Who is slow, and why.

    Threads: the controller's event loop only.
    """

    def __init__(self) -> None:
        self.heat_map = HeatMap()
        self.window = StepWindow()
        self.book = VerdictBook()
        self.malformed = 0
        """Messages whose columns contradicted each other."""
        self._spikes = SpikeLog()
        self._memory: dict[int, MemoryTrace] = {}
        self._settled: dict[int, int] = {}
        """Step by rank at which its last verdict ended: what came before is no ground for another."""
        self._owners: dict[int, tuple[int, bytes]] = {}
        self._anew: set[int] = set()
        """Ranks for which another process has spoken since the last look."""
        self._pending: list[tuple[int, StepTimes]] = []
        self._has_new = False
        self._looked_at: float | None = None
        self._concluded_at: float | None = None
        self._memory_looked_at: float | None = None
        self._document: Diagnosis | None = None
        self._shares: dict[int, float] = {}
        self._memory_ratio: float | None = None

    # --- taking ------------------------------------------------------------------------------------------------------

    def accept(self, rank: int, generation: int, session: bytes, message: StepTimes) -> None:
        """Keep a message until the next look."""
        if not is_whole(message):
            self.malformed += 1
            return
        if self._owners.get(rank) != (generation, session):
            self._begin(rank, generation, session, message)
        self._pending.append((rank, message))
        if len(self._pending) >= MOST_PENDING:
            self.flush()

    def _begin(self, rank: int, generation: int, session: bytes, message: StepTimes) -> None:
        """Another process speaks for the rank: after a restart it may do steps again."""
        is_first = rank not in self._owners
        self._owners[rank] = (generation, session)
        self._memory.pop(rank, None)
        self._settled.pop(rank, None)
        if is_first:
            return
        self._anew.add(rank)
        if not message.step:
            return
        self.flush()
        self.window.begin(rank)
        self.heat_map.begin(rank, int.from_bytes(message.step[:8], "little", signed=True))

    def note_memory(self, rank: Rank, now: Moment) -> None:
        """Take a rank's latest resource sample."""
        sample = rank.sample
        if sample is None or (sample.memory is None and sample.torch_allocated is None):
            return
        trace = self._memory.setdefault(rank.rank, MemoryTrace())
        trace.take(
            MemorySample(mono=now.mono, step=rank.step, host=sample.memory, device=sample.torch_allocated or None)
        )

    def flush(self) -> None:
        """Take in what waits."""
        pending, self._pending = self._pending, []
        for entries in join(pending) if pending else ():
            self.take(entries)

    def take(self, entries: Entries) -> None:
        """Take entries of any ranks."""
        self.window.take(entries)
        self.heat_map.take(entries)
        self._has_new = self._has_new or bool(len(entries))

    # --- looking -----------------------------------------------------------------------------------------------------

    def tick(self, run: Run, now: Moment) -> list[Instruction]:
        """Look, when it is time to and there is anything new."""
        out = self._look_at_memory(run, now)
        pause = LEAST_PAUSE_S + len(run.ranks) / RANKS_PER_S
        if self._looked_at is not None and 0 <= now.mono - self._looked_at < pause:
            return out
        is_due = self._concluded_at is None or not 0 <= now.mono - self._concluded_at < CONCLUDE_S
        return out + self.look(run, now, conclude=is_due)

    def look(self, run: Run, now: Moment, *, conclude: bool = True) -> list[Instruction]:
        """Look now, if there is anything new; what the whole job waits for need not be looked at so often."""
        self.flush()
        out = self._drop_gone(run)
        if self._has_new:
            self._has_new, self._looked_at = False, now.mono
            out += self._look(run, now, conclude)
        return out

    def _look(self, run: Run, now: Moment, conclude: bool) -> list[Instruction]:
        ranks = sorted(rank.rank for rank in run.ranks.values() if rank.state in ("alive", "late", "finished"))
        view = self.window.aligned(ranks, settle=blame.SETTLE_STEPS)
        if view is None:
            return []
        depth = 256 if len(view.rows) <= 256 else 128
        judgement = Judgement(view.latest(depth), self._settled)
        out = self._blame(run, judgement, now) if len(view.rows) > 1 else []
        self._spikes.take(view)
        out += self._say_pattern(run, view, now)
        if conclude or out:
            self._concluded_at = now.mono
            out += self._weigh(run, judgement, now)
            out += self._say_crowded(run, view, now)
            out += self._conclude(run, judgement, now)
        return [*out, PublishRun()]

    # --- ranks that are behind ---------------------------------------------------------------------------------------

    def _blame(self, run: Run, judgement: Judgement, now: Moment) -> list[Instruction]:
        found = {one.rank: one for one in judgement.behind() if one.rank in run.ranks and not one.by_share}
        out = self._check_open(run, judgement, found)
        blamed = sorted({*found, *(one.rank for one in self._on_ranks() if one.rank is not None)})
        for behind in found.values():
            rank = run.ranks[behind.rank]
            module = costliest_module(run, behind.rank, behind.phase)
            verdict = causes.of_behind(behind, judgement, rank, blamed, module)
            known = self.book.find(verdict.kind, verdict.path)
            if known is not None:
                verdict = causes.of_behind(behind, judgement, rank, blamed, module, known.since_step)
            other = "straggler" if verdict.kind == "data starvation" else "data starvation"
            former = self.book.find(other, verdict.path)
            if former is not None:
                out += self.book.end(run, former, verdict.since_step)
            out += self.book.say(run, now, verdict, "warn")
        return out

    def _on_ranks(self) -> list[Verdict]:
        """Open verdicts about a rank's own time."""
        return [one for one in self.book.open if one.kind in ("straggler", "data starvation") and one.rank is not None]

    def _check_open(self, run: Run, judgement: Judgement, found: dict[int, Behind]) -> list[Instruction]:
        """End what is over; bring the others up to date with the latest figures."""
        out: list[Instruction] = []
        for verdict in self._on_ranks():
            number = verdict.rank
            if number is None or number in found or number not in run.ranks:
                continue
            if judgement.is_clear(number, verdict.since_step or 0):
                self._settled[number] = judgement.view.last_step + 1
                out += self.book.end(run, verdict, judgement.view.last_step)
        return out

    # --- the whole job -----------------------------------------------------------------------------------------------

    def _weigh(self, run: Run, judgement: Judgement, now: Moment) -> list[Instruction]:
        """Shares of the batch."""
        found = balance.balance_of(judgement)
        known = next((one for one in self.book.open if one.kind == "imbalance"), None)
        self._shares = {}
        if found is None:
            return []
        is_worth_it = balance.is_worth_it(found, judgement.step_seconds)
        has_slow = any(one.kind == "straggler" for one in self.book.open)
        is_uneven = is_worth_it and found.uneven is not None and found.ranks[found.uneven] in run.ranks
        if is_uneven or (has_slow and found.gain_seconds >= STEADY_GAIN * judgement.step_seconds):
            self._shares = dict(zip(found.ranks, found.suggested.tolist(), strict=True))
        out: list[Instruction] = []
        if known is not None and not (is_uneven and known.rank == found.ranks[found.uneven or 0]):
            out += self.book.end(run, known, judgement.view.last_step)
        if is_uneven and found.uneven is not None:
            view = judgement.view.latest(found.blocks)
            rank = run.ranks[found.ranks[found.uneven]]
            stride = view.window.stride
            verdict = causes.of_balance(found, found.uneven, rank, view.first_step(0), view.time_of(0), stride)
            out += self.book.say(run, now, verdict, "warn")
        return out

    def _say_pattern(self, run: Run, view: Aligned, now: Moment) -> list[Instruction]:
        pattern = self._spikes.pattern(view.last_step, view.window.stride)
        known = self.book.find("slow step", "root")
        if pattern is not None:
            rank = run.ranks.get(pattern.rank) if pattern.rank is not None else None
            return self.book.say(run, now, causes.of_pattern(pattern, rank), "info")
        return [] if known is None else self.book.end(run, known, view.last_step)

    def _say_crowded(self, run: Run, view: Aligned, now: Moment) -> list[Instruction]:
        """Hosts whose ranks have to wait for a core."""
        hosts = {rank.rank: rank.host for rank in run.ranks.values() if rank.host is not None}
        seen, found = crowding.core_waits(view, hosts)
        known = {one.path: one for one in self.book.open if one.kind == "crowded host"}
        out: list[Instruction] = []
        for host, waits in found.items():
            open_one = known.pop(host_path(host), None)
            if open_one is not None and waits.ratio < crowding.ROOMY:
                out += self.book.end(run, open_one, view.last_step)
            elif waits.is_crowded or open_one is not None:
                verdict = causes.of_crowded_host(host, waits, seen)
                out += self.book.say(run, now, verdict, "warn")
        for gone in known.values() if found else ():
            out += self.book.end(run, gone, view.last_step)
        return out

    def _conclude(self, run: Run, judgement: Judgement, now: Moment) -> list[Instruction]:
        view = judgement.view
        costs = bound.costs_of(view)
        laggards = self._on_ranks()
        out = self._starve(run, judgement, costs, now) if len(view.rows) > 1 else []
        kind, text = bound.bound_of(costs, self._memory_ratio, has_laggard=bool(laggards))
        gain = judgement.gain({one.rank for one in laggards if one.rank is not None}) if laggards else 0.0
        total = costs.step_seconds
        entries = [run.ranks[rank] for rank in self._shares if rank in run.ranks][:SHARES_SHOWN]
        shares = balance.balance_of(judgement) if self._shares else None
        present = dict(zip(shares.ranks, shares.share.tolist(), strict=True)) if shares is not None else {}
        self._document = Diagnosis(
            steps=len(view.ids) * view.window.stride,
            step_seconds=total,
            bound=kind,
            bound_text=text,
            phases={name: round(mean, 7) for name, mean in costs.phases.items()},
            gain_ratio=min(1.0, gain / max(total, judgement.recent_step_seconds)) if total else None,
            balance=[
                SharePart(rank=one.rank, share=present[one.rank], suggested=self._shares[one.rank])
                for one in entries
                if one.rank in present
            ],
        )
        return out

    def _starve(self, run: Run, judgement: Judgement, costs: bound.Costs, now: Moment) -> list[Instruction]:
        """All ranks wait for data, for long."""
        known = self.book.find("data starvation", "root")
        ratio, view = costs.input_ratio or 0.0, judgement.view.latest(bound.BLOCKS)
        is_first = ratio >= max(costs.waiting_ratio or 0.0, costs.work_ratio or 0.0)
        if known is not None and ratio < FED:
            return self.book.end(run, known, view.last_step)
        if (ratio >= STARVED and is_first and costs.blocks >= STARVED_BLOCKS) or known is not None:
            steps = len(view.ids) * view.window.stride
            verdict = causes.of_starved_job(costs, steps, view.first_step(0), view.time_of(0))
            return self.book.say(run, now, verdict, "warn")
        return []

    # --- memory ------------------------------------------------------------------------------------------------------

    def _look_at_memory(self, run: Run, now: Moment) -> list[Instruction]:
        pause = MEMORY_PAUSE_S + len(run.ranks) / RANKS_PER_S * 4
        if self._memory_looked_at is not None and 0 <= now.mono - self._memory_looked_at < pause:
            return []
        self._memory_looked_at = now.mono
        self._memory_ratio = _fullest(run)
        growing = {
            number: growth
            for number, trace in self._memory.items()
            if number in run.ranks and (growth := trace.growth()) is not None
        }
        out: list[Instruction] = []
        for number, growth in growing.items():
            rank = run.ranks[number]
            rates = [
                other.rate
                for place, other in growing.items()
                if other.where == "host" and run.ranks[place].host == rank.host
            ]
            left = _seconds_left(run, rank, growth.where, growth.rate if growth.where == "device" else sum(rates))
            severity = "warn" if left is not None and left < SOON_S else "info"
            verdict = causes.of_leak(Leak(number, growth, left), rank, now.wall)
            out += self.book.say(run, now, verdict, "warn" if severity == "warn" else "info")
        return out + self._end_leaks(run, set(growing))

    def _end_leaks(self, run: Run, growing: set[int]) -> list[Instruction]:
        out: list[Instruction] = []
        for verdict in [one for one in self.book.open if one.kind == "memory growth"]:
            trace = self._memory.get(verdict.rank) if verdict.rank is not None else None
            if verdict.rank in growing or trace is None:
                continue
            if trace.has_stopped():
                out += self.book.end(run, verdict, run.ranks[verdict.rank].step if verdict.rank in run.ranks else None)
        return out

    # --- what is left behind -----------------------------------------------------------------------------------------

    def _drop_gone(self, run: Run) -> list[Instruction]:
        """Verdicts about ranks that left the job, or began anew, are over; the last word on one that died stands."""
        out: list[Instruction] = []
        for verdict in [one for one in self.book.open if one.rank is not None and one.kind != "slow step"]:
            rank = run.ranks.get(verdict.rank) if verdict.rank is not None else None
            is_gone = rank is None or path_of(rank) != verdict.path
            owner = self._owners.get(verdict.rank if verdict.rank is not None else -1)
            is_new = rank is not None and owner is not None and owner[0] != rank.generation
            if is_gone or is_new or verdict.rank in self._anew:
                out += self.book.end(run, verdict, self.window.steps_of(verdict.rank or 0))
        self._anew.clear()
        return out

    # --- reading -----------------------------------------------------------------------------------------------------

    def document(self) -> Diagnosis | None:
        """What is known now; None until there is a basis."""
        document = self._document
        if document is None:
            if not self.book.open and not self.book.over:
                return None
            document = Diagnosis(steps=0, step_seconds=None, bound=None, bound_text="there are too few steps to tell")
        return msgspec.structs.replace(document, verdicts=self.book.listed())

    def suggested_shares(self) -> dict[int, float]:
        """Part of the batch by rank that would equalise the times; empty where it is not worth it."""
        return self._shares

    def worst_by_path(self, paths: list[str]) -> dict[str, str]:
        """Kind of the worst open verdict of these paths."""
        return self.book.worst_on(paths) if self.book.open else {}

    def heat(self, ranks: frozenset[int] | None = None) -> HeatAnswer:
        """`/api/v1/heat`."""
        self.flush()
        return self.heat_map.answer(ranks)

    # --- checkpoints -------------------------------------------------------------------------------------------------

    def snapshot(self) -> DiagnoserSnapshot:
        """For a checkpoint."""
        self.flush()
        return DiagnoserSnapshot(
            book=self.book,
            heat=self.heat_map.snapshot(),
            spikes=self._spikes.spikes,
            spikes_seen=self._spikes.seen,
            document=self._document,
        )

    def restore(self, kept: DiagnoserSnapshot) -> None:
        """Take over what `snapshot` returned."""
        self.book, self._document = kept.book, kept.document
        self.heat_map.restore(kept.heat)
        self._spikes = SpikeLog(kept.spikes, kept.spikes_seen)


def _fullest(run: Run) -> float | None:
    """Part of the memory in use on the fullest host or device."""
    ratios = [
        host.sample.memory_used / host.sample.memory_total
        for host in run.hosts.values()
        if host.sample is not None and host.sample.memory_used and host.sample.memory_total
    ]
    return max(ratios, default=None)


def _seconds_left(run: Run, rank: Rank, where: str, rate: float) -> float | None:
    """Until memory is full at this rate; None when the limit is unknown."""
    used: int | None = None
    total: int | None = None
    if where == "device":
        gpu = rank.sample.gpu if rank.sample is not None else None
        used, total = (gpu.memory_used, gpu.memory_total) if gpu is not None else (None, None)
    elif rank.host in run.hosts and (sample := run.hosts[rank.host].sample) is not None:
        used, total = sample.memory_used, sample.memory_total
    if used is None or total is None or rate <= 0:
        return None
    return max(0.0, (total - used) / rate)
