"""Resource samples: flattened, kept within bounds, and summed once per host."""

import msgspec

from trackside.run.outputs import Instruction, PublishResources
from trackside.run.state import Rank, Run
from trackside.run.topology import hosts_in_order, label_of, path_of, ranks_in_order
from trackside.wire import messages
from trackside.wire.documents import ResourceRecord
from trackside.wire.ids import ROOT_PATH, host_path
from trackside.wire.messages import GpuSample

KEPT_RECORDS = 3600
"""Records of one path in memory (2 h at 2 s); every second one of the older half goes when there are more."""


def take_sample(run: Run, session: bytes, sample: messages.ResourceSample, mono: float) -> list[Instruction]:
    """Take one process's sample."""
    known = run.sessions[session]
    out: list[Instruction] = []
    if sample.host is not None:
        host = run.hosts[known.host]
        host.sample = mark_ours(run, sample.host)
        out += _keep(run, _host_record(run, known.host, host.sample, sample.time))
        if (whole := _root_record(run, sample.time)) is not None:
            out += _keep(run, whole)
    number = known.rank if sample.of_rank is None else sample.of_rank
    rank = run.ranks.get(number) if number is not None else None
    if sample.rank is None or rank is None:
        return out
    is_own = sample.of_rank is None
    if not is_own and rank.own_sample_at is not None and mono - rank.own_sample_at < 10:
        return out
    if is_own:
        rank.own_sample_at = mono
    rank.sample = sample.rank
    return out + _keep(run, _rank_record(run, rank, sample.rank, sample.time))


def mark_ours(run: Run, sample: messages.HostSample) -> messages.HostSample:
    """Mark the GPUs that a rank of this job was assigned."""
    ours = {rank.sample.gpu.uuid for rank in run.ranks.values() if rank.sample and rank.sample.gpu}
    gpus = [msgspec.structs.replace(gpu, ours=gpu.uuid in ours or bool(gpu.ours)) for gpu in sample.gpus]
    return msgspec.structs.replace(sample, gpus=gpus)


def cluster_figures(run: Run) -> dict[str, float | int | None]:
    """CPU and memory once per host, GPU figures over the ranks that report them; absent is None."""
    hosts = [host.sample for host in run.hosts.values() if host.sample]
    gpus = [rank.sample.gpu for rank in run.ranks.values() if rank.sample and rank.sample.gpu]
    return {
        "cpu": _mean([host.cpu for host in hosts]),
        "memory_used": _sum([host.memory_used for host in hosts]),
        "memory_total": _sum([host.memory_total for host in hosts]),
        "gpu": _mean([gpu.util for gpu in gpus]),
        "vram_used": _sum([gpu.memory_used for gpu in gpus]),
        "vram_total": _sum([gpu.memory_total for gpu in gpus]),
    }


def records_below(run: Run, path: str, limit: int = 20_000) -> list[ResourceRecord]:
    """Records at or below a path, oldest first, thinned evenly to `limit`."""
    below = [
        record
        for kept, records in run.resources.items()
        if kept == path or kept.startswith(path + "/")
        for record in records
    ]
    below.sort(key=lambda record: record.time)
    return below if len(below) <= limit else [below[i * len(below) // limit] for i in range(limit)]


def _keep(run: Run, record: ResourceRecord) -> list[Instruction]:
    kept = run.resources.setdefault(record.path, [])
    kept.append(record)
    if len(kept) > KEPT_RECORDS:
        older = KEPT_RECORDS // 2
        kept[:older] = kept[:older:2]
    return [PublishResources(record)]


def _host_record(run: Run, host: str, sample: messages.HostSample, time: float) -> ResourceRecord:
    ranks = [rank for rank in ranks_in_order(run) if rank.host == host]
    own = [rank.sample.gpu for rank in ranks if rank.sample and rank.sample.gpu]
    gpus = own or sample.gpus
    return ResourceRecord(
        time=time,
        path=host_path(host),
        host=host,
        rank=None,
        cpu=sample.cpu,
        memory_used=sample.memory_used,
        memory_total=sample.memory_total,
        memory_limit_source=sample.memory_limit_source,
        network_sent=sample.network_sent,
        network_received=sample.network_received,
        disk_read=sample.disk_read,
        disk_written=sample.disk_written,
        disk_used=sample.disk_used,
        disk_total=sample.disk_total,
        gpu_util=_mean([gpu.util for gpu in gpus]),
        gpu_util_peak=_max([gpu.util_peak for gpu in gpus]),
        vram_used=_sum([gpu.memory_used for gpu in gpus]),
        vram_total=_sum([gpu.memory_total for gpu in gpus]),
        gpus=sample.gpus,
    )


def _root_record(run: Run, time: float) -> ResourceRecord | None:
    """The whole job. Hosts' samples come one by one; the record takes the latest of each."""
    samples = [host.sample for host in hosts_in_order(run) if host.sample]
    if not samples:
        return None
    figures = cluster_figures(run)
    entries = rank_gpus(ranks_in_order(run))
    return ResourceRecord(
        time=time,
        path=ROOT_PATH,
        host="",
        rank=None,
        cpu=figures["cpu"],
        memory_used=_whole(figures["memory_used"]),
        memory_total=_whole(figures["memory_total"]),
        network_sent=_sum_float([sample.network_sent for sample in samples]),
        network_received=_sum_float([sample.network_received for sample in samples]),
        disk_read=_sum_float([sample.disk_read for sample in samples]),
        disk_written=_sum_float([sample.disk_written for sample in samples]),
        gpu_util=figures["gpu"],
        gpu_util_peak=_max([gpu.util_peak for gpu in entries]),
        vram_used=_whole(figures["vram_used"]),
        vram_total=_whole(figures["vram_total"]),
        gpus=entries if len(entries) <= 64 else [],
    )


def rank_gpus(ranks: list[Rank]) -> list[GpuSample]:
    """One GPU entry a rank, its index the global rank, its name prefixed with the rank's label."""
    return [
        msgspec.structs.replace(
            rank.sample.gpu, index=rank.rank, name=f"{label_of(rank)} {rank.sample.gpu.name or 'GPU'}", ours=True
        )
        for rank in ranks
        if rank.sample and rank.sample.gpu
    ]


def _rank_record(run: Run, rank: Rank, sample: messages.RankSample, time: float) -> ResourceRecord:
    gpu = sample.gpu
    return ResourceRecord(
        time=time,
        path=path_of(rank),
        host=rank.host or "",
        rank=rank.rank,
        cpu=sample.cpu,
        memory_used=sample.memory,
        gpu_util=gpu.util if gpu else None,
        gpu_util_peak=gpu.util_peak if gpu else None,
        vram_used=gpu.memory_used if gpu else None,
        vram_total=gpu.memory_total if gpu else None,
        temperature=gpu.temperature if gpu else None,
        power=gpu.power if gpu else None,
        torch_allocated=sample.torch_allocated,
        torch_reserved=sample.torch_reserved,
    )


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _max(values: list[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _sum(values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _sum_float(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
