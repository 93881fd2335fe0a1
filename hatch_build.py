"""Builds the page (`web/`) into `src/trackside/server/static/`, so that a wheel carries it and needs no node to run.

The page is built only when its sources changed since the last build; a hash of them, kept beside the result, says so.
Run as a program (`python hatch_build.py`) it does the same for a working tree; `make setup` does that.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

STATIC = Path("src/trackside/server/static")
SOURCES_STAMP = ".page-sources"
LOCK_STAMP = ".trackside-lock"
NOT_SOURCES = frozenset({"node_modules", "dist", "coverage", ".vite", ".vitest"})


class PageBuildError(RuntimeError):
    """The page could not be built; the message says why and what to do."""


def build_page(root: Path) -> bool:
    """Build the page under `root` when it is missing or older than its sources.

    Returns:
        Whether anything was built.

    Raises:
        PageBuildError: npm is missing, a step of the build failed, or it left no page.

    Blocks:
        Up to a minute or two: `npm ci` downloads, then Vite runs.
    """
    web, static = root / "web", root / STATIC
    if not (web / "package.json").is_file():
        raise PageBuildError(f"No page sources: {web / 'package.json'} does not exist. Check out the whole repository.")
    sources = hash_of_sources(web)
    stamp = static / SOURCES_STAMP
    if (static / "index.html").is_file() and stamp.is_file() and stamp.read_text() == sources:
        return False
    npm = shutil.which("npm")
    if npm is None:
        raise PageBuildError(
            "The page must be built and npm is not on PATH. Install Node.js 20 or newer (it brings npm) and build again, "
            "or install a released wheel of trackside: it has the page inside and needs no node."
        )
    install_packages(npm, web)
    run(npm, ["run", "build"], web)
    if not (static / "index.html").is_file():
        raise PageBuildError(f"`npm run build` ended well but left no {static / 'index.html'}. Check `outDir` in web/.")
    stamp.write_text(sources)
    return True


def install_packages(npm: str, web: Path) -> None:
    """Bring `web/node_modules` in line with the lock file; a no-op when it is already."""
    lock = web / "package-lock.json"
    if not lock.is_file():
        raise PageBuildError(f"{lock} does not exist. Run `npm install` in web/ once and commit the lock file.")
    wanted = hashlib.sha256(lock.read_bytes()).hexdigest()
    stamp = web / "node_modules" / LOCK_STAMP
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    run(npm, ["ci", "--no-audit", "--no-fund", "--loglevel=error"], web)
    stamp.parent.mkdir(exist_ok=True)
    stamp.write_text(wanted)


def hash_of_sources(web: Path) -> str:
    """The SHA-256 over every path and content in `web`, what is installed or built there left out."""
    digest = hashlib.sha256()
    for directory, folders, files in os.walk(web):
        folders[:] = sorted(folder for folder in folders if folder not in NOT_SOURCES)
        for name in sorted(files):
            file = Path(directory, name)
            content = hashlib.sha256(file.read_bytes()).hexdigest()
            digest.update(f"{file.relative_to(web).as_posix()}\0{content}\n".encode())
    return digest.hexdigest()


def run(npm: str, arguments: list[str], web: Path) -> None:
    """Run npm in `web`, quietly; its output is shown when it fails."""
    done = subprocess.run(
        [npm, *arguments],
        cwd=web,
        env=os.environ | {"NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        command = " ".join(["npm", *arguments])
        raise PageBuildError(f"`{command}` in {web} ended with exit code {done.returncode}:\n{done.stdout.strip()}")


class PageBuildHook(BuildHookInterface[Any]):
    """Hatchling's hook: a wheel is not made without a page; an editable install only says that there is none."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the page before hatchling collects files; `version` is `editable` or `standard`."""
        try:
            build_page(Path(self.root))
        except PageBuildError as error:
            if version != "editable":
                raise
            self.app.display_warning(f"Installed without a page: {error}")


def main() -> int:
    """Build the page of this working tree; 0 when it is there afterwards, 1 when it is not."""
    try:
        built = build_page(Path(__file__).resolve().parent)
    except PageBuildError as error:
        print(f"page: {error}", file=sys.stderr)
        return 1
    print("page: built" if built else "page: up to date")
    return 0


if __name__ == "__main__":
    sys.exit(main())
