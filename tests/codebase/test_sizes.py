"""Files and functions stay small enough to be read."""

import ast
from pathlib import Path

FILE_LINES_MAX = 550
FUNCTION_LINES_MAX = 60


def too_long(folder: Path) -> dict[str, int]:
    """Every source file under `folder` that is over the limit, and every Python function, with its number of lines.

    A generated one is as long as what it is made of, which is counted.
    """
    files = sorted(file for kind in ("*.py", "*.ts", "*.tsx", "*.css") for file in folder.rglob(kind))
    files = [file for file in files if ".gen." not in file.name]
    found: dict[str, int] = {}
    for file in files:
        name, text = str(file.relative_to(folder)), file.read_text()
        if (count := len(text.splitlines())) > FILE_LINES_MAX:
            found[name] = count
        if file.suffix == ".py":
            found.update(long_functions(name, text))
    return found


def long_functions(name: str, text: str) -> dict[str, int]:
    lengths = {
        f"{name}:{node.lineno} {node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    return {where: count for where, count in lengths.items() if count > FUNCTION_LINES_MAX}


def test_no_file_or_function_is_too_long(root: Path) -> None:
    assert list((root / "src").rglob("*.py"))
    assert too_long(root / "src/trackside") == {}
    assert too_long(root / "web/src") == {}


def test_planted_long_file_is_seen(tmp_path: Path) -> None:
    (tmp_path / "short.py").write_text("pass\n" * FILE_LINES_MAX)
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/long.ts").write_text("x\n" * (FILE_LINES_MAX + 1))
    assert too_long(tmp_path) == {"deep/long.ts": FILE_LINES_MAX + 1}


def test_planted_long_function_is_seen(tmp_path: Path) -> None:
    body = "    pass\n"
    (tmp_path / "planted.py").write_text(
        "def fits():\n" + body * (FUNCTION_LINES_MAX - 1) + "async def long():\n" + body * FUNCTION_LINES_MAX
    )
    assert too_long(tmp_path) == {f"planted.py:{FUNCTION_LINES_MAX + 1} long": FUNCTION_LINES_MAX + 1}
