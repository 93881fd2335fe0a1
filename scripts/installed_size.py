"""Measures what `pip install trackside` puts on a disk: a fresh environment, the wheel of this tree, everything it needs.

Prints JSON: bytes of site-packages without pip, byte code included, and how many distributions that is. The budgets are
150 MB and 20 distributions; with `--check` the exit code is 1 when one is broken.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BYTES_MAX = 150_000_000
DISTRIBUTIONS_MAX = 20
NOT_COUNTED = ("pip", "setuptools", "pkg_resources", "_distutils_hack", "distutils-precedence")


def install(folder: Path) -> Path:
    """Install the wheel of this tree into a fresh environment in `folder`; its site-packages."""
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    wheels = folder / "wheels"
    subprocess.run([*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", wheels, ROOT], check=True)
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv/bin/python"
    subprocess.run([*pip, "--python", python, "install", *wheels.glob("*.whl")], check=True)
    (packages,) = folder.glob("venv/lib/python3.*/site-packages")
    return packages


def measure(packages: Path) -> dict[str, Any]:
    """Bytes and distributions in one site-packages folder, and its largest entries in MB."""
    entries = {
        entry.name: sum(file.lstat().st_size for file in [entry, *entry.rglob("*")] if not file.is_dir())
        for entry in packages.iterdir()
        if not entry.name.startswith(NOT_COUNTED)
    }
    largest = sorted(entries, key=entries.__getitem__, reverse=True)[:10]
    return {
        "bytes": sum(entries.values()),
        "distributions": sum(name.endswith(".dist-info") for name in entries),
        "largest_mb": {name: round(entries[name] / 1e6, 1) for name in largest},
    }


def main() -> int:
    """Measure and print; the exit code says whether the budgets hold, if that was asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail when a budget is broken")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ts-size-") as folder:
        figures = measure(install(Path(folder)))
    print(json.dumps(figures, indent=2))
    within = figures["bytes"] <= BYTES_MAX and figures["distributions"] <= DISTRIBUTIONS_MAX
    return 1 if wanted.check and not within else 0


if __name__ == "__main__":
    sys.exit(main())
