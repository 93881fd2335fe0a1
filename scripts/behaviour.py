"""Writes `docs/reference/behaviour.md`: every rule as a promise to users, with the tests that prove it.

Run `python scripts/behaviour.py` after a change in `tests/rules/` or of a test's name; a test fails when the page is stale
(`--check` does the same).
"""

import sys
from collections.abc import Iterator

from generated import keep_current
from rules import GROUPS, ROOT, Proof, Rule, find_proofs, read_rules

PAGE = ROOT / "docs/reference/behaviour.md"
HEAD = """\
# What you can rely on

Fifty promises, each with the tests that prove it. Every one of them is also broken on purpose: `make test-long` makes a change
to the code that a promise forbids, and sees its test fail.

<!-- This page is written by scripts/behaviour.py from tests/rules/ and the names of the tests. -->
"""


def page() -> str:
    """The whole page."""
    return "".join(_parts(read_rules(), find_proofs()))


def _parts(rules: list[Rule], proofs: dict[str, list[Proof]]) -> Iterator[str]:
    yield HEAD
    for group in GROUPS:
        members = [rule for rule in rules if rule.group == group]
        if members:
            yield f"\n## {group}\n"
        for rule in members:
            yield f"\n### {rule.key} {rule.title}\n\n{rule.promise}\n\n"
            yield from (_link(proof) for proof in proofs.get(rule.key, ()))


def _link(proof: Proof) -> str:
    words = proof.name.removeprefix("test_")
    while words[:1] in "bd" and words[1:3].isdigit() and words[3:4] == "_":
        words = words[4:]
    return f"- [{words.replace('_', ' ')}](../../{proof.file})\n"


def main() -> int:
    """0 when the page is current, or has been written."""
    return keep_current(PAGE, page())


if __name__ == "__main__":
    sys.exit(main())
