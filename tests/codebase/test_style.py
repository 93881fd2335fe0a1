"""Two rules of the house that a linter does not know: no `assert` in shipped code, catch-alls in three places only."""

import ast
from collections.abc import Iterator
from pathlib import Path

from trackside import monitor

# A catch-all is the job of these two, and of the top of a thread or task, which says so on its line. `log()` cannot pay
# for a call into the guard, so the rank's API may hold a piece of it, marked as such.
CATCH_ALL_FILES = ("monitor/guard.py", "controller/dispatch.py")
CATCH_ALL_MARKS = ("# top of thread", "# top of task", "- top of thread", "- top of task")
INLINE_GUARD = ("monitor/api.py", "- the rank's guard")
CATCH_ALLS = frozenset({"Exception", "BaseException"})


def violations(folder: Path) -> list[str]:
    """`file:line what` for every violation under `folder`."""
    return [
        f"{file.relative_to(folder)}:{line} {what}"
        for file in sorted(folder.rglob("*.py"))
        for line, what in violations_in(file, str(file.relative_to(folder)))
    ]


def violations_in(file: Path, name: str) -> Iterator[tuple[int, str]]:
    text = file.read_text()
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Assert):
            yield node.lineno, "assert"
        if isinstance(node, ast.ExceptHandler) and is_catch_all(node) and not is_allowed(lines[node.lineno - 1], name):
            yield node.lineno, "catch-all"


def is_allowed(line: str, name: str) -> bool:
    """Whether a catch-all may stand on this line of the file `name`."""
    file, guard = INLINE_GUARD
    marked = any(mark in line for mark in CATCH_ALL_MARKS) or (name == file and guard in line)
    return marked or name in CATCH_ALL_FILES


def is_catch_all(handler: ast.ExceptHandler) -> bool:
    """Whether it takes everything and keeps it; one that ends by raising again keeps nothing."""
    raises_again = isinstance(handler.body[-1], ast.Raise) and handler.body[-1].exc is None
    return catches_everything(handler.type) and not raises_again


def catches_everything(caught: ast.expr | None) -> bool:
    if isinstance(caught, ast.Tuple):
        return any(catches_everything(each) for each in caught.elts)
    return caught is None or (isinstance(caught, ast.Name) and caught.id in CATCH_ALLS)


def test_source_keeps_the_rules(root: Path) -> None:
    assert list((root / "src/trackside").rglob("*.py"))
    assert violations(root / "src/trackside") == []


PLANTED = """
def run():
    assert True
    try:
        pass
    except Exception:
        pass
    try:
        pass
    except (ValueError, BaseException) as error:
        print(error)
    try:
        pass
    except:
        pass
    try:
        pass
    except Exception:  # noqa: BLE001 - top of thread
        pass
    try:
        pass
    except BaseException:
        raise
"""


def test_planted_violations_are_seen(tmp_path: Path) -> None:
    (tmp_path / "planted.py").write_text(PLANTED)
    assert violations(tmp_path) == [
        "planted.py:3 assert",
        "planted.py:6 catch-all",
        "planted.py:10 catch-all",
        "planted.py:14 catch-all",
    ]


def test_catch_all_is_allowed_where_it_belongs(tmp_path: Path) -> None:
    (tmp_path / "monitor").mkdir()
    for name in ("guard.py", "other.py"):
        (tmp_path / "monitor" / name).write_text("try:\n    pass\nexcept Exception:\n    pass\n")
    for name in ("api.py", "link.py"):
        (tmp_path / "monitor" / name).write_text("try:\n    pass\nexcept Exception:  # - the rank's guard\n    pass\n")
    assert violations(tmp_path) == ["monitor/link.py:3 catch-all", "monitor/other.py:3 catch-all"]


def printed(folder: Path) -> list[str]:
    """`file:line` of whatever puts text on a terminal past the one place that does."""
    return [
        f"{file.relative_to(folder)}:{node.lineno}"
        for file in sorted(folder.rglob("*.py"))
        if file.relative_to(folder).as_posix() != "console.py"
        for node in ast.walk(ast.parse(file.read_text()))
        if (isinstance(node, ast.Name) and node.id == "print")
        or (isinstance(node, ast.Attribute) and ast.unparse(node) in ("sys.stdout", "sys.stderr", "warnings.warn"))
    ]


def test_b47_d09_a_ranks_lines_come_from_one_place(tmp_path: Path) -> None:
    assert printed(Path(monitor.__file__).parent) == []
    (tmp_path / "planted.py").write_text("import sys\nprint(1)\nsys.stderr.write('')\n")
    (tmp_path / "console.py").write_text("print(1)\n")
    assert printed(tmp_path) == ["planted.py:2", "planted.py:3"]
