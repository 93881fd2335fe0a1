"""Prometheus text: the last value of every metric on every rank, and whether ranks are alive.

A metric's own name becomes a label (`trackside_metric{name="train/loss"}`), since names are free text and Prometheus'
own are not.
"""

import math
from collections.abc import Iterable

import msgspec

from trackside.sinks.protocol import RunSource
from trackside.wire.documents import MOST_LATEST_VALUES, RankEntry, RunDocument, Verdict

RANK_STATES = ("alive", "late", "lost", "finished", "failed")
Labels = tuple[tuple[str, str], ...]


def escape_label(text: str) -> str:
    """A label's value as the text format wants it."""
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def format_value(value: float) -> str:
    """A number as the text format wants it."""
    if math.isfinite(value):
        return repr(float(value))
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


class _Text:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def family(self, name: str, help_text: str, samples: Iterable[tuple[Labels, float | None]]) -> None:
        """One family of samples; those without a value are left out, and with them an empty family."""
        lines = [f"{name}{{{_labels(labels)}}} {format_value(value)}" for labels, value in samples if value is not None]
        if lines:
            self.lines += [f"# HELP {name} {help_text}", f"# TYPE {name} gauge", *lines]


def _labels(labels: Labels) -> str:
    return ",".join(f'{name}="{escape_label(value)}"' for name, value in labels)


class Scrape(msgspec.Struct, frozen=True):
    """What a scrape says, taken down at one moment."""

    wall: float
    run: RunDocument
    ranks: list[RankEntry]
    values: list[tuple[str, int, str, float]]
    left_out: int
    """Metrics whose values are not among them, since there would be too many."""
    counters: dict[str, int]

    def text(self) -> str:
        """The whole text. Threads: any."""
        text = _Text()
        _write_run(text, self)
        _write_ranks(text, self)
        _write_values(text, self)
        return "\n".join(text.lines) + "\n"


async def take_scrape(source: RunSource, wall: float) -> Scrape:
    """Take down what a scrape says. Raises: as the source's `last_values` does.

    Args:
        source: of the run.
        wall: UTC epoch seconds now.
    """
    values = await source.last_values(MOST_LATEST_VALUES)
    valued = sum(metric.rank_count > 0 for metric in source.metrics())
    left_out = max(0, valued - len({name for name, *_ in values}))
    return Scrape(wall, source.run(), source.ranks(), values, left_out, source.counters())


def _write_run(text: _Text, scrape: Scrape) -> None:
    run = scrape.run
    of_run: Labels = (("run", run.id), ("name", run.name))
    text.family("trackside_up", "1 while the controller answers.", [(of_run, 1.0)])
    text.family("trackside_run_state", "1 for the state the run is in.", [((*of_run, ("state", run.state)), 1.0)])
    text.family("trackside_run_elapsed_seconds", "Duration of the run.", [(of_run, run.elapsed_seconds)])
    text.family("trackside_run_step", "Step of the slowest rank.", [(of_run, run.step)])
    text.family("trackside_run_epoch", "Latest epoch.", [(of_run, run.epoch)])
    text.family("trackside_run_throughput", "Samples a second over all ranks.", [(of_run, run.throughput)])
    text.family("trackside_world_size", "Ranks of the job.", [(of_run, run.world_size)])
    text.family(
        "trackside_verdict",
        "1 for each verdict that holds, such as a straggler.",
        [((*of_run, *_about(verdict)), 1.0) for verdict in _open_verdicts(run)],
    )


def _write_ranks(text: _Text, scrape: Scrape) -> None:
    ranks = [
        (entry, (("run", scrape.run.id), ("host", entry.host or ""), ("rank", str(entry.rank))))
        for entry in scrape.ranks
    ]
    text.family(
        "trackside_rank_state",
        "1 for the state a rank is in, 0 for the others.",
        [((*labels, ("state", s)), float(entry.state == s)) for entry, labels in ranks for s in RANK_STATES],
    )
    text.family("trackside_rank_step", "Last step of a rank.", [(labels, entry.step) for entry, labels in ranks])
    text.family(
        "trackside_rank_seen_timestamp_seconds",
        "When a rank last gave a sign of life.",
        [(labels, _seen(entry, scrape.wall)) for entry, labels in ranks],
    )
    text.family(
        "trackside_rank_own_step_seconds",
        "A rank's recent mean step without waiting for peers.",
        [(labels, entry.own_step_seconds) for entry, labels in ranks],
    )
    text.family(
        "trackside_rank_throughput",
        "Samples a second of own working time.",
        [(labels, entry.throughput) for entry, labels in ranks],
    )


def _write_values(text: _Text, scrape: Scrape) -> None:
    """The many: what each line shares with others is written once."""
    run = _labels((("run", scrape.run.id),))
    names = {name: _labels((("name", name),)) for name in {name for name, *_ in scrape.values}}
    ranks: dict[tuple[int, str], str] = {}
    for _, rank, host, _ in scrape.values:
        if (rank, host) not in ranks:
            ranks[rank, host] = _labels((("host", host), ("rank", str(rank))))
    if scrape.values:
        text.lines += ["# HELP trackside_metric Last value of a metric on a rank.", "# TYPE trackside_metric gauge"]
        text.lines += [
            f"trackside_metric{{{run},{ranks[rank, host]},{names[name]}}} {format_value(value)}"
            for name, rank, host, value in scrape.values
        ]
    text.family(
        "trackside_metric_left_out",
        f"Metrics without their values here, which would be more than {MOST_LATEST_VALUES:,}.",
        [((("run", scrape.run.id),), float(scrape.left_out) if scrape.left_out else None)],
    )
    text.family(
        "trackside_internal_count",
        "What Trackside itself counted.",
        [((("run", scrape.run.id), ("name", name)), float(count)) for name, count in sorted(scrape.counters.items())],
    )


def _open_verdicts(run: RunDocument) -> list[Verdict]:
    return [verdict for verdict in run.diagnosis.verdicts if verdict.active] if run.diagnosis is not None else []


def _about(verdict: Verdict) -> Labels:
    rank = "" if verdict.rank is None else str(verdict.rank)
    return (("kind", verdict.kind), ("path", verdict.path), ("rank", rank), ("phase", verdict.phase or ""))


def _seen(entry: RankEntry, wall: float) -> float | None:
    return None if entry.age_seconds is None else wall - entry.age_seconds
