"""Numbers of journal files, and which of them a Parquet file stands for."""

import re
from collections.abc import Iterable
from pathlib import Path

_NAME = re.compile(r"(\d{6,})(?:-(\d{6,}))?\.parquet")


def journal_name(number: int) -> str:
    """`000007.log`."""
    return f"{number:06d}.log"


def parquet_name(first: int, last: int) -> str:
    """`000007.parquet`, or `000003-000007.parquet` for what was merged from several.

    A merged file never takes the name of one of its parts: a reader that knows the parts must not find the whole under
    one of their names, or it would count points twice.
    """
    return f"{last:06d}.parquet" if first == last else f"{first:06d}-{last:06d}.parquet"


def span_of(path: Path) -> tuple[int, int]:
    """First and last journal file that a Parquet file stands for; (0, 0) for a file that is not ours."""
    found = _NAME.fullmatch(path.name)
    if found is None:
        return 0, 0
    first, last = int(found[1]), int(found[2] or found[1])
    return (first, last) if 0 < first <= last else (0, 0)


def standing(paths: Iterable[Path]) -> list[Path]:
    """Files that no other one has swallowed, oldest first.

    A merge that was cut short leaves its parts beside the whole; the whole stands for all of them.
    """
    spans = {path: span for path in paths if (span := span_of(path)) != (0, 0)}
    kept: list[Path] = []
    end = 0
    for path in sorted(spans, key=lambda path: (spans[path][0], -spans[path][1])):
        if spans[path][1] > end:
            kept.append(path)
            end = spans[path][1]
    return kept
