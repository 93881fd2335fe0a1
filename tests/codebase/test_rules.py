"""Every rule of behaviour has its promise, its tests and a change that breaks it; every complaint its test or its reason."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "scripts"

RULE = """
title = "A rule"
group = "Roles"
promise = "It holds."
[[mutation]]
breaks = "adds wrongly"
file = "src/sum.py"
old = "{old}"
new = "a - b"
tests = ["tests/test_sum.py::{test}"]
"""


@pytest.fixture
def rules(monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import rules

    yield rules
    sys.modules.pop("rules")


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A tiny codebase with one rule."""
    for folder in ("src", "tests/rules/complaints", "scripts"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "web/src").mkdir(parents=True)
    (tmp_path / "web/src/sum.test.ts").write_text('it("test_b01 it adds on the page", () => {});\n')
    (tmp_path / "src/sum.py").write_text("def add(a, b):\n    return a + b\n")
    (tmp_path / "tests/test_sum.py").write_text(
        "import sum as s\ndef test_b01_d16_adds():\n    assert s.add(1, 2) == 3\n"
        "def test_b01_blind():\n    assert s.add(1, 0) == 1\n"
    )
    for name in ("rules.py", "mutants.py"):
        shutil.copy(SCRIPTS / name, tmp_path / "scripts" / name)
    return tmp_path


def write_rule(root: Path, old: str = "a + b", test: str = "test_b01_d16_adds") -> None:
    (root / "tests/rules/b01.toml").write_text(RULE.format(old=old, test=test))


def test_every_rule_has_a_promise_a_proof_and_a_mutation(rules) -> None:
    known = {rule.number: rule for rule in rules.read_rules()}
    proofs = rules.find_proofs()
    assert [n for n in rules.NUMBERS if n not in known] == []
    assert [n for n in rules.NUMBERS if f"B{n:02}" not in proofs] == []
    assert [n for n in rules.NUMBERS if not known[n].mutations] == []


def test_every_complaint_in_scope_has_a_test_or_a_reason(rules) -> None:
    proofs, impossible = rules.find_proofs(), rules.read_impossible()
    assert [n for n in rules.COMPLAINTS if f"D{n:02}" not in proofs and n not in impossible] == []


def test_the_page_of_promises_is_current(root: Path) -> None:
    done = subprocess.run(
        [sys.executable, "scripts/behaviour.py", "--check"], cwd=root, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


def test_numbers_are_found_in_names(rules, planted: Path) -> None:
    proofs = rules.find_proofs(planted)
    assert {key: [p.name for p in found] for key, found in proofs.items()} == {
        "B01": ["test_b01_d16_adds", "test_b01_blind", "test_b01_it_adds_on_the_page"],
        "D16": ["test_b01_d16_adds"],
    }


@pytest.mark.parametrize(
    ("old", "test", "problem"),
    [("a * b", "test_b01_blind", "0 times"), ("a", "test_b01_blind", "times in"), ("a + b", "test_b01_no", "no test")],
)
def test_a_stale_mutation_is_refused(rules, planted: Path, old: str, test: str, problem: str) -> None:
    write_rule(planted, old, test)
    with pytest.raises(rules.RuleError, match=problem):
        rules.read_rules(planted)


@pytest.mark.parametrize(
    ("test", "code", "word"), [("test_b01_d16_adds", 0, "noticed"), ("test_b01_blind", 1, "SURVIVED")]
)
def test_a_mutant_that_survives_is_told(planted: Path, test: str, code: int, word: str) -> None:
    write_rule(planted, test=test)
    done = subprocess.run(
        [sys.executable, "scripts/mutants.py", "B01"], cwd=planted, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, word in done.stdout) == (code, True), done.stdout + done.stderr


def test_a_test_that_always_fails_notices_nothing(planted: Path) -> None:
    (planted / "src/sum.py").write_text("def add(a, b):\n    return a + b + 1\n")
    write_rule(planted)
    done = subprocess.run(
        [sys.executable, "scripts/mutants.py", "B01"], cwd=planted, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, "FAILS UNCHANGED B01" in done.stdout) == (1, True), done.stdout + done.stderr


@pytest.mark.long
def test_every_mutant_is_noticed(root: Path) -> None:
    done = subprocess.run(
        [sys.executable, "scripts/mutants.py"], cwd=root, capture_output=True, text=True, timeout=5400
    )
    assert done.returncode == 0, done.stdout[-6000:]
