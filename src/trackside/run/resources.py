"""Resource samples: flattened, kept within bounds, and summed once per host."""

import msgspec

from trackside.run.inputs import Moment
from trackside.run.outputs import Instruction, PublishResources
from trackside.run.samples import PathSamples
from trackside.run.state import Rank, Run
from trackside.run.topology import hosts_in_order, label_of, path_of, ranks_in_order
from trackside.wire import messages
from trackside.wire.documents import ResourceRecord
from trackside.wire.ids import ROOT_PATH, host_path, is_below
from trackside.wire.messages import GpuSample

KEPT_RECORDS = 3600
"""Records of one path in memory: 2 h at one every 2 s. The run folder holds all."""
KEPT_BYTES = 16 * 1024 * 1024
"""The same over all paths: a quarter of an hour of 1,024 ranks, older samples ever further apart."""
MOST_RECORDS = 20_000
"""In one answer, unless more are asked for."""
FEWEST_RECORDS = 8
STALE_SECONDS = 30.0
"""A sample older than this is no figure of the present."""
SUM_SECONDS = 2.0
"""The whole job is summed up at most this often, with a second more for every 256 ranks."""


def take_sample(run: Run, session: bytes, sample: messages.ResourceSample, now: Moment) -> list[Instruction]:
    """Take one process's sample."""
    known = run.sessions[session]
    out: list[Instruction] = []
    if sample.host is not None:
        out += _take_host(run, known.host, sample.host, sample.time, now)
    number = known.rank if sample.of_rank is None else sample.of_rank
    rank = run.ranks.get(number) if number is not None else None
    if sample.rank is not None and rank is not None and (known.role == "agent" or rank.session == session):
        out += _take_rank(run, rank, sample, now)
    return out + _sum_up(run, now)


def _take_host(run: Run, name: str, sample: messages.HostSample, time: float, now: Moment) -> list[Instruction]:
    host = run.hosts[name]
    host.sample, host.sampled_at = mark_ours(run, sample), now.mono
    return _keep(run, _host_record(run, name, host.sample, time))


def _take_rank(run: Run, rank: Rank, sample: messages.ResourceSample, now: Moment) -> list[Instruction]:
    """An agent's sample of a rank counts only while the rank sends none itself, and has not said that it wants none."""
    is_own = sample.of_rank is None
    if not is_own and rank.own_sample_at is not None and now.mono - rank.own_sample_at < STALE_SECONDS:
        return []
    speaker = run.sessions.get(rank.session) if rank.session is not None else None
    if not is_own and speaker is not None and not speaker.may_sample:
        return []
    if is_own:
        rank.own_sample_at = now.mono
    rank.sample, rank.sampled_at = sample.rank, now.mono
    return _keep(run, _rank_record(rank, sample.time))


def _sum_up(run: Run, now: Moment) -> list[Instruction]:
    pause = SUM_SECONDS + len(run.ranks) // 256
    if run.summed_at is not None and 0 <= now.mono - run.summed_at < pause:
        return []
    record = _root_record(run, now)
    if record is None:
        return []
    run.summed_at = now.mono
    return _keep(run, record)


def is_fresh(run: Run, sampled_at: float | None) -> bool:
    """Whether a sample still says how things are (or were when the run ended)."""
    return sampled_at is not None and run.seen_mono - sampled_at < STALE_SECONDS


def mark_ours(run: Run, sample: messages.HostSample) -> messages.HostSample:
    """Mark the GPUs that a rank of this job was assigned."""
    ours = {rank.sample.gpu.uuid for rank in run.ranks.values() if rank.sample and rank.sample.gpu}
    gpus = [
        msgspec.structs.replace(gpu, ours=gpu.uuid in ours or bool(gpu.ours)) if gpu.uuid is not None else gpu
        for gpu in sample.gpus
    ]
    return msgspec.structs.replace(sample, gpus=gpus)


def distinct_gpus(ranks: list[Rank]) -> list[GpuSample]:
    """The ranks' devices, each once however many ranks share it."""
    found: dict[object, GpuSample] = {}
    for rank in ranks:
        gpu = rank.sample.gpu if rank.sample else None
        if gpu is not None:
            unnamed = (rank.host, rank.rank if gpu.mig else gpu.index)  # slices of one card share its index
            found.setdefault(gpu.uuid if gpu.uuid is not None else unnamed, gpu)
    return list(found.values())


