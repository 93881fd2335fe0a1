"""What was limited, said on the page: no counter of something left out grows in silence."""

from collections.abc import Callable, Mapping

from trackside.run.inputs import LimitPassed, LimitReached

LOOK_S = 1.0
QUIET_S = 60.0
"""How long a counter has stood still when its warning goes."""

SENTENCES: Mapping[str, tuple[str, str]] = {
    "values_over_name_limit": (
        "values left out",
        "{:,} values of metric names beyond the limits of a run were left out; put what changes into the step, not the name",
    ),
    "values_without_definition": ("values without a name", "{:,} values came without the name of their metric"),
    "frames_skipped": (
        "messages lost",
        "{:,} messages never arrived: the ranks that had them found no place in memory nor on their disks",
    ),
    "frames_malformed": ("messages left out", "{:,} messages could not be read and were left out"),
    "frames_unknown_kind": (
        "messages not understood",
        "{:,} messages are of a kind this version does not know; install the same trackside everywhere",
    ),
    "frames_refused": ("messages refused", "{:,} messages came from other runs or other versions and were refused"),
    "peers_refused": ("connections refused", "{:,} connections without the key of this run were not let in"),
    "frames_held": (
        "journal behind",
        "more comes than the run folder takes: {:,} times a rank was told to keep what it has and to send it again later",
    ),
    "store_dropped_records": (
        "records lost",
        "{:,} events, epochs and hardware samples are missing in the run folder, which did not take what came",
    ),
    "segments_unreadable": (
        "damaged file",
        "{:,} files of points in the run folder are damaged; curves and the report go without what they hold",
    ),
    "stream_clients_refused": (
        "too many pages",
        "{:,} times a page was turned away, since as many watch this run as may; close some",
    ),
    "stream_failures": (
        "page not updated",
        "sending to the pages failed {:,} times; the log of the controller says why",
    ),
    "http_connections_refused": (
        "too many connections",
        "{:,} connections to the page were turned away, since as many are open as may be; close some pages",
    ),
    "chart_questions_refused": (
        "too many questions",
        "{:,} chart questions were turned away, since too many waited for their answers; the page asks again",
    ),
}
"""Kind and text of the warning, by counter."""

PLUGIN_DROPS = "dropped_calls_of_"
HARMLESS = frozenset({
    "frames", "values", "points", "points_in_memory", "segments", "journal_bytes", "store_waiting_bytes",
    "frames_duplicate",  # known already
    "frames_ahead", "frames_before_hello",  # come again
    "replies_undelivered",  # to somebody who has gone
    "handshakes_failed",  # strangers at the port, who were not let in
    "stream_clients", "http_connections",  # a state, no loss
    "stream_clients_reset",  # got everything anew
    "http_requests_too_slow", "http_answers_unread",  # browsers open connections that they do not use, and fall asleep
})  # fmt: skip
SAID_OTHERWISE = ("failures_of_", "failed_calls_of_")
"""Begin the names of counters that come with an event of their own."""


class LimitWatch:
    """Compares counters with what they were.

    Args:
        count: all counters.
    """

    def __init__(self, count: Callable[[], dict[str, int]]) -> None:
        self._count = count
        self._known = count()
        self._due = 0.0
        self._grew_at: dict[str, float] = {}

    def look(self, mono: float) -> list[LimitReached | LimitPassed]:
        """What to tell the run, at most once a second."""
        if mono < self._due:
            return []
        self._due = mono + LOOK_S
        counted, known = self._count(), self._known
        self._known = counted
        out: list[LimitReached | LimitPassed] = []
        for name, total in counted.items():
            warning = warning_of(name)
            if warning is None:
                continue
            kind, sentence = warning
            if total > known.get(name, 0):
                self._grew_at[name] = mono
                out.append(LimitReached(kind, sentence.format(total), total - known.get(name, 0)))
            elif name in self._grew_at and mono - self._grew_at[name] > QUIET_S:
                del self._grew_at[name]
                out.append(LimitPassed(kind))
        return out


def warning_of(counter: str) -> tuple[str, str] | None:
    """Kind and text of a counter's warning; None for one that needs none."""
    if counter.startswith(PLUGIN_DROPS):
        sink = counter.removeprefix(PLUGIN_DROPS).replace("{", "").replace("}", "")
        return f"sink {sink} behind", f"the sink {sink} missed {{:,}} calls: it is slower than the run"
    return SENTENCES.get(counter)
