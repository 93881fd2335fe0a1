"""All that is known of a run, as plain structs: a snapshot of them is a checkpoint."""

from typing import Any

import msgspec

from trackside.run.limits import DEFAULT_LIMITS
from trackside.run.samples import PathSamples
from trackside.wire import documents, messages
from trackside.wire.documents import EventRecord, RankState

Wall = float
Mono = float


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How the machine judges."""

    launched: bool = False
    """Whether an agent of `trackside run` is expected; its word decides the end then."""
    late_after_seconds: float = DEFAULT_LIMITS.late_s
    lost_after_seconds: float = DEFAULT_LIMITS.lost_s
    linger_seconds: float = 3.0
    """How long ranks that have not appeared yet are waited for once all others are over."""
    clock_offset_seconds: float = 5.0
    stop_grace_seconds: float = 1.0
    """How long a controller that is asked to end waits for ranks that may be ending too: a batch system asks everybody."""
    restart_seconds: float = 120.0
    """How long ranks that have all failed may take to be started again, while the agent that does it is there."""
    leave_seconds: float = 3.0
    """How long the exit code of a script that has said goodbye is waited for."""
    abandon_after_seconds: float = 300.0
    """How long a lost rank that nobody saw end is waited for before the run may end without it."""
    wants_page: bool = False
    """Whether the way it was started counts as a port wish."""
    no_page: bool = False
    """Whether there is to be no page, whatever is wished."""
    port: int | None = None


class LaterWish(msgspec.Struct, frozen=True, kw_only=True):
    """A wish for another port, made before it was known what came of the first."""

    who: str
    """For people: `rank 3`, `the launcher`."""
    port: int


class Progress(msgspec.Struct, kw_only=True):
    """One heartbeat's totals, kept for rates."""

    mono: Mono
    batches: int
    samples: int | None
    phases: dict[str, float]


class Rank(msgspec.Struct, kw_only=True):
    """One rank of the present generation."""

    rank: int
    generation: int
    local_rank: int | None = None
    host: str | None = None
    pid: int | None = None
    session: bytes | None = None
    identity_source: str | None = None
    monitored: bool = False
    state: RankState = "alive"
    seen: Mono = 0.0
    exit_code: int | None = None
    signal: str | None = None
    step: int | None = None
    epoch: int | None = None
    phase: str | None = None
    samples: int | None = None
    step_seconds: float | None = None
    own_step_seconds: float | None = None
    progress: list[Progress] = []
    reported_epoch: int | None = None
    """Highest epoch that it has reported."""
    clock_offset: float | None = None
    cpu_text: str | None = None
    gpu_text: str | None = None
    sample: messages.RankSample | None = None
    sampled_at: Mono | None = None
    own_sample_at: Mono | None = None
    clock_is_off: bool = False
    ended_at: Mono | None = None
    raised: bool = False
    """Its script ended with an exception, by its own word."""
    follows: bool = False
    """Whether its process ended when another's had failed: a launcher may have ended it."""
    untold_since: Mono | None = None
    """Since when its failure waits to be told."""
    non_finite: int = 0
    dropped_points: int = 0

    @property
    def is_over(self) -> bool:
        return self.state in ("finished", "failed")


class Session(msgspec.Struct, kw_only=True):
    """One process that said hello."""

    role: messages.Role
    host: str
    rank: int | None
    local_rank: int | None = None
    generation: int
    pid: int
    may_sample: bool
    seen: Mono
    said_goodbye: bool = False
    leaving: bool = False
    """Whether its process is ending and has not been seen to end yet."""
    gone: bool = False
    silent: bool = False
    """An agent that has not been heard for as long as a lost rank."""
    dropped_points: int = 0

    @property
    def is_open(self) -> bool:
        return not (self.said_goodbye or self.gone or self.silent)


class Host(msgspec.Struct, kw_only=True):
    """One machine; `name` is unique in the run."""

    name: str
    machine_id: str
    facts: messages.HostFacts
    sampler: bytes | None = None
    spared: list[int] = []
    """Ranks its agent was told to leave alone."""
    sample: messages.HostSample | None = None
    sampled_at: Mono | None = None


class Metric(msgspec.Struct, kw_only=True):
    """One metric name."""

    id: int
    name: str
    unit: str | None
    reduction: messages.Reduction
    points: int = 0
    first_step: int | None = None
    last_step: int | None = None
    """Of the latest generation that has told it."""
    generation: int = 0
    non_finite: int = 0
    bad_ranks: dict[int, bool] = {}
    """Ranks that logged values that are not finite, and whether each has an event of its own."""


