"""Files stay small enough to be read."""

from pathlib import Path

LINES_MAX = 550


def too_long(folder: Path) -> dict[str, int]:
    """Every Python or TypeScript file under `folder` that is over the limit, with its number of lines."""
    files = [file for kind in ("*.py", "*.ts", "*.tsx", "*.css") for file in folder.rglob(kind)]
    lines = {str(file.relative_to(folder)): len(file.read_text().splitlines()) for file in files}
    return {file: count for file, count in lines.items() if count > LINES_MAX}


def test_no_file_is_too_long(root: Path) -> None:
    assert list((root / "src").rglob("*.py"))
    assert too_long(root / "src/trackside") == {}
    assert too_long(root / "web/src") == {}


def test_planted_long_file_is_seen(tmp_path: Path) -> None:
    (tmp_path / "short.py").write_text("pass\n" * LINES_MAX)
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/long.py").write_text("pass\n" * (LINES_MAX + 1))
    assert too_long(tmp_path) == {"deep/long.py": LINES_MAX + 1}
