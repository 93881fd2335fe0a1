"""Prometheus text: the last value of every metric on every rank, and whether ranks are alive.

A metric's own name becomes a label (`trackside_metric{name="train/loss"}`), since names are free text and Prometheus'
own are not.
"""

import math
from collections.abc import Iterable

from trackside.sinks.protocol import RunSource
from trackside.wire.documents import RankEntry, RunDocument, Verdict

RANK_STATES = ("alive", "late", "lost", "finished", "failed")
Labels = tuple[tuple[str, str], ...]


def escape_label(text: str) -> str:
    """A label's value as the text format wants it."""
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def format_value(value: float) -> str:
    """A number as the text format wants it."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(float(value))


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


def write_metrics(source: RunSource, wall: float) -> str:
    """The whole text of one scrape.

    Args:
        source: of the run.
        wall: UTC epoch seconds now.
    """
    run = source.run()
    of_run: Labels = (("run", run.id), ("name", run.name))
    ranks = [
        (entry, (("run", run.id), ("host", entry.host or ""), ("rank", str(entry.rank)))) for entry in source.ranks()
    ]
    text = _Text()
    text.family("trackside_up", "1 while the controller answers.", [(of_run, 1.0)])
    text.family("trackside_run_state", "1 for the state the run is in.", [((*of_run, ("state", run.state)), 1.0)])
    text.family("trackside_run_elapsed_seconds", "Duration of the run.", [(of_run, run.elapsed_seconds)])
    text.family("trackside_run_step", "Step of the slowest rank.", [(of_run, run.step)])
    text.family("trackside_run_epoch", "Latest epoch.", [(of_run, run.epoch)])
    text.family("trackside_run_throughput", "Samples a second over all ranks.", [(of_run, run.throughput)])
    text.family("trackside_world_size", "Ranks of the job.", [(of_run, run.world_size)])
    text.family(
        "trackside_rank_state",
        "1 for the state a rank is in, 0 for the others.",
        [((*labels, ("state", s)), float(entry.state == s)) for entry, labels in ranks for s in RANK_STATES],
    )
    text.family("trackside_rank_step", "Last step of a rank.", [(labels, entry.step) for entry, labels in ranks])
    text.family(
        "trackside_rank_seen_timestamp_seconds",
        "When a rank last gave a sign of life.",
        [(labels, _seen(entry, wall)) for entry, labels in ranks],
    )
    text.family(
        "trackside_rank_own_step_seconds",
        "A rank's recent mean step without waiting for peers.",
        [(labels, entry.own_step_seconds) for entry, labels in ranks],
    )
    text.family(
        "trackside_verdict",
        "1 for each verdict that holds, such as a straggler.",
        [((*of_run, *_about(verdict)), 1.0) for verdict in _open_verdicts(run)],
    )
    text.family(
        "trackside_rank_throughput",
        "Samples a second of own working time.",
        [(labels, entry.throughput) for entry, labels in ranks],
    )
    text.family(
        "trackside_metric",
        "Last value of a metric on a rank.",
        [
            ((("run", run.id), ("host", host), ("rank", str(rank)), ("name", name)), value)
            for name, rank, host, value in source.last_values()
        ],
    )
    text.family(
        "trackside_internal_count",
        "What Trackside itself counted.",
        [((("run", run.id), ("name", name)), float(count)) for name, count in sorted(source.counters().items())],
    )
    return "\n".join(text.lines) + "\n"


def _open_verdicts(run: RunDocument) -> list[Verdict]:
    return [verdict for verdict in run.diagnosis.verdicts if verdict.active] if run.diagnosis is not None else []


def _about(verdict: Verdict) -> Labels:
    rank = "" if verdict.rank is None else str(verdict.rank)
    return (("kind", verdict.kind), ("path", verdict.path), ("rank", rank), ("phase", verdict.phase or ""))


def _seen(entry: RankEntry, wall: float) -> float | None:
    return None if entry.age_seconds is None else wall - entry.age_seconds
