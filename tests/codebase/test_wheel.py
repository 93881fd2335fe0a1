"""The wheel carries the page and needs no node; the sdist can build the page again."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest


def run(*command: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, root)
    (built,) = folder.glob("trackside-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel in it; the dependencies are borrowed from this one, ours is found first."""
    folder = tmp_path_factory.mktemp("installed") / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    run(sys.executable, "-m", "pip", "--python", folder / "bin/python", "install", "-q", "--no-deps", wheel)
    (packages,) = folder.glob("lib/python3.*/site-packages")
    borrowed = next(path for path in sys.path if path.endswith("site-packages"))
    (packages / "borrowed.pth").write_text(borrowed + "\n")
    return folder


def test_wheel_carries_the_page_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "trackside/server/static/index.html" in names
    assert "trackside/_version.py" in names
    tops = {name.split("/")[0] for name in names}
    assert tops == {"trackside", f"{wheel.name.split('-py3')[0]}.dist-info"}
    assert [name for name in names if ".page-sources" in name or "node_modules" in name or "__pycache__" in name] == []


def test_wheel_says_what_it_is(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    info = f"{wheel.name.split('-py3')[0]}.dist-info"
    metadata = archive.read(f"{info}/METADATA").decode()
    assert "License-Expression: Apache-2.0" in metadata
    assert "Requires-Python: >=3.11" in metadata
    assert "trackside = trackside.cli:main" in archive.read(f"{info}/entry_points.txt").decode()
    assert b"Apache License" in archive.read(f"{info}/licenses/LICENSE")


LOOK = """
import shutil, importlib.resources, trackside
assert shutil.which("node") is None and shutil.which("npm") is None
assert importlib.resources.files("trackside").joinpath("server/static/index.html").is_file()
trackside.Monitor
print(trackside.__file__)
"""


def test_installed_wheel_runs_without_node(installed: Path, tmp_path: Path) -> None:
    env = {"PATH": str(installed / "bin"), "HOME": str(tmp_path)}
    where = run(installed / "bin/python", "-c", LOOK, cwd=tmp_path, env=env)
    assert Path(where.strip()).is_relative_to(installed)
    assert "demo" in run(installed / "bin/trackside", "--help", cwd=tmp_path, env=env)


def test_sdist_can_build_the_page(root: Path, tmp_path: Path) -> None:
    run(Path(sys.executable).with_name("hatchling"), "build", "-t", "sdist", "-d", tmp_path, cwd=root)
    (built,) = tmp_path.glob("trackside-*.tar.gz")
    with tarfile.open(built) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames()}
    assert names >= {
        "hatch_build.py",
        "web/package.json",
        "web/package-lock.json",
        "src/trackside/__init__.py",
        "LICENSE",
    }
    assert [
        name for name in names if name.startswith(("web/node_modules", ".venv", "src/trackside/server/static"))
    ] == []
