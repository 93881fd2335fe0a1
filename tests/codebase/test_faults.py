"""The page of faults is what the tests last found, and no test of a fault is without a row."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path


def collected(root: Path) -> set[str]:
    """Ids of all tests of `tests/faults`, without the numbers of promises and complaints."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "tests/faults"],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout
    named = (line for line in done.stdout.splitlines() if "::" in line)
    return {re.sub(r"::test_(?:[bd]\d\d_)+", "::test_", line) for line in named}


def test_every_test_of_a_fault_has_a_row_and_no_other(root: Path) -> None:
    outcomes = json.loads((root / "tests/faults/outcomes.json").read_text())
    assert outcomes.keys() == collected(root), "FAULT_OUTCOMES=tests/faults/outcomes.json pytest tests/faults"


def test_the_page_of_faults_is_current(root: Path) -> None:
    done = subprocess.run([sys.executable, "scripts/faults.py", "--check"], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_stale_page_and_an_unknown_group_are_seen(root: Path, tmp_path: Path) -> None:
    for name in ("scripts/faults.py", "tests/faults/outcomes.json", "docs/explanation/faults.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, tmp_path / name)
    written = tmp_path / "docs/explanation/faults.md"
    assert len(re.findall(r"^\| (?!fault|---)", written.read_text(), re.M)) == len(
        json.loads((root / "tests/faults/outcomes.json").read_text())
    ), "a file of tests that scripts/faults.py does not know"
    written.write_text(written.read_text().replace("| same |", "| other |", 1))
    command = [sys.executable, "scripts/faults.py", "--check"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True).returncode == 1
