"""The messages between ranks, launcher agents and the controller.

Each crosses the wire as the body of an `codec.Envelope`; the struct's tag is the envelope's kind. New fields have
defaults; nothing is reordered or retyped. Times are UTC epoch seconds of the sender's wall clock, durations seconds of
its monotonic clock, memory bytes, ratios 0 to 1. None means unknown.

Sequenced messages (`SEQUENCED`) are journaled, acknowledged and sent again until they are; the others are not.
"""

from typing import Annotated, Literal

import msgspec

MOST_METADATA_CHARACTERS = 1_048_576
"""Of metadata or a configuration as JSON text: every page gets them whole, and again with every change."""
Level = Literal["info", "warn", "critical"]
Reduction = Literal["mean", "sum", "min", "max", "last"]
Role = Literal["rank", "agent"]
Whole = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""A whole number as the run folder's columns hold it; a message with another one is malformed."""
Epoch = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
"""How many, or how many bytes; sums of them stay whole numbers in every language."""


class Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """Base of everything on the wire."""


# --- rank or agent -> controller ------------------------------------------------------------------------------------


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Who a process is in the job, and which environment said so."""

    rank: Whole
    local_rank: Whole
    world_size: Whole
    generation: Whole = 0
    """Which start of the job's ranks this is, as the launcher counts; 0 for the first. The controller numbers them anew where
    the launcher does not count for the whole run."""
    node_rank: Whole | None = None
    source: str = "single process"
    """The variables the identity was taken from, for people: `torchrun (RANK, LOCAL_RANK, …)`."""
    job: str | None = None
    """The launcher's own id of the job, when it has one."""
    rendezvous: str | None = None
    """Under plain torchrun, where the ranks of this start meet: one of the things that tell it from the next."""
    restart_count: Whole | None = None
    """Under plain torchrun, what this host's agent counts."""


class HostFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Where a process runs."""

    host: str
    machine_id: str
    """Stable per machine (or container); tells two hosts of one name apart."""
    cpu_model: str | None = None
    cpu_threads: Count | None = None
    memory_bytes: Count | None = None
    platform: str | None = None


class ProcessFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a process is; shown under Config."""

    pid: Whole
    parent_pid: Whole | None = None
    ancestors: list[Whole] = []
    """The nearest ones, the parent first."""
    began_after_boot: float | None = None
    """Seconds from the machine's start to the process's."""
    started_at: float | None = None
    python: str | None = None
    torch: str | None = None
    trackside: str | None = None
    command: list[str] = []
    directory: str | None = None
    git_commit: str | None = None


class Hello(Message, frozen=True, kw_only=True, tag="hello"):
    """First frame of a session, and again after each reconnect."""

    session: bytes
    role: Role
    run: str | None
    """Run id the address names; another run's is refused."""
    identity: Identity | None
    """None for an agent."""
    host: HostFacts
    process: ProcessFacts
    sent_at: float
    resources: bool = True
    """False when this process must not be asked to sample its host."""
    uptime_seconds: float = 0.0
    """Monotonic time since the session began; it may be older than the controller that it starts."""
    directory: str | None = None
    """Run folder, as the last welcome named it: whoever finds a file of a killed session knows where it belongs."""


