"""The documents say what is there: nothing real is missing in them, nothing in them is missing in reality."""

import ast
import inspect
import itertools
import json
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

import duckdb
import pytest

import trackside
from trackside.cli import COMMANDS
from trackside.monitor.api import Monitor
from trackside.wire.documents import ResourceRecord

REFERENCE = "docs/reference"

# Upper-case words with underscores in the source that are no environment variables.
NO_VARIABLES = frozenset({"PCI_BUS_ID", "RUN_DIR", "SCHEMA_VERSION", "SC_CLK_TCK", "SC_PAGE_SIZE"})
VARIABLE = re.compile(r"(?:[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|RANK)")

# Files that a run leaves only in some cases, which the run below is none of.
SELDOM = frozenset({"outline/*.bin", "graph.json", "heat.json", "graph.svg", "journal/", "spool/", "job.json", ".lock"})

TRAINING = """
import trackside

with trackside.Monitor(epochs=1, name="documented") as mon:
    for epoch in mon.epochs():
        for step in range(3):
            mon.log({"loss": 1 / (step + 1)})
    mon.event("documented", "an event")
"""


def page(root: Path, name: str) -> str:
    return (root / REFERENCE / f"{name}.md").read_text()


def first_cells(text: str) -> list[str]:
    """What stands in backticks in the first cell of each row of the tables in `text`."""
    return [name for row in re.findall(r"^\| (.*?) \|", text, re.M) for name in re.findall(r"`([^`]+)`", row)]


def section(text: str, heading: str) -> str:
    found = re.search(rf"^(#+) `?{re.escape(heading)}`?$\n(.*?)(?=^#{{1,2}} |\Z)", text, re.M | re.S)
    assert found, f"no section {heading}"
    return found[2]


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_generated_blocks_are_current(root: Path) -> None:
    """Signatures, options, addresses and fields are what the code says now."""
    run(sys.executable, "scripts/reference.py", "--check", cwd=root)


