"""What HTTP answers: the JSON of the page, the report and users' scripts.

The page's TypeScript types are generated from these structs. Times are UTC epoch seconds, durations seconds, memory
bytes, ratios 0 to 1; unknown is null, never 0. A metric's value is a `JsonNumber`: non-finite ones are strings.
"""

from typing import Any, Literal

import msgspec

from trackside.wire.messages import GpuSample, Level, Reduction

Number = float | int | str | None
RunState = Literal["waiting", "running", "finished", "failed", "terminated"]
RankState = Literal["alive", "late", "lost", "finished", "failed"]
XAxis = Literal["step", "epoch", "time", "relative"]
MOST_LATEST_VALUES = 200_000
"""Latest values (one of each metric on each rank) that one answer lists."""


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """Base of every JSON answer."""


class RankCounts(Document, frozen=True, kw_only=True):
    """Ranks of the present generation by state; `late` ones are still counted apart from `lost`."""

    alive: int = 0
    late: int = 0
    finished: int = 0
    failed: int = 0
    lost: int = 0


class Warning(Document, frozen=True, kw_only=True):  # noqa: A001 - the field is `warnings`
    """Something wrong that has not cleared up."""

    time: float
    path: str
    kind: str
    severity: Level
    text: str


Bound = Literal["input", "compute", "communication", "memory"]


class Verdict(Document, frozen=True, kw_only=True):
    """Who or what costs the job time, with the figures that say so."""

    id: int
    kind: Literal["straggler", "data starvation", "crowded host", "imbalance", "memory growth", "slow step"]
    text: str
    """One sentence: who, in which phase, by how much, since when."""
    claim: str = ""
    """The same in short, without the figures that are fields of their own; empty: there is no shorter one."""
    path: str
    rank: int | None = None
    phase: str | None = None
    module: str | None = None
    """The module that costs it, where one stands out."""
    since_step: int | None = None
    since_time: float | None = None
    until_step: int | None = None
    """Set once the cause is gone."""
    active: bool = True
    pattern: Literal["once", "recurring", "chronic"] = "chronic"
    own_seconds: float | None = None
    """A step's mean in that phase, of the rank that is blamed."""
    peer_seconds: float | None = None
    """The same, median of its peers."""
    gain_seconds: float | None = None
    """What a step of the whole job would gain."""
    steps: int = 0
    """Steps looked at."""


class SharePart(Document, frozen=True, kw_only=True):
    """One rank's part of the global batch, and the one that would equalise the ranks' times."""

    rank: int
    share: float
    suggested: float


class Diagnosis(Document, frozen=True, kw_only=True):
    """What the job's time goes into, over a sliding window of steps."""

    steps: int
    """Steps of the window."""
    step_seconds: float | None
    """Mean wall time of a step of the job."""
    bound: Bound | None
    """What the job as a whole waits for most; null when nothing stands out or it cannot be told."""
    bound_text: str
    """One sentence with figures."""
    phases: dict[str, float] = {}
    """Median over ranks of the mean seconds a step in each phase."""
    gain_ratio: float | None = None
    """Part of the step time that the job would gain if no rank were behind."""
    verdicts: list[Verdict] = []
    """Active ones first, the worst first; those that are over after them, at most 50."""
    balance: list[SharePart] = []
    """A suggestion, where another split of the batch would be worth it; empty otherwise."""


class RunDocument(Document, frozen=True, kw_only=True):
    """`/api/v1/run` and `run.json`. `elapsed_seconds` is without the pauses between sessions: see `environment`."""

    id: str
    name: str
    state: RunState
    state_detail: str | None
    """Which rank, exit code, signal."""
    started_at: float
    ended_at: float | None
    elapsed_seconds: float
    epoch: int | None
    epochs: int | None
    step: int | None
    steps: int | None
    eta_seconds: float | None
    world_size: int | None
    generation: int
    ranks: RankCounts
    hosts: list[str]
    label: str | None
    hash: str | None
    hardware: str | None
    metadata: Any
    """The user's metadata as it was given, with `parameters` and `config` merged in; null when there is none."""
    warnings: list[Warning]
    version: str
    # beyond the contract
    throughput: float | None = None
    """Samples a second over all ranks."""
    environment: dict[str, Any] = {}
    """Versions, command, directory, git commit, launcher, per host facts."""
    directory: str | None = None
    """Absolute path of the run folder."""
    not_persisted_since: float | None = None
    """Set while the disk does not take what arrives."""
    clock_offset_max: float | None = None
    diagnosis: Diagnosis | None = None
    """Null until there is a basis."""
    has_graph: bool = False
    has_svg: bool = False
    schema_version: int = 1


