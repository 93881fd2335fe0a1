"""What `import trackside` costs the user's program: a fresh interpreter says what it loaded."""

import json
import os
import subprocess
import sys

import pytest

# Nothing of this belongs into a training process before it is needed.
FORBIDDEN = frozenset(
    {
        "anyio",
        "asyncio",
        "duckdb",
        "http.server",
        "nh3",
        "numpy",
        "pandas",
        "pyarrow",
        "starlette",
        "torch",
        "uvicorn",
        "zmq",
    }
)

BLAS_THREADS = "OPENBLAS_NUM_THREADS"
PROBE = """
import json, sys, time
before = set(sys.modules)
started = time.perf_counter()
{code}
seconds = time.perf_counter() - started
print(json.dumps([sorted(set(sys.modules) - before), seconds]))
"""


def loaded_by(code: str) -> tuple[set[str], float]:
    """The modules that `code` adds to a fresh interpreter, and the seconds it took."""
    done = subprocess.run([sys.executable, "-c", PROBE.format(code=code)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    modules, seconds = json.loads(done.stdout)
    return set(modules), seconds


@pytest.mark.parametrize("code", ["import trackside", "import trackside; trackside.Monitor"])
def test_import_stays_light(code: str, record_property) -> None:
    modules, seconds = loaded_by(code)
    record_property("import_seconds", seconds)
    print(f"{code}: {len(modules)} modules in {seconds * 1000:.1f} ms")
    assert "trackside" in modules
    assert modules & FORBIDDEN == set()


# What loads them is the work of few ranks: one that starts a controller, that leaves files behind, that writes CSV.
NOT_IN_EACH_RANK = frozenset({"csv", "hashlib", "importlib.abc", "locale", "secrets", "subprocess", "tempfile"})


def test_a_rank_begins_without_what_few_ranks_need() -> None:
    modules, _ = loaded_by("import trackside.monitor.api, trackside.monitor.samplers, trackside.monitor.connection")
    assert {"trackside.monitor.runtime", "trackside.monitor.phases.imports", "zmq"} <= modules
    assert modules & NOT_IN_EACH_RANK == set()


CONTROLLER = "import trackside.cli.controller, trackside.controller.beginning, trackside.controller.lifecycle"
# Of a page, a picture, a port that is taken: a run without them does not wait for it.
NOT_AT_START = frozenset(
    {"anyio", "click", "h11", "multiprocessing", "nh3", "pandas", "psutil", "pyarrow", "starlette", "uvicorn"}
)


def test_a_controller_begins_without_what_only_a_page_needs() -> None:
    modules, seconds = loaded_by(CONTROLLER)
    print(f"controller: {len(modules)} modules in {seconds * 1000:.1f} ms")
    assert {"trackside.controller.website", "trackside.store.writer", "trackside.ingest.listener"} <= modules
    assert modules & NOT_AT_START == set()


def test_a_controller_begins_without_threads_for_sums_unless_they_are_asked_for() -> None:
    code = "import os, trackside.cli; trackside.cli.main(['controller', '--help']); print(len(os.listdir('/proc/self/task')))"

    def threads(**environ: str) -> int:
        environ = {**{name: value for name, value in os.environ.items() if name != BLAS_THREADS}, **environ}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environ)
        return int(done.stdout.splitlines()[-1])

    assert threads(**{BLAS_THREADS: "2"}) == threads() + 1


def test_planted_import_of_the_page_is_seen() -> None:
    modules, _ = loaded_by(f"{CONTROLLER}, trackside.server.app, trackside.server.listener")
    assert modules & NOT_AT_START >= {"starlette", "uvicorn"}


def test_every_public_name_resolves() -> None:
    loaded_by("import trackside; [getattr(trackside, name) for name in trackside.__all__]")


@pytest.mark.parametrize("module", ["asyncio", "numpy", "zmq"])
def test_planted_heavy_import_is_seen(module: str) -> None:
    modules, _ = loaded_by(f"import trackside, {module}")
    assert modules & FORBIDDEN >= {module}
