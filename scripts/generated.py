"""A page that a script writes: written anew, or with `--check` compared with what it would be."""

import sys
from pathlib import Path


def keep_current(page: Path, now: str) -> int:
    """An exit code: 0 when the page is current, or has been written."""
    if "--check" not in sys.argv[1:]:
        page.write_text(now)
        print(f"wrote {page}")
        return 0
    if page.is_file() and page.read_text() == now:
        return 0
    print(f"{page.name} is stale: run `python scripts/{Path(sys.argv[0]).name}`", file=sys.stderr)
    return 1