class RankGpu(Document, frozen=True, kw_only=True):
    """The device a rank was assigned."""

    name: str | None
    uuid: str | None
    util: float | None
    memory_used: int | None
    memory_total: int | None
    temperature: float | None
    power: float | None
    util_peak: float | None = None
    memory_peak: int | None = None


class RankEntry(Document, frozen=True, kw_only=True):
    """One rank in `/api/v1/ranks`."""

    rank: int
    local_rank: int | None
    host: str | None
    path: str
    label: str
    generation: int
    state: RankState
    step: int | None
    epoch: int | None
    phase: str | None
    age_seconds: float | None
    """Since the last sign of life."""
    exit_code: int | None
    signal: str | None
    samples: int | None
    throughput: float | None
    """Samples per second of own working time."""
    batch_share: float | None
    clock_offset_seconds: float | None
    gpu: RankGpu | None
    cpu: float | None
    memory: int | None
    # beyond the contract
    step_seconds: float | None = None
    own_step_seconds: float | None = None
    """Without waiting for peers."""
    phases: dict[str, float] = {}
    """Mean seconds a step in each phase, recent."""
    machine_id: str | None = None
    identity_source: str | None = None
    pid: int | None = None
    monitored: bool = True
    """False for a rank whose script has no Monitor; only its process is known."""
    non_finite: int = 0
    """NaN and infinite values it has logged."""
    dropped_points: int = 0
    restarts: int = 0
    verdict: str | None = None
    """Kind of the worst active verdict on it."""
    suggested_share: float | None = None
    """The part of the global batch that would equalise the ranks' times, where it is worth it."""


class MetricEntry(Document, frozen=True, kw_only=True):
    """One metric in `/api/v1/metrics`, in page order: `loss` first, then by name."""

    name: str
    kind: Literal["gauge"] = "gauge"
    unit: str | None = None
    reduction: Reduction = "mean"
    paths: list[str] = []
    """Rank paths that have values, at most 64 of them."""
    rank_count: int = 0
    points: int = 0
    first_step: int | None = None
    last_step: int | None = None
    last: Number = None
    """Latest cohort value."""
    non_finite: int = 0


class NodeMetric(Document, frozen=True, kw_only=True):
    """A metric at one node of the tree."""

    value: Number
    """Latest values of the ranks below that have it, reduced."""
    reduction: Reduction
    """How; a mean is weighted by the ranks' shares of the batch where all of these are known."""
    ranks: int
    """Ranks that have it."""


class TreeNode(Document, frozen=True, kw_only=True):
    """One node of `/api/v1/tree`: the whole job, a host, or a rank. A job on one host has no host level.

    What nobody below it reports is null.
    """

    path: str
    level: Literal["root", "host", "rank"]
    name: str
    ranks: int
    """Ranks at or below it."""
    samples: int | None = None
    """Sum."""
    throughput: float | None = None
    """Sum of the ranks' samples per second of own working time."""
    batch_share: float | None = None
    """Sum; 1 at the root."""
    memory: int | None = None
    """Sum of the ranks' process trees, bytes."""
    vram_used: int | None = None
    """Sum."""
    vram_total: int | None = None
    """Sum."""
    step_seconds: float | None = None
    """Maximum."""
    own_step_seconds: float | None = None
    """Maximum: that of the slowest rank."""
    data_seconds: float | None = None
    """Maximum: the longest wait for data in a step."""
    waiting_seconds: float | None = None
    """Maximum: the longest wait for peers in a step."""
    gpu_util: float | None = None
    """Mean."""
    gpu_util_peak: float | None = None
    """Maximum."""
    metrics: dict[str, NodeMetric] = {}
    """In page order."""
    children: list["TreeNode"] = []


