"""Runs the benchmarks one after the other and writes the table: `python benchmarks/run.py [--list] [NAME …]`.

Each runs as a program of its own, with a time limit; one that fails is said and does not stop the others. Numbers are
worth something on a machine that does nothing else.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

import table

HERE = Path(__file__).resolve().parent
LIMIT_S = 900.0


def benchmarks() -> dict[str, Path]:
    """Every benchmark by its name: a file here that hands its figures to `record`."""
    return {
        path.stem: path
        for path in sorted(HERE.glob("*.py"))
        if "from record import" in path.read_text(encoding="utf-8") and path.stem not in ("run", "table")
    }


def run(name: str, path: Path, limit_s: float) -> bool:
    """Run one benchmark; whether it ended well.

    Blocks: until it has ended, or `limit_s`.
    """
    print(f"▸ {name}", flush=True)
    began = time.monotonic()
    try:
        code = subprocess.run([sys.executable, str(path)], cwd=HERE.parent, timeout=limit_s, check=False).returncode
    except subprocess.TimeoutExpired:
        print(f"  {name} was stopped after {limit_s:g} s", file=sys.stderr)
        return False
    if code:
        print(f"  {name} ended with exit code {code}", file=sys.stderr)
    print(f"  took {time.monotonic() - began:.0f} s", flush=True)
    return code == 0


def main() -> int:
    found = benchmarks()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="which; default: all")
    parser.add_argument("--list", action="store_true", help="only name them")
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="seconds each may take; default: %(default)g")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in found]:
        parser.error(f"no benchmark named {', '.join(unknown)}; there are {', '.join(found)}")
    if options.list:
        print("\n".join(found))
        return 0
    failed = [name for name in options.names or found if not run(name, found[name], options.limit)]
    print(f"wrote {table.write()}")
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
