"""Sentences about verdicts: for events, the terminal and `trackside diagnose`."""

import math

from trackside.wire.documents import Diagnosis, Verdict

MOST_LINES = 5
WORK = {
    "data": "waiting for data",
    "transfer": "moving data to the device",
    "forward": "forward",
    "backward": "backward",
    "optimizer": "the optimizer",
    "rest": "code outside the phases",
    "compute": "its own work",
}


def duration(seconds: float | None) -> str:
    """A duration of steps: `8.3 ms`, `420 ms`, `1.50 s`."""
    if seconds is None or not math.isfinite(seconds):
        return "an unknown time"
    if seconds < 0.1:
        return f"{seconds * 1000:.1f} ms"
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.2f} s" if seconds < 100 else f"{seconds:.0f} s"


def long_duration(seconds: float) -> str:
    """A duration of people: `40 s`, `12 min`, `3.5 h`, `2 d`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.0f} d"


def size(count: float) -> str:
    """Bytes, base 1024, with one decimal from GB."""
    for unit in ("B", "KB", "MB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} GB"


def phase_words(phase: str | None) -> str:
    """A phase for people."""
    return "a phase that cannot be told" if phase is None else WORK.get(phase, f"`{phase}`")


def slower(own: float, peers: float) -> str:
    """How much longer a rank's own time is than that of its peers."""
    if peers <= 0 or own < 2 * peers:
        return f"{own / peers - 1 if peers > 0 else 0:.0%} slower than its peers"
    return f"{own / peers:.1f} times its peers' own time"


def percent(part: float | None, whole: float | None) -> str | None:
    """A part of a step; None when it is less than one in a hundred, or unknown."""
    if not part or not whole or part / whole < 0.01:
        return None
    return f"{part / whole:.0%}"


def summary_lines(diagnosis: Diagnosis | None, folder: str | None = None, most: int = MOST_LINES) -> list[str]:
    """What is known, worst first, in at most so many lines; empty when there is no basis."""
    if diagnosis is None:
        return []
    active = [verdict for verdict in diagnosis.verdicts if verdict.active]
    told = [verdict for verdict in diagnosis.verdicts if not verdict.active and verdict.kind != "slow step"]
    if not active and not told:
        return [f"  verdict    no rank behind, nothing unusual; {_job_words(diagnosis)}"]
    lines = [f"  verdict    {_job_words(diagnosis)}"]
    if most == 1:
        return lines
    room = most - 1 - bool(folder)
    shown = [*active, *told]
    room -= len(shown) > room
    lines += [f"             {verdict_line(verdict)}" for verdict in shown[:room]]
    if len(shown) > room:
        lines.append(f"             and {len(shown) - room} more")
    if folder:
        lines.append(f"             trackside diagnose {folder}")
    return lines


def _job_words(diagnosis: Diagnosis) -> str:
    """What the job as a whole waits for; the time of a step once."""
    step = None if diagnosis.step_seconds is None else duration(diagnosis.step_seconds)
    before = [f"{step} a step"] if step and step not in diagnosis.bound_text else []
    before += [f"bound by {diagnosis.bound}"] if diagnosis.bound else []
    return f"{', '.join(before)}: {diagnosis.bound_text}" if before else diagnosis.bound_text


def verdict_line(verdict: Verdict) -> str:
    """One verdict on one line."""
    if verdict.active:
        return f"{verdict.kind}: {verdict.text}"
    until = "" if verdict.until_step is None else f" (over since step {verdict.until_step:,})"
    return f"{verdict.kind}: {verdict.text}{until}"
