"""The rules of behaviour as data: `tests/rules/bNN.toml`, the tests that prove each, and the complaints about others.

A rule is a promise to the user, the tests whose names begin with its number, and changes to the code that break it, each of
which a test must notice.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
NUMBERS = range(1, 51)
GROUPS = (
    "Roles",
    "What a script says",
    "Hardware and resources",
    "The controller's sinks",
    "Liveness",
    "Epochs and aggregation",
    "Events",
    "Terminal lines",
    "Exports",
)
COMPLAINTS = range(1, 87)
"""Those that must be impossible by the rules: processes and ranks, system metrics, hangs, signals and restarts, disk and size,
numbers, names, networks and proxies, security, time."""
TEST_NAME = re.compile(r"test_(?:[bd]\d\d_)+")
PAGE_TEST = re.compile(r"""^\s*(?:it|test)\(["'`](test_(?:[bd]\d\d[_ ])+.*?)["'`],""", re.MULTILINE)


class RuleError(ValueError):
    """A rule's file says what cannot be."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """A change that breaks a rule, and the tests of which at least one must fail then."""

    rule: int
    breaks: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """One promise."""

    number: int
    title: str
    group: str
    promise: str
    mutations: tuple[Mutation, ...]

    @property
    def key(self) -> str:
        """`B07`."""
        return f"B{self.number:02}"


@dataclass(frozen=True, slots=True)
class Proof:
    """One test."""

    file: str
    name: str
    line: int


def read_rules(root: Path = ROOT) -> list[Rule]:
    """Every rule that has a file, by number.

    Raises:
        RuleError: A field is missing or unknown, or a mutation does not fit the code.
    """
    return [_read_rule(path, root) for path in sorted((root / "tests/rules").glob("b[0-9][0-9].toml"))]


def read_impossible(root: Path = ROOT) -> dict[int, str]:
    """Complaints that cannot happen here, with the reason."""
    files = sorted((root / "tests/rules/complaints").glob("d[0-9][0-9].toml"))
    return {int(path.stem[1:]): str(_field(tomllib.loads(path.read_text()), "impossible", path)) for path in files}


def find_proofs(root: Path = ROOT) -> dict[str, list[Proof]]:
    """Tests by the numbers in their names, the page's own included: `B07`, `D16`."""
    found: dict[str, list[Proof]] = {}
    for proof in (*_python_tests(root), *_page_tests(root)):
        prefix = TEST_NAME.match(proof.name)
        for number in re.findall(r"[bd]\d\d", prefix.group() if prefix else ""):
            found.setdefault(number.upper(), []).append(proof)
    return found


def _python_tests(root: Path) -> Iterator[Proof]:
    for path in sorted((root / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and TEST_NAME.match(node.name):
                yield Proof(path.relative_to(root).as_posix(), node.name, node.lineno)


def _page_tests(root: Path) -> Iterator[Proof]:
    for path in sorted((root / "web/src").rglob("*.test.ts")):
        text = path.read_text()
        for found in PAGE_TEST.finditer(text):
            line = text.count("\n", 0, found.start()) + 1
            yield Proof(path.relative_to(root).as_posix(), re.sub(r"\W+", "_", found[1]), line)


def _read_rule(path: Path, root: Path) -> Rule:
    told = tomllib.loads(path.read_text())
    number = int(path.stem[1:])
    unknown = set(told) - {"title", "group", "promise", "mutation"}
    if unknown:
        raise RuleError(f"{path}: unknown {', '.join(sorted(unknown))}")
    group = str(_field(told, "group", path))
    if group not in GROUPS:
        raise RuleError(f"{path}: no group {group!r}; one of {', '.join(GROUPS)}")
    return Rule(
        number=number,
        title=str(_field(told, "title", path)),
        group=group,
        promise=" ".join(str(_field(told, "promise", path)).split()),
        mutations=tuple(_read_mutations(told, number, path, root)),
    )


def _read_mutations(told: dict[str, Any], number: int, path: Path, root: Path) -> Iterator[Mutation]:
    for entry in told.get("mutation", []):
        fields = {name: _field(entry, name, path) for name in ("breaks", "file", "old", "new", "tests")}
        code = (root / fields["file"]).read_text()
        if code.count(fields["old"]) != 1:
            times = code.count(fields["old"])
            raise RuleError(f"{path}: {fields['old']!r} is {times} times in {fields['file']}, and must be there once")
        if fields["old"] == fields["new"]:
            raise RuleError(f"{path}: {fields['breaks']!r} changes nothing")
        for test in fields["tests"]:
            _check_test(test, path, root)
        yield Mutation(rule=number, **{**fields, "tests": tuple(fields["tests"])})


def _check_test(test: str, path: Path, root: Path) -> None:
    file, _, name = test.partition("::")
    bare = name.partition("[")[0].rpartition("::")[2]
    if not (root / file).is_file() or f"def {bare}(" not in (root / file).read_text():
        raise RuleError(f"{path}: no test {test}")


def _field(told: dict[str, Any], name: str, path: Path) -> Any:
    if name not in told:
        raise RuleError(f"{path}: {name!r} is missing")
    return told[name]
