"""The build hook builds the page when it must, leaves it alone when it can, and says what is missing."""

import os
from pathlib import Path

import pytest

from hatch_build import STATIC, PageBuildError, PageBuildHook, build_page

NPM = """#!/bin/sh
echo "$@" >> "$(dirname "$0")/calls"
case "$1" in
    ci) mkdir -p node_modules ;;
    run) test ! -e broken || { echo "page.ts: no such thing"; exit 3; }
         mkdir -p ../src/trackside/server/static && echo "<!doctype html>" > ../src/trackside/server/static/index.html ;;
esac
"""


class Tree:
    """A repository with a page that a pretended npm builds."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.bin = root / "bin"
        for folder in (self.bin, root / "web/src"):
            folder.mkdir(parents=True)
        (self.bin / "npm").write_text(NPM)
        (self.bin / "npm").chmod(0o755)
        for name in ("package.json", "package-lock.json", "src/page.ts"):
            (root / "web" / name).write_text("{}")

    def calls(self) -> list[str]:
        """What npm was asked since the last look: the first word of each call."""
        log = self.bin / "calls"
        asked = [line.split()[0] for line in log.read_text().splitlines()] if log.exists() else []
        log.unlink(missing_ok=True)
        return asked


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    made = Tree(tmp_path)
    monkeypatch.setenv("PATH", f"{made.bin}:{os.environ['PATH']}")
    return made


def test_page_is_built_once(tree: Tree) -> None:
    assert build_page(tree.root) is True
    assert tree.calls() == ["ci", "run"]
    assert build_page(tree.root) is False
    assert tree.calls() == []


def test_changed_source_is_built_again_without_installing(tree: Tree) -> None:
    build_page(tree.root)
    tree.calls()
    (tree.root / "web/src/page.ts").write_text("changed")
    assert build_page(tree.root) is True
    assert tree.calls() == ["run"]


def test_renamed_source_and_lost_page_are_built_again(tree: Tree) -> None:
    build_page(tree.root)
    (tree.root / "web/src/page.ts").rename(tree.root / "web/src/other.ts")
    assert build_page(tree.root) is True
    (tree.root / STATIC / "index.html").unlink()
    assert build_page(tree.root) is True


def test_changed_lock_file_installs_again(tree: Tree) -> None:
    build_page(tree.root)
    tree.calls()
    (tree.root / "web/package-lock.json").write_text("[]")
    build_page(tree.root)
    assert tree.calls() == ["ci", "run"]


def test_what_npm_leaves_is_no_source(tree: Tree) -> None:
    build_page(tree.root)
    (tree.root / "web/node_modules/left.js").write_text("")
    assert build_page(tree.root) is False


def test_missing_npm_is_said_with_what_to_do(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(PageBuildError, match=r"npm is not on PATH\. Install Node\.js .* needs no node"):
        build_page(tree.root)


def test_failed_build_shows_npm_output(tree: Tree) -> None:
    (tree.root / "web/broken").touch()
    with pytest.raises(PageBuildError, match=r"exit code 3:\npage\.ts: no such thing"):
        build_page(tree.root)
    assert not (tree.root / STATIC).exists()


def test_missing_lock_file_is_said(tree: Tree) -> None:
    (tree.root / "web/package-lock.json").unlink()
    with pytest.raises(PageBuildError, match="commit the lock file"):
        build_page(tree.root)


class Application:
    """Stands in for hatchling's own and keeps what it was asked to show."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def display_warning(self, text: str) -> None:
        self.warnings.append(text)


def hook(root: Path, app: Application) -> PageBuildHook:
    return PageBuildHook(str(root), {}, None, None, str(root), "wheel", app)


def test_wheel_is_not_made_without_page(tmp_path: Path) -> None:
    with pytest.raises(PageBuildError, match="No page sources"):
        hook(tmp_path, Application()).initialize("standard", {})


def test_editable_install_goes_on_without_page(tmp_path: Path) -> None:
    app = Application()
    hook(tmp_path, app).initialize("editable", {})
    assert len(app.warnings) == 1
    assert app.warnings[0].startswith("Installed without a page: No page sources")