class SeriesDef(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A metric's entry in a session's dictionary; sent once, before or with its first value."""

    id: Whole
    name: str
    unit: str | None = None
    reduction: Reduction = "mean"
    declared: bool = False
    """Whether the user said so; what a rank merely assumes never replaces it."""


class Points(Message, frozen=True, kw_only=True, tag="points"):
    """Values of some `log()` calls, as columns.

    Call i happened at `time[i]`, with `step[i]` and `epoch[i]` (-1: none), and owns the next `width[i]` entries of
    `series` and `value`. All columns are little-endian bytes.
    """

    defs: list[SeriesDef] = []
    time: bytes
    """float64, one a call."""
    step: bytes
    """int64, one a call."""
    epoch: bytes
    """int32, one a call; -1 for none."""
    width: bytes
    """uint32, one a call."""
    series: bytes
    """uint32 session ids, one a value."""
    value: bytes
    """float64, one a value; NaN and infinities are values."""
    through: int = 0
    """All calls of the session up to this number are in this message or those before (`wire.ring`)."""
    beyond: list[int] = []
    """Numbers of later calls that are, too."""


class EpochReport(Message, frozen=True, kw_only=True, tag="epoch"):
    """One rank's epoch, closed (or amended: the later report wins)."""

    epoch: Epoch
    metrics: dict[str, float]
    """This rank's mean of each metric over the epoch, or the value given to `log_epoch`."""
    batches: Count = 0
    samples: Count | None = None
    seconds: float | None = None
    """Duration of the epoch on this rank."""
    work_seconds: float | None = None
    """Own working time: data wait and compute, without waiting for peers. None when it cannot be told."""
    ended_at: float | None = None


class StepTimes(Message, frozen=True, kw_only=True, tag="step times"):
    """Where the time of some steps went, as columns: one entry a step, or a few short steps in one.

    All columns are little-endian bytes. NaN means that it cannot be told.
    """

    phases: list[str]
    """Names of the columns of `seconds`: `data`, `transfer`, `forward`, `backward`, `optimizer`, `collective`, `rest`, and
    the user's own."""
    step: bytes
    """int64, the last step of the entry."""
    count: bytes
    """uint32, steps in the entry."""
    ended_at: bytes
    """float64, wall clock at the end of its last step."""
    wall: bytes
    """float64, seconds of all its steps."""
    own: bytes
    """float64, seconds of all its steps without waiting for peers."""
    seconds: bytes
    """float64, entries times phases, one row an entry."""
    samples: bytes
    """int64, samples of all its steps; -1: not counted."""
    core_wait: bytes = b""
    """float64, the part of `own` in which the training thread could have gone on and no CPU core was free for it; empty:
    unknown."""


class ModuleTimes(Message, frozen=True, kw_only=True, tag="module times"):
    """Means of what the modules of the watched graph cost on this rank; the latest replaces those before."""

    passes: Count
    """Passes measured, warm-up left out."""
    on_device: bool = False
    """Whether device events were read, not the host's clock."""
    module: bytes
    """uint32, ids of the graph's nodes, at most 4,096."""
    forward: bytes
    """float64, seconds of one pass, all calls and children included; NaN unknown."""
    backward: bytes
    """float64."""
    memory: bytes = b""
    """int64, bytes a forward has left allocated; empty: torch does not tell; -1 unknown."""
    graph: str | None = None
    """Structural hash of the graph whose nodes are meant; None: unknown."""


class GpuSample(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU over one sampling interval. A figure that could not be read is None, never 0."""

    index: Whole
    """Physical index of the driver."""
    uuid: str | None = None
    name: str | None = None
    util: float | None = None
    """Mean ratio of the interval; None on MIG slices."""
    util_peak: float | None = None
    memory_used: Count | None = None
    memory_peak: Count | None = None
    memory_total: Count | None = None
    temperature: float | None = None
    """Degrees Celsius."""
    power: float | None = None
    """Watts."""
    power_limit: float | None = None
    clock_limits: list[str] = []
    """Reasons the driver gives for reduced clocks, in words; empty: none or unknown."""
    mig: bool = False
    ours: bool | None = None
    """Whether a rank of this job has it."""


class HostSample(msgspec.Struct, frozen=True, kw_only=True):
    """CPU, memory, network, disk and all GPUs of one host."""

    cpu: float | None = None
    """Busy ratio of the CPUs this container may use."""
    cpu_count: float | None = None
    """CPUs this container may use; may be fractional under a quota."""
    cpu_limit_source: str | None = None
    """What makes it so many: `host`, `affinity`, `cgroup v1` or `cgroup v2`."""
    memory_used: Count | None = None
    memory_total: Count | None = None
    """The tighter of the machine's and the container's limit."""
    memory_limit_source: str | None = None
    """`host`, `cgroup v1` or `cgroup v2`."""
    network_sent: float | None = None
    """Bytes a second, all interfaces but loopback."""
    network_received: float | None = None
    disk_read: float | None = None
    """Bytes a second."""
    disk_written: float | None = None
    disk_used: Count | None = None
    """Of the file system that holds the working directory."""
    disk_total: Count | None = None
    gpus: list[GpuSample] = []


class RankSample(msgspec.Struct, frozen=True, kw_only=True):
    """One rank's process tree and its device."""

    cpu: float | None = None
    """Share of the host's usable CPUs that the process tree used."""
    memory: Count | None = None
    """Resident bytes of the process tree."""
    processes: Count | None = None
    gpu: GpuSample | None = None
    torch_allocated: Count | None = None
    torch_reserved: Count | None = None
    torch_peak: Count | None = None


class ResourceSample(Message, frozen=True, kw_only=True, tag="resources"):
    """What one process measured of its host, or of one rank, over one interval."""

    time: float
    interval_seconds: float
    host: HostSample | None = None
    rank: RankSample | None = None
    of_rank: Whole | None = None
    """The rank that `rank` describes when an agent reports for it; None: the sender's own."""


class PortWish(Message, frozen=True, kw_only=True, tag="port"):
    """A wish for a live page; None: the default port."""

    port: Whole | None = None


class SetMetadata(Message, frozen=True, kw_only=True, tag="metadata"):
    """Metadata of the user as JSON text. `watched` is what `watch` adds (parameter counts)."""

    text: str | None = None
    watched: dict[str, Whole] | None = None


class SetGraph(Message, frozen=True, kw_only=True, tag="graph"):
    """SVG or graph, label and structural hash of the model; the first non-empty arrival wins."""

    svg: str | None = None
    graph: msgspec.Raw = msgspec.Raw(b"\xc0")
    """The graph as MessagePack; nil when there is none."""
    label: str | None = None
    hash: str | None = None


class SetHardware(Message, frozen=True, kw_only=True, tag="hardware"):
    """Hardware summary of a rank, `<cpu> | <its gpu>`."""

    cpu: str
    gpu: str | None = None


class SetPlan(Message, frozen=True, kw_only=True, tag="plan"):
    """How long the job means to run, its name and its configuration."""

    epochs: Whole | None = None
    steps: Whole | None = None
    name: str | None = None
    project: str | None = None
    config: str | None = None
    """JSON text; becomes metadata under the user's own keys."""


class UserEvent(Message, frozen=True, kw_only=True, tag="event"):
    """`mon.event(...)`."""

    time: float
    title: str
    text: str = ""
    level: Level = "info"


class Notice(Message, frozen=True, kw_only=True, tag="notice"):
    """Something the rank's own side must admit: refused values, dropped points, a spool taken in."""

    time: float
    about: str
    """Class of the event: `records dropped`, `value refused`, …"""
    text: str
    level: Level = "warn"
    count: Count = 1


class Goodbye(Message, frozen=True, kw_only=True, tag="goodbye"):
    """The rank's script came to its end, or the agent's job did."""

    time: float
    clean: bool = True
    dropped_points: Count = 0
    signal: str | None = None
    """The signal that ended the script, where Python made an exception of it: `SIGINT`."""
    leaving: bool = False
    """Whether the interpreter is ending too: the exit code follows at once."""


class Left(Message, frozen=True, kw_only=True, tag="left"):
    """Frames of a session that has ended, found on the sender's machine; those that are known are left out."""

    session: bytes
    frames: list[bytes]
    """In their order, a hello first."""


class Heartbeat(Message, frozen=True, kw_only=True, tag="heartbeat"):
    """Sign of life with the rank's running totals; every second, never journaled."""

    sent_at: float
    uptime_seconds: float
    """Monotonic time since the session began."""
    step: Whole | None = None
    epoch: Epoch | None = None
    phase: str | None = None
    """What the rank is doing: a phase, `step` for what is in none, `between steps`, a user's own."""
    batches: Count = 0
    samples: Count | None = None
    phases: dict[str, float] = {}
    """Seconds spent in each phase since the start."""
    step_seconds: float | None = None
    """Mean wall time of the last steps."""
    own_step_seconds: float | None = None
    """The same without waiting for peers; None when it cannot be told."""
    buffered_points: Count = 0
    dropped_points: Count = 0
    clock_offset: float | None = None
    """Controller's wall clock minus the rank's, seconds."""
    round_trip: float | None = None


class WorkerStarted(Message, frozen=True, kw_only=True, tag="worker started"):
    """The launcher's agent started a rank."""

    identity: Identity
    pid: Whole
    time: float


class WorkerExited(Message, frozen=True, kw_only=True, tag="worker exited"):
    """A rank's process has gone. Exactly one of `exit_code` and `signal` is set."""

    rank: Whole
    generation: Whole
    time: float
    exit_code: Whole | None = None
    signal: str | None = None
    """Signal name such as `SIGKILL`."""
    for_restart: bool = False
    """Whether the launcher ended it to start all ranks again."""


class WorkerAlive(Message, frozen=True, kw_only=True, tag="worker alive"):
    """The launcher's agent sees these ranks' processes; a sign of life for scripts without a `Monitor`."""

    ranks: list[Whole]
    generation: Whole


class JobEnded(Message, frozen=True, kw_only=True, tag="job ended"):
    """The launcher's own end: what it will exit with, or the signal that ended it."""

    time: float
    exit_code: Whole | None = None
    signal: str | None = None


# --- controller -> rank or agent ------------------------------------------------------------------------------------


class Welcome(Message, frozen=True, kw_only=True, tag="welcome"):
    """Answer to `Hello`."""

    run: str
    name: str
    directory: str
    """Absolute path of the run folder, on the controller's host."""
    machine_id: str
    """The controller's machine."""
    durable_seq: Whole
    """Highest sequence of this session that is on disk."""
    primary: bool = False
    """Whether this session prints the job's lines."""
    sample_host: bool = False
    url_line: str | None = None


class Ack(Message, frozen=True, kw_only=True, tag="ack"):
    """Everything up to `durable_seq` is on disk."""

    durable_seq: Whole


class Pong(Message, frozen=True, kw_only=True, tag="pong"):
    """Answer to a heartbeat, for the clock offset."""

    sent_at: float
    """The heartbeat's own."""
    received_at: float
    """The controller's wall clock."""


class Appoint(Message, frozen=True, kw_only=True, tag="appoint"):
    """Whether this session samples its host."""

    sample_host: bool
    spared: list[Whole] = []
    """For an agent: the host's ranks that it leaves alone, since they sample themselves or want it not at all."""


class Say(Message, frozen=True, kw_only=True, tag="say"):
    """A line to print on the terminal, once."""

    line: str


class Refused(Message, frozen=True, kw_only=True, tag="refused"):
    """The controller will not take this session; the reason is for people."""

    reason: str


Sequenced = (
    Points
    | EpochReport
    | StepTimes
    | ModuleTimes
    | ResourceSample
    | PortWish
    | SetMetadata
    | SetGraph
    | SetHardware
    | SetPlan
    | UserEvent
    | Notice
    | Goodbye
    | WorkerStarted
    | WorkerExited
    | JobEnded
    | Left
)
Upward = Hello | Heartbeat | WorkerAlive | Sequenced
Downward = Welcome | Ack | Pong | Appoint | Say | Refused