class HeatAnswer(Document, frozen=True, kw_only=True):
    """`/api/v1/heat`: what each rank's steps took over the whole run, thinned to a bounded number of columns.

    Cells are mean seconds a step, row by row in the order of `ranks`; null where unknown or not reached.
    """

    ranks: list[int]
    step: list[int]
    """Last step of each column, ascending."""
    time: list[float]
    own: list[list[float | None]]
    data: list[list[float | None]]
    wall: list[list[float | None]]


class TensorSpec(Document, frozen=True, kw_only=True):
    """A tensor as it was in the recorded pass; the batch size is that pass's own."""

    shape: list[int]
    dtype: str


class GraphNode(Document, frozen=True, kw_only=True):
    """One module of the model."""

    id: int
    """Its place in `nodes`; the root is 0, a parent comes before its children."""
    name: str
    """Qualified name as in `named_modules()`; empty for the root."""
    type: str
    parent: int | None
    parameters: int = 0
    """Elements, children included, shared ones counted once."""
    trainable: int = 0
    buffers: int = 0
    shared_with: list[int] = []
    """Nodes that hold one of its own parameters too."""
    calls: int | None = None
    """Times it ran in the recorded pass; null when no pass was recorded."""
    order: int | None = None
    """Place in the order of first execution."""
    inputs: list[TensorSpec] = []
    outputs: list[TensorSpec] = []
    hidden: int = 0
    """Modules below it that were left out to bound the size."""
    forward_seconds: float | None = None
    backward_seconds: float | None = None
    memory: int | None = None
    """Bytes a forward has left allocated."""


class GraphEdge(Document, frozen=True, kw_only=True):
    """A tensor that flowed from one module's output to another's input.

    A module that has children and computes something itself, such as a residual sum, is the target of what it computes
    that from, its own children's outputs among it, and the source of the result.
    """

    source: int
    target: int
    tensor: TensorSpec | None = None
    count: int = 1


class GraphParameters(Document, frozen=True, kw_only=True):
    """Counts of elements over the whole model."""

    total: int
    trainable: int
    frozen: int
    shared: int = 0
    """Elements that more than one module holds."""


class GraphDocument(Document, frozen=True, kw_only=True):
    """`/api/v1/graph`: the modules that really ran and the tensors that flowed between them."""

    label: str | None
    hash: str | None
    parameters: GraphParameters
    recorded: bool
    """False: no pass has been recorded, and this is the module tree alone."""
    note: str | None = None
    """Why something is missing, for people."""
    nodes: list[GraphNode]
    edges: list[GraphEdge]
    passes: int = 0
    """Passes behind the times; 0: none yet."""
    on_device: bool = False
    timed_rank: int | None = None
    """The rank whose times are shown: the slowest that has any."""


class SeriesAnswer(Document, frozen=True, kw_only=True):
    """`/api/v1/series`: columns of equal length, ascending in `x`.

    Each entry is one x, or one bucket when the series was decimated: `min` and `max` are the extremes over everything
    in it, so no spike is lost.
    """

    metric: str
    path: str
    x: list[Number]
    mean: list[Number]
    min: list[Number]
    max: list[Number]
    count: list[int]
    total_points: int
    reduction: str
    std: list[Number] = []
    """Standard deviation over the values of each x, such as those of all ranks at a step; null without a finite one. Empty when
    there is one value an x at most, when entries stand for several x, and for more than 200,000 values."""
    x_kind: XAxis = "step"
    decimated: bool = False
    non_finite: list[tuple[Number, str]] = []
    """(x, `NaN` | `Infinity` | `-Infinity`) marks, at most 1,000."""