def cluster_figures(run: Run) -> dict[str, float | int | None]:
    """CPU and memory once per host, GPU figures over the ranks that report them; absent is None."""
    hosts = [host.sample for host in run.hosts.values() if host.sample and is_fresh(run, host.sampled_at)]
    ranks = _sampled_ranks(run)
    gpus = distinct_gpus(ranks)
    return {
        "cpu": _mean([host.cpu for host in hosts]),
        "memory_used": _sum([host.memory_used for host in hosts]),
        "memory_total": _sum([host.memory_total for host in hosts]),
        "gpu": _mean([rank.sample.gpu.util for rank in ranks if rank.sample and rank.sample.gpu]),
        "vram_used": _sum([gpu.memory_used for gpu in gpus]),
        "vram_total": _sum([gpu.memory_total for gpu in gpus]),
    }


def _sampled_ranks(run: Run) -> list[Rank]:
    return [rank for rank in ranks_in_order(run) if rank.sample and is_fresh(run, rank.sampled_at)]


def records_below(run: Run, path: str, limit: int = MOST_RECORDS) -> list[ResourceRecord]:
    """Records at or below a path, oldest first; when there are more than `limit`, every path is thinned alike."""
    below = [kept for place, kept in run.samples.items() if is_below(place, path)]
    total = sum(map(len, below))
    most = [len(kept) if total <= limit else max(1, len(kept) * limit // total) for kept in below]
    found = [record for kept, count in zip(below, most, strict=True) for record in kept.spread(count)]
    found.sort(key=lambda record: record.time)
    return found[-limit:]


def _keep(run: Run, record: ResourceRecord) -> list[Instruction]:
    """Keep a record within the budget; where it is full, every second record of a path's older half goes."""
    kept = run.samples.get(record.path)
    if kept is None:
        run.samples[record.path] = PathSamples(record)
        return [PublishResources(record)]
    run.samples_bytes += kept.add(record, keep_gpus=len(record.gpus) <= MANY_GPUS)
    if len(kept) > KEPT_RECORDS:
        run.samples_bytes -= kept.thin(FEWEST_RECORDS)
    elif run.samples_bytes > KEPT_BYTES:
        run.samples_bytes -= sum(kept.thin(FEWEST_RECORDS) for kept in run.samples.values())
    return [PublishResources(record)]


MANY_GPUS = 16
"""From here on only the newest record of the whole job lists every rank's GPU."""


def _host_record(run: Run, host: str, sample: messages.HostSample, time: float) -> ResourceRecord:
    ranks = [rank for rank in _sampled_ranks(run) if rank.host == host]
    gpus = distinct_gpus(ranks) or sample.gpus
    utils = [rank.sample.gpu.util for rank in ranks if rank.sample and rank.sample.gpu] or [gpu.util for gpu in gpus]
    return ResourceRecord(
        time=time,
        path=host_path(host),
        host=host,
        rank=None,
        cpu=sample.cpu,
        memory_used=sample.memory_used,
        memory_total=sample.memory_total,
        memory_limit_source=sample.memory_limit_source,
        cpu_count=sample.cpu_count,
        cpu_limit_source=sample.cpu_limit_source,
        network_sent=sample.network_sent,
        network_received=sample.network_received,
        disk_read=sample.disk_read,
        disk_written=sample.disk_written,
        disk_used=sample.disk_used,
        disk_total=sample.disk_total,
        gpu_util=_mean(utils),
        gpu_util_peak=_max([gpu.util_peak for gpu in gpus]),
        vram_used=_sum([gpu.memory_used for gpu in gpus]),
        vram_total=_sum([gpu.memory_total for gpu in gpus]),
        gpus=sample.gpus,
    )


def _root_record(run: Run, now: Moment) -> ResourceRecord | None:
    """The whole job. Samples come one by one; the record takes the latest of each host and rank."""
    samples = [host.sample for host in hosts_in_order(run) if host.sample and is_fresh(run, host.sampled_at)]
    ranks = _sampled_ranks(run)
    if not samples and not ranks:
        return None
    figures = cluster_figures(run)
    entries = rank_gpus(ranks)
    return ResourceRecord(
        time=now.wall,
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
        power=_sum_float([gpu.power for gpu in distinct_gpus(ranks)]),
        temperature=_max([gpu.temperature for gpu in entries]),
        gpus=entries,
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


def _rank_record(rank: Rank, time: float) -> ResourceRecord:
    sample = rank.sample or messages.RankSample()
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