class Epoch(msgspec.Struct, kw_only=True):
    """Reports of one epoch by rank; the later report of a rank wins."""

    epoch: int
    generation: int = 0
    """Of the reports; a later generation that trains the epoch again replaces them all."""
    reports: dict[int, messages.EpochReport] = {}
    cut: set[int] = set()
    """Ranks whose script broke off within it."""
    reported_at: Mono = 0.0
    published: bool = False
    record: documents.EpochRecord | None = None


class EventMark(msgspec.Struct, kw_only=True):
    """What decides whether the next event repeats this one."""

    name: str
    """Class, path and key in one."""
    seen: Mono


class Takeover(msgspec.Struct, kw_only=True):
    """A generation that went on where an earlier one had been; see `run.takeover`."""

    generation: int
    time: Wall
    step: int | None = None
    """The lowest one it has told; None: none yet."""
    epoch: int | None = None
    reached: int | None = None
    """How far the ones before had come."""
    paused_seconds: float = 0.0
    """How long no process of the job was there before; 0 within a session."""
    event: int | None = None
    """Id of the event that says so."""
    text: str = ""
    """What the event said before the step was known."""


class Quota(msgspec.Struct, kw_only=True):
    """How many events one path's ranks have made of themselves; see `run.quota`."""

    since: Mono
    taken: int = 0
    """Since then."""
    left_out: int = 0
    told: int = 0
    """How many left out have been said."""
    told_at: Mono = 0.0
    grew_at: Mono | None = None
    """When one was left out last; None once its warning has gone."""


class Run(msgspec.Struct, kw_only=True):
    """The whole state."""

    id: str
    name: str
    directory: str
    version: str
    settings: Settings
    started_wall: Wall
    started_mono: Mono
    seen_wall: Wall
    seen_mono: Mono
    """Both clocks at the latest input, so that another process can take over with other monotonic time."""
    published_at: Mono | None = None
    state: documents.RunState = "waiting"
    state_detail: str | None = None
    ended_wall: Wall | None = None
    ended_mono: Mono | None = None
    completed: bool = False
    all_over_since: Mono | None = None
    may_restart: bool = False
    """Whether an agent of plain torchrun was seen at the last look."""
    stop_reason: str | None = None
    stopped_mono: Mono | None = None
    launcher_gone: bool = False
    job: messages.JobEnded | None = None
    session: int = 0
    """How often the whole job was started again, with a controller of its own each time."""
    generation: int = 0
    restarts: int = 0
    takeovers: list[Takeover] = []
    paused_seconds: float = 0.0
    """How long nothing of the job was there, between its sessions."""
    world_size: int | None = None
    ranks: dict[int, Rank] = {}
    sessions: dict[bytes, Session] = {}
    hosts: dict[str, Host] = {}
    metrics: dict[int, Metric] = {}
    epochs: dict[int, Epoch] = {}
    plan_epochs: int | None = None
    plan_steps: int | None = None
    project: str | None = None
    label: str | None = None
    hash: str | None = None
    hash_rank: int | None = None
    """Who named the hash."""
    svg: str | None = None
    graph: documents.GraphDocument | None = None
    module_times: dict[int, messages.ModuleTimes] = {}
    """By rank, of this generation."""
    timed_rank: int | None = None
    """The rank whose times the graph shows."""
    hardware: str | None = None
    metadata: str | None = None
    """The user's own, JSON text."""
    watched: dict[str, int] | None = None
    config: str | None = None
    """JSON text."""
    environment: dict[str, Any] = {}
    events: list[EventRecord] = []
    event_marks: dict[int, EventMark] = {}
    latest_events: dict[str, int] = {}
    """Id of the latest event of each class, path and key."""
    next_event: int = 1
    recalled: dict[int, float] = {}
    """While a journal is replayed: events that had been told already, and until when they had."""
    quotas: dict[str, Quota] = {}
    unsaid: set[int] = set()
    """Events that have grown since they were published."""
    open_epochs: set[int] = set()
    """Those that are not published."""
    held_epochs: set[int] = set()
    """Those that are published and keep their reports."""
    last_epoch: int = -(2**31)
    """The furthest one that was reported."""
    epoch_names: set[str] = set()
    """Metrics of all epochs so far."""
    epoch_names_left_out: int = 0
    samples: dict[str, PathSamples] = {}
    """Of resources, by path."""
    samples_bytes: int = 0
    """What those of them take that are not the newest."""
    summed_at: Mono | None = None
    """When the whole job's resources were last summed up."""
    bound_port: int | None = None
    asked_port: int | None = None
    asked_page: bool = False
    own_wish_counted: bool = False
    refused_ports: list[int] = []
    later_wishes: list[LaterWish] = []
    url_line: str | None = None
    stalled_since: Wall | None = None
    stall_reason: str | None = None
    history: list[tuple[Mono, int]] = []
    """Recent (time, step of the slowest rank) for the ETA, this session only."""
