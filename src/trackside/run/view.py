"""The run as the documents that HTTP answers."""

from typing import Any, Protocol

import msgspec

from trackside.run.events import open_warnings
from trackside.run.inputs import Moment
from trackside.run.pace import batch_shares, eta_seconds, phase_means, slowest_step, throughput_of, wall_throughput
from trackside.run.resources import is_fresh
from trackside.run.state import Rank, Run
from trackside.run.takeover import takeover_facts
from trackside.run.topology import hosts_in_order, label_of, path_of, ranks_at
from trackside.wire.documents import Diagnosis, RankCounts, RankEntry, RankGpu, RunDocument
from trackside.wire.ids import ROOT_PATH
from trackside.wire.messages import GpuSample


class Opinion(Protocol):
    """What is thought of ranks."""

    def suggested_shares(self) -> dict[int, float]: ...
    def worst_by_path(self, paths: list[str]) -> dict[str, str]: ...


def run_document(run: Run, metadata: Any, diagnosis: Diagnosis | None, now: Moment) -> RunDocument:
    """`/api/v1/run`; `metadata` is the merged one."""
    counts = dict.fromkeys(("alive", "late", "finished", "failed", "lost"), 0)
    for rank in run.ranks.values():
        counts[rank.state] += 1
    offsets = [abs(rank.clock_offset) for rank in run.ranks.values() if rank.clock_offset is not None]
    return RunDocument(
        id=run.id,
        name=run.name,
        state=run.state,
        state_detail=run.state_detail,
        started_at=run.started_wall,
        ended_at=run.ended_wall,
        elapsed_seconds=_elapsed(run, now),
        epoch=max((rank.epoch for rank in run.ranks.values() if rank.epoch is not None), default=None),
        epochs=run.plan_epochs,
        step=slowest_step(run),
        steps=run.plan_steps,
        eta_seconds=eta_seconds(run, now),
        world_size=run.world_size,
        generation=run.generation,
        ranks=RankCounts(**counts),
        hosts=[host.name for host in hosts_in_order(run)],
        label=run.label,
        hash=run.hash,
        hardware=run.hardware or None,
        metadata=metadata,
        warnings=open_warnings(run),
        version=run.version,
        throughput=wall_throughput(run),
        environment={
            **run.environment,
            **({"project": run.project} if run.project else {}),
            **takeover_facts(run),
        },
        directory=run.directory,
        not_persisted_since=run.stalled_since,
        clock_offset_max=max(offsets, default=None),
        diagnosis=diagnosis,
        has_graph=run.graph is not None,
        has_svg=bool(run.svg),
    )


def _elapsed(run: Run, now: Moment) -> float:
    """Seconds since the run began, without the pauses in which nothing of its job was there."""
    since = (run.ended_mono if run.ended_mono is not None else now.mono) - run.started_mono
    return max(0.0, since - run.paused_seconds)


def rank_entries(run: Run, opinion: Opinion, now: Moment, path: str = ROOT_PATH) -> list[RankEntry]:
    """`/api/v1/ranks`, of the ranks at or below a path."""
    shares, ranks = batch_shares(run), ranks_at(run, path)
    suggested, verdicts = opinion.suggested_shares(), opinion.worst_by_path([path_of(rank) for rank in ranks])
    entries = [_entry(run, rank, shares.get(rank.rank), now) for rank in ranks]
    if not (suggested or verdicts):
        return entries
    return [
        msgspec.structs.replace(entry, verdict=verdicts.get(entry.path), suggested_share=suggested.get(entry.rank))
        for entry in entries
    ]


def _entry(run: Run, rank: Rank, share: float | None, now: Moment) -> RankEntry:
    sample = rank.sample if rank.state != "alive" or is_fresh(run, rank.sampled_at) else None
    return RankEntry(
        rank=rank.rank,
        local_rank=rank.local_rank,
        host=rank.host,
        path=path_of(rank),
        label=label_of(rank),
        generation=rank.generation,
        state=rank.state,
        step=rank.step,
        epoch=rank.epoch,
        phase=None if rank.is_over else rank.phase,
        age_seconds=max(0.0, now.mono - rank.seen),
        exit_code=rank.exit_code,
        signal=rank.signal,
        samples=rank.samples,
        throughput=throughput_of(run, rank),
        batch_share=share,
        clock_offset_seconds=rank.clock_offset,
        gpu=_gpu(sample.gpu) if sample and sample.gpu else None,
        cpu=sample.cpu if sample else None,
        memory=sample.memory if sample else None,
        step_seconds=rank.step_seconds,
        own_step_seconds=rank.own_step_seconds,
        phases=phase_means(rank),
        machine_id=run.hosts[rank.host].machine_id if rank.host in run.hosts else None,
        identity_source=rank.identity_source,
        pid=rank.pid,
        monitored=rank.monitored,
        non_finite=rank.non_finite,
        dropped_points=rank.dropped_points,
        restarts=run.restarts,
    )


def _gpu(gpu: GpuSample) -> RankGpu:
    return RankGpu(
        name=gpu.name,
        uuid=gpu.uuid,
        util=gpu.util,
        memory_used=gpu.memory_used,
        memory_total=gpu.memory_total,
        temperature=gpu.temperature,
        power=gpu.power,
        util_peak=gpu.util_peak,
        memory_peak=gpu.memory_peak,
    )