def test_stale_block_is_seen(root: Path, tmp_path: Path) -> None:
    for name in ("scripts", REFERENCE):
        shutil.copytree(root / name, tmp_path / name)
    commands = tmp_path / REFERENCE / "commands.md"
    commands.write_text(commands.read_text().replace("`--hold`", "`--gone`"))
    done = subprocess.run(
        [sys.executable, "scripts/reference.py", "--check"], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 1
    assert "commands.md is stale" in done.stdout


# --- Python -----------------------------------------------------------------------------------------------------------


def test_every_public_name_is_documented(root: Path) -> None:
    text = page(root, "python-api")
    functions = {f"trackside.{name}" for name in trackside.__all__ if inspect.isfunction(getattr(trackside, name))}
    assert set(re.findall(r"^### (trackside\.\w+)$", text, re.M)) == functions
    assert [name for name in trackside.__all__ if not re.search(rf"\b{re.escape(name)}\b", text)] == []


def test_every_method_in_a_document_exists(root: Path) -> None:
    """`mon.…(` in any document or example is a method of Monitor, `trackside.…` a public name."""
    documents = [*(root / "docs").rglob("*.md"), *root.glob("*.md"), *(root / "examples").glob("*.py")]
    assert documents
    missing = {
        f"{file.name}: {found}"
        for file in documents
        for found in re.findall(r"\bmon(?:itor)?\.(\w+)\(", file.read_text())
        if not hasattr(Monitor, found)
    }
    assert missing == set()


# --- commands ---------------------------------------------------------------------------------------------------------


def test_every_command_has_its_section(root: Path) -> None:
    sections = re.findall(r"^## `trackside (\w+)`$", page(root, "commands"), re.M)
    assert sorted(sections) == sorted(COMMANDS)


def test_every_command_in_a_document_exists(root: Path) -> None:
    used = {
        (file.name, word)
        for file in [*(root / "docs").rglob("*.md"), *root.glob("*.md")]
        for word in re.findall(r"(?:^|[`$|] ?|exec |srun )trackside ([a-z]\w*)", file.read_text(), re.M)
    }
    assert used
    assert {(name, word) for name, word in used if word not in COMMANDS} == set()


# --- environment ------------------------------------------------------------------------------------------------------


def variables_in(folder: Path) -> set[str]:
    """Every environment variable that the source names."""
    constants = (
        node.value
        for file in folder.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    return {text for text in constants if VARIABLE.fullmatch(text)} - NO_VARIABLES


def test_every_variable_is_documented_and_real(root: Path) -> None:
    documented = {name for name in re.findall(r"`([^`]+)`", page(root, "environment")) if VARIABLE.fullmatch(name)}
    assert documented - NO_VARIABLES == variables_in(root / "src/trackside")


def test_planted_variable_is_seen(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text('import os\nos.environ.get("TRACKSIDE_PLANTED")\n')
    assert variables_in(tmp_path) == {"TRACKSIDE_PLANTED"}


# --- HTTP -------------------------------------------------------------------------------------------------------------


def routes_of(source: str) -> set[str]:
    """Addresses the application answers, those of the page's own files left out."""
    return {path for path in re.findall(r'Route\("([^"]+)"', source) if "{" not in path}


def test_every_address_is_documented_and_real(root: Path) -> None:
    documented = set(first_cells(section(page(root, "http"), "Addresses")))
    assert documented == routes_of((root / "src/trackside/server/app.py").read_text())


def test_every_stream_event_is_documented(root: Path) -> None:
    types = (root / "web/src/wire/types.gen.ts").read_text()
    events = re.findall(r"^  (\w+): ", types.partition("export interface StreamEvents {")[2], re.M)
    assert events
    assert first_cells(section(page(root, "http"), "Stream")) == events


# --- run folder -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a small real run leaves."""
    base = tmp_path_factory.mktemp("documented")
    (base / "train.py").write_text(TRAINING)
    run(sys.executable, "train.py", cwd=base)
    (folder,) = (base / "runs").iterdir()
    assert wait_until_ended(folder), sorted(path.name for path in folder.iterdir())
    return folder


def wait_until_ended(folder: Path) -> bool:
    """Whether the journal goes within the time a controller takes to end, and what seals the folder is there."""
    deadline = time.monotonic() + 60
    while not (ended := (folder / "sealed.bin").exists() and not (folder / "journal").exists()):
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
    return ended


def entries(folder: Path) -> Iterator[str]:
    for path in folder.iterdir():
        kinds = {file.suffix for file in path.iterdir()} if path.is_dir() else ()
        yield from (f"{path.name}/*{kind}" for kind in kinds) if path.is_dir() else (path.name,)


def test_every_file_of_a_run_is_documented_and_real(root: Path, run_folder: Path) -> None:
    documented = set(first_cells(section(page(root, "run-folder"), "Files")))
    found = set(entries(run_folder))
    assert found <= documented
    # Whether a resource sample came in so short a run is a matter of milliseconds.
    assert documented - SELDOM - {"resources/*.parquet"} <= found


def columns(files: str) -> list[tuple[str, str]]:
    described = duckdb.connect().execute(f"DESCRIBE SELECT * FROM read_parquet('{files}')").fetchall()
    return [(str(row[0]), str(row[1])) for row in described]


def documented_columns(text: str, heading: str) -> list[tuple[str, str]]:
    return re.findall(r"^\| `(\w+)` \| ([A-Z][^|]*?) \|", section(text, heading), re.M)


@pytest.mark.parametrize(("heading", "files"), [("points", "points/*.parquet"), ("epochs", "epochs.parquet")])
def test_columns_are_as_documented(root: Path, run_folder: Path, heading: str, files: str) -> None:
    assert documented_columns(page(root, "run-folder"), heading) == columns(f"{run_folder}/{files}")


def test_columns_of_resources_are_as_documented(root: Path) -> None:
    documented = [name for name, _ in documented_columns(page(root, "run-folder"), "resources")]
    assert documented == list(ResourceRecord.__struct_fields__)


def test_run_document_is_as_documented(root: Path, run_folder: Path) -> None:
    document = json.loads((run_folder / "run.json").read_text())
    http = first_cells(section(page(root, "http"), "Documents").partition("### RunDocument")[2].partition("\n### ")[0])
    own = first_cells(section(page(root, "run-folder"), "run.json"))
    assert sorted(document) == sorted({*http, *own})


# --- dependencies -----------------------------------------------------------------------------------------------------


def dependencies_of(root: Path) -> set[str]:
    """Every distribution and package that is asked for, ours left out."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *itertools.chain(*project["optional-dependencies"].values())]
    names = {re.split(r"[<>=\[~!; ]", text, maxsplit=1)[0] for text in asked} - {project["name"]}
    package = json.loads((root / "web/package.json").read_text())
    return {*names, *package.get("dependencies", {}), *package.get("devDependencies", {})}


def test_every_dependency_has_its_reason(root: Path) -> None:
    cells = re.findall(r"^\| (.*?) \|", (root / "docs/decisions/dependencies.md").read_text(), re.M)
    given = {name.strip() for cell in cells for name in cell.split(",")}
    wanted = dependencies_of(root)
    assert {"duckdb", "uplot", "pytest"} <= wanted
    assert wanted - given == set()


# --- links ------------------------------------------------------------------------------------------------------------


def broken_links(files: Iterable[Path]) -> list[str]:
    """Links to files that do not exist, and to headings that do not."""
    found = []
    for file in files:
        for target in re.findall(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)", file.read_text()):
            name, _, anchor = target.partition("#")
            linked = (file.parent / name).resolve() if name else file
            if "://" in target:
                continue
            if not linked.exists() or (anchor and anchor not in anchors(linked.read_text())):
                found.append(f"{file.name}: {target}")
    return found


def anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_no_link_is_broken(root: Path) -> None:
    assert broken_links([*root.glob("*.md"), *(root / "docs").rglob("*.md")]) == []


def test_planted_broken_links_are_seen(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# Here\n[x](b.md) [y](#here) [z](#there) [w](a.md#here)\n")
    assert broken_links([tmp_path / "a.md"]) == ["a.md: b.md", "a.md: #there"]
