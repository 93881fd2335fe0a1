"""What `pip install trackside` puts on a disk: a fresh environment, the wheel of this tree, everything it needs.

Bytes of site-packages, byte code included, pip itself left out; and how many distributions that is. Needs the package
registry this machine is set up for. With `--check` the exit code is 1 when a budget is broken.
"""

import argparse
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from record import Figure, save

ROOT = Path(__file__).resolve().parent.parent
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


def sizes(packages: Path) -> dict[str, int]:
    """Bytes by entry of a site-packages folder, what is not counted left out."""
    return {
        entry.name: sum(file.lstat().st_size for file in [entry, *entry.rglob("*")] if not file.is_dir())
        for entry in packages.iterdir()
        if not entry.name.startswith(NOT_COUNTED)
    }


def byte_code(packages: Path) -> int:
    """Bytes of the byte code that pip compiled after unpacking."""
    return sum(file.stat().st_size for file in packages.rglob("*.pyc"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail when a budget is broken")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ts-size-") as folder:
        packages = install(Path(folder))
        found, compiled = sizes(packages), byte_code(packages)
    largest = sorted(found, key=found.__getitem__, reverse=True)[:10]
    megabytes = {name: round(found[name] / 1e6, 1) for name in largest}
    count = sum(name.endswith(".dist-info") for name in found)
    note = ", ".join(f"{name.partition('.')[0]} {size:g}" for name, size in list(megabytes.items())[:3])
    array_library = sum(size for name, size in found.items() if name.startswith("numpy"))
    figures = [
        Figure(
            "`pip install trackside` with everything it needs",
            sum(found.values()) / 1e6,
            "MB",
            budget=150,
            peer="74 MB (swanlab)",
            note=note,
        ),
        Figure("the same as unpacked, before pip compiles byte code", (sum(found.values()) - compiled) / 1e6, "MB"),
        Figure("the same beside a numpy that is there already", (sum(found.values()) - array_library) / 1e6, "MB"),
        Figure("distributions", count, budget=20, peer="14 (tensorboardX)", note="trackside itself included"),
        Figure("trackside itself, page included", found["trackside"] / 1e6, "MB"),
    ]
    save("install_size", "Installed size", figures, {"bytes": found, "byte_code": compiled})
    return 1 if options.check and any(figure.is_within() is False for figure in figures) else 0


if __name__ == "__main__":
    sys.exit(main())
