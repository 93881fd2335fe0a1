"""Breaks each rule on purpose and sees whether its tests notice: `python scripts/mutants.py [B36 …] [--jobs N]`.

Each mutation of `tests/rules/` is made in a copy of `src`; its tests run against that copy, and at least one must fail. Before,
they must pass unchanged. Exit code 1 when a mutant survives, or tests fail without one.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rules import ROOT, Mutation, Rule, read_rules

LIMIT_S = 300
FAILED = 1
"""pytest's exit code when tests ran and some failed; anything else proves nothing."""


PASSED = 0


def is_noticed(mutation: Mutation) -> tuple[bool, str]:
    """Whether a test fails once the code is changed, and what pytest said."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        changed = Path(folder) / mutation.file
        text = changed.read_text().replace(mutation.old, mutation.new)
        changed.write_text(text)
        if changed.suffix == ".py":
            compile(text, str(changed), "exec")
        code, output = run_tests(mutation.tests, source)
        return code == FAILED, output


def pass_unchanged(rule: Rule) -> tuple[bool, str]:
    """Whether a rule's tests pass as long as nothing is changed: one that always fails notices nothing."""
    tests = tuple(dict.fromkeys(test for mutation in rule.mutations for test in mutation.tests))
    code, output = run_tests(tests, ROOT / "src")
    return code == PASSED, output


def run_tests(tests: tuple[str, ...], source: Path) -> tuple[int, str]:
    """Pytest's exit code against a source folder, and what it said; a run without an end has failed."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return FAILED, f"no end within {LIMIT_S} s"
    return done.returncode, done.stdout


def main() -> int:
    """Exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("rules", nargs="*", help="such as B36; all without any")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time")
    told = parser.parse_args()
    wanted = {name.upper() for name in told.rules}
    rules = [rule for rule in read_rules() if not wanted or rule.key in wanted]
    chosen = [mutation for rule in rules for mutation in rule.mutations]
    began, broken, survivors = time.monotonic(), 0, 0
    with ThreadPoolExecutor(told.jobs) as pool:
        for rule, (passed, output) in zip(rules, pool.map(pass_unchanged, rules), strict=True):
            if not passed:
                broken += 1
                print(f"FAILS UNCHANGED {rule.key}\n{output[-3000:]}", flush=True)
        for mutation, (noticed, output) in zip(chosen, pool.map(is_noticed, chosen), strict=True):
            print(f"{'noticed ' if noticed else 'SURVIVED'} B{mutation.rule:02} {mutation.breaks}", flush=True)
            if not noticed:
                survivors += 1
                print(output[-3000:], flush=True)
    spent_s = time.monotonic() - began
    print(f"{len(chosen)} mutants, {survivors} survived; {broken} rules fail unchanged; {spent_s:.0f} s")
    return 1 if survivors or broken or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
