"""The import contracts hold, and each of them breaks when it should."""

import itertools
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

# Imports that a contract forbids, under the contract's id: (file, lines to append).
PLANTED = {
    "controller-layers": [("store/__init__.py", "import trackside.server")],
    "rank-layers": [("wire/codec.py", "import trackside.monitor")],
    "rank-side-alone": [("monitor/__init__.py", "import trackside.store")],
    "controller-side-alone": [("sinks/__init__.py", "import trackside.monitor")],
    "host-agent": [("launch/__init__.py", "import trackside.monitor")],
    "one-database": [("server/__init__.py", "def later():\n    import duckdb")],
    "pure-run": [("run/__init__.py", "import time")],
    "light-rank": [("monitor/__init__.py", "def later():\n    import asyncio")],
    "no-arrays-in-rank": [("monitor/__init__.py", "import trackside.wire.columns")],
    "no-cycles": [("wire/ids.py", "import trackside.wire.codec"), ("wire/codec.py", "import trackside.wire.ids")],
}


def verdicts(folder: Path) -> dict[str, str]:
    """`KEPT` or `BROKEN` for every contract, by its name, of the tree in `folder`."""
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-logo", "--no-cache"],
        cwd=folder,
        env={"PYTHONPATH": str(folder / "src"), "COLUMNS": "400", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
    )
    found = dict(re.findall(r"^(\S.*) (KEPT|BROKEN)\b", done.stdout, re.MULTILINE))
    assert found, done.stdout + done.stderr
    return found


def contracts(root: Path) -> dict[str, str]:
    settings = tomllib.loads((root / "pyproject.toml").read_text())
    return {contract["id"]: contract["name"] for contract in settings["tool"]["importlinter"]["contracts"]}


def copy_of_source(root: Path, folder: Path) -> Path:
    shutil.copytree(root / "src", folder / "src", ignore=shutil.ignore_patterns("static", "__pycache__"))
    shutil.copy(root / "pyproject.toml", folder)
    return folder


def test_contracts_are_kept(root: Path) -> None:
    assert verdicts(root) == dict.fromkeys(contracts(root).values(), "KEPT")


def test_planted_violations_break_every_contract(root: Path, tmp_path: Path) -> None:
    assert contracts(root).keys() == PLANTED.keys()
    copy = copy_of_source(root, tmp_path)
    for file, lines in itertools.chain(*PLANTED.values()):
        with (copy / "src/trackside" / file).open("a") as source:
            source.write(f"\n{lines}\n")
    assert verdicts(copy) == dict.fromkeys(contracts(root).values(), "BROKEN")