class EpochRecord(Document, frozen=True, kw_only=True):
    """One epoch in `/api/v1/epochs`, oldest first; `seconds` is the maximum over the `ranks` that reported it."""

    epoch: int
    seconds: float | None
    metrics: dict[str, Number]
    samples: int | None
    batches: int | None
    throughput: float | None
    ranks: int
    complete: bool
    """False while a live rank has not reported it, and for one that was cut short by the end of a script."""
    ended_at: float | None
    generation: int = 0
    cpu: float | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    gpu: float | None = None
    vram_used: int | None = None
    vram_total: int | None = None


class ResourceRecord(Document, frozen=True, kw_only=True):
    """One sample in `/api/v1/resources`, oldest first. `rank` is null for a host's; `cpu` is a share of `cpu_count` CPUs."""

    time: float
    path: str
    host: str
    rank: int | None
    cpu: float | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    memory_limit_source: str | None = None
    cpu_count: float | None = None
    cpu_limit_source: str | None = None
    """`host`, `affinity`, `cgroup v1` or `cgroup v2`."""
    network_sent: float | None = None
    network_received: float | None = None
    disk_read: float | None = None
    disk_written: float | None = None
    disk_used: int | None = None
    disk_total: int | None = None
    gpu_util: float | None = None
    gpu_util_peak: float | None = None
    vram_used: int | None = None
    vram_total: int | None = None
    temperature: float | None = None
    power: float | None = None
    torch_allocated: int | None = None
    torch_reserved: int | None = None
    gpus: list[GpuSample] = []


class GaugeTrack(Document, frozen=True, kw_only=True):
    """The samples of one path as columns of equal length, oldest first; `time` counts seconds from the answer's `origin`."""

    path: str
    host: str
    rank: int | None
    time: list[float]
    values: dict[str, list[float | None]]
    """By the name of a field of `ResourceRecord`, to four digits; what has no value at all is left out."""


class GaugesAnswer(Document, frozen=True, kw_only=True):
    """`/api/v1/gauges`: what `/api/v1/resources` holds, thinned to a bounded number of samples a path, for drawing."""

    origin: float
    """What times are counted from."""
    tracks: list[GaugeTrack]
    latest: list[ResourceRecord]
    """The newest whole sample of each host."""


class EventRecord(Document, frozen=True, kw_only=True):
    """One event in `/api/v1/events`, oldest first; repeats within 10 s are one record with a count and the last one's time."""

    id: int
    time: float
    path: str
    kind: str
    """Class: `rank lost`, `rank back`, `non-finite`, `records dropped`, `restart`, `user`, …"""
    severity: Level
    text: str
    count: int = 1
    step: int | None = None
    last_time: float | None = None
    active: bool = False
    """True while the condition still holds (a lost rank that has not come back)."""


class PointsUpdate(Document, frozen=True, kw_only=True):
    """A metric's new or amended steps in the stream's `points` event; columns of equal length."""

    step: list[int]
    epoch: list[int | None]
    time: list[float]
    mean: list[Number]
    min: list[Number]
    max: list[Number]
    count: list[int]
    worst: list[int | None]
    """Rank farthest from the mean, or null with one rank."""


class PointsEvent(Document, frozen=True, kw_only=True):
    """The stream's `points` event."""

    metrics: dict[str, PointsUpdate]


class StreamHello(Document, frozen=True, kw_only=True):
    """The stream's first event. Unless `resumed`, what follows is a whole fresh state and the page reloads its charts."""

    protocol: int
    version: str
    run: str
    path: str
    server_time: float
    resumed: bool


class StreamResources(Document, frozen=True, kw_only=True):
    """The stream's `resources` event: new samples below the path."""

    records: list[ResourceRecord]


class ErrorBody(Document, frozen=True, kw_only=True):
    """What went wrong: a code for programs, a sentence for people."""

    code: str
    message: str


class ErrorDocument(Document, frozen=True, kw_only=True):
    """Every HTTP error."""

    error: ErrorBody


class Health(Document, frozen=True, kw_only=True):
    """`/healthz`."""

    status: Literal["ok"]
    version: str
    protocol: int
    counters: dict[str, int]
