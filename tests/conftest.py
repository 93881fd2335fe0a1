"""What every layer of the tests shares: a clean environment, a leak check, a scratch folder, a browser."""

import contextlib
import dataclasses
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing import resource_tracker
from pathlib import Path

import hypothesis
import psutil
import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect, sync_playwright

from trackside.wire.estate import session_of
from trackside.wire.spool import LIVE_SUFFIX, SUFFIX, memory_path, private_path
from trackside.wire.sweep import CROWD_SETTLED_S, sweep

ROOT = Path(__file__).resolve().parent.parent
CHROMIUM = Path("/usr/bin/chromium")
LEAK_DEADLINE_S = 15.0
EXPECTED_WITHIN_S = 20.0
"""Of what a page is to show: tests run side by side, and only one that fails waits so long."""
LEAK_TAG = "LEAK_CHECK_TAG"

# What names a rank or a run of ours; a test that wants one of them sets it.
IDENTITY_PREFIXES = ("TRACKSIDE_", "TORCHELASTIC_", "SLURM_", "OMPI_", "PMI_", "PMIX_")
IDENTITY_NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT")

hypothesis.settings.register_profile("here", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "here")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what drives the browser, and run it last.

    Playwright keeps its event loop running in the main thread until the session ends, so nothing that comes after it
    could call `asyncio.run`.
    """
    for item in items:
        if needs_browser(item):
            item.add_marker("browser")
    items.sort(key=needs_browser)


def needs_browser(item: pytest.Item) -> bool:
    return "browser" in getattr(item, "fixturenames", ())


@pytest.fixture(autouse=True, scope="session")
def heed_signals() -> None:
    """A shell that starts us in the background has SIGINT ignored, `nohup` SIGHUP; every process of a test would inherit it."""
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


@pytest.fixture(autouse=True, scope="session")
def swept() -> None:
    """What was killed here long ago is moved out of the way now, and not in the middle of a test, which would be told so."""
    sweep(CROWD_SETTLED_S)


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test inherits a rank's identity or one of our options from the shell that started it."""
    for name in list(os.environ):
        if name in IDENTITY_NAMES or name.startswith(IDENTITY_PREFIXES):
            monkeypatch.delenv(name)


@pytest.fixture
def scratch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder with a short path, the working directory for this test, gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="ts-")).resolve()
    monkeypatch.chdir(folder)
    yield folder
    monkeypatch.undo()
    shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Holdings:
    """What this process holds at one moment: Python threads, file descriptors, processes and files it is answerable for."""

    threads: frozenset[str]
    descriptors: frozenset[str]
    processes: frozenset[str]
    files: frozenset[str] = frozenset()

    def beyond(self, before: "Holdings") -> "Holdings":
        return Holdings(
            threads=self.threads - before.threads,
            descriptors=self.descriptors - before.descriptors,
            processes=self.processes - before.processes,
            files=self.files - before.files,
        )

    def __bool__(self) -> bool:
        return bool(self.threads or self.descriptors or self.processes or self.files)

    def __str__(self) -> str:
        kinds = dataclasses.asdict(self)
        return "; ".join(f"{kind}: {', '.join(sorted(held))}" for kind, held in kinds.items() if held)


@pytest.fixture
def leak_check(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Fail a test that leaves a thread, a file descriptor, a process, or a file of a session behind.

    A process that left the family (a controller is started detached) is found by a tag in the environment that it
    inherited, a file in the machine's memory by the folder in which its process ran. What is left is killed and removed, so
    that one leak fails one test. A test that kills all who could take a session's files in says so with
    `@pytest.mark.leaves_files`. Ask for it with `pytestmark = pytest.mark.usefixtures("leak_check")`.
    """
    tag = uuid.uuid4().hex
    monkeypatch.setenv(LEAK_TAG, tag)
    tmp_path_factory.getbasetemp()  # not in what this test has for its own
    folder = Path(tempfile.mkdtemp(prefix="ts-")).resolve()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    homes = [folder, *(request.getfixturevalue(n) for n in ("tmp_path", "scratch") if n in request.fixturenames)]
    before = holdings(tag, homes)
    yield
    are_files_left = request.node.get_closest_marker("leaves_files") is not None
    leaked = wait_until_released(before, tag, [] if are_files_left else homes)
    for process in living_processes(tag):
        with contextlib.suppress(psutil.NoSuchProcess):
            if describe(process) not in before.processes:  # those of the module's fixtures go on
                process.kill()
    for path in session_files(homes):
        if str(path) not in before.files:
            path.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    if leaked:
        pytest.fail(f"left behind after {LEAK_DEADLINE_S:.0f} s: {leaked}", pytrace=False)


def wait_until_released(before: Holdings, tag: str, homes: list[Path]) -> Holdings:
    deadline = time.monotonic() + LEAK_DEADLINE_S
    while (leaked := holdings(tag, homes).beyond(before)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return leaked


def holdings(tag: str, homes: list[Path]) -> Holdings:
    return Holdings(
        threads=frozenset(f"{thread.name} ({thread.ident})" for thread in threading.enumerate()),
        descriptors=frozenset(open_descriptors()),
        processes=frozenset(describe(process) for process in living_processes(tag)),
        files=frozenset(map(str, session_files(homes))),
    )


def session_files(homes: list[Path]) -> Iterator[Path]:
    """What sessions that ran in these folders have in memory and in the temporary folders there, and sockets there.

    What a session left on purpose and named (`.spool`) is none. The files in the machine's memory are shared with whoever else
    runs on it; a session says in its first frame where it ran.
    """
    of_sessions: dict[str, list[Path]] = {}
    for path in memory_path().glob("trackside-*"):
        of_sessions.setdefault(session_of(path), []).append(path)
    for paths in of_sessions.values():
        needles = [str(home).encode() for home in homes]
        with contextlib.suppress(OSError):
            spools = [path.read_bytes() for path in paths if path.suffix in (SUFFIX, LIVE_SUFFIX)]
            if any(needle in spool for needle in needles for spool in spools):
                yield from paths
    for home in homes:
        for path in home.rglob("*"):
            is_ours = path.parent.name == private_path().name
            is_foreign = path.parent.name.startswith("pymp-")  # of multiprocessing, which a killed parent leaves
            if (is_ours and path.is_file() and path.suffix != SUFFIX) or (path.is_socket() and not is_foreign):
                yield path


def open_descriptors() -> Iterator[str]:
    own = getattr(resource_tracker._resource_tracker, "_fd", None)
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            target = str(descriptor.readlink())
            harmless = target.startswith(("/proc/", "/dev/")) or descriptor.name == str(own)
            if not harmless:
                yield f"{descriptor.name} -> {target}"


def living_processes(tag: str) -> list[psutil.Process]:
    """Every descendant of this process and everything that carries the tag, multiprocessing's own tracker left out."""
    family = {process.pid: process for process in psutil.Process().children(recursive=True)}
    needle = f"{LEAK_TAG}={tag}".encode()
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) in family or int(folder.name) == os.getpid():
            continue
        with contextlib.suppress(OSError, psutil.NoSuchProcess):
            if needle in (folder / "environ").read_bytes():
                family[int(folder.name)] = psutil.Process(int(folder.name))
    return [process for process in family.values() if "multiprocessing.resource_tracker" not in describe(process)]


def describe(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return f"{process.pid} {' '.join(process.cmdline()) or process.name()}"
    return f"{process.pid} (gone)"


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A real Chromium that is allowed no traffic of its own."""
    if not CHROMIUM.exists():
        pytest.fail(f"{CHROMIUM} does not exist; `make setup` installs it or says how", pytrace=False)
    expect.set_options(timeout=1000 * EXPECTED_WITHIN_S)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        yield chromium
        chromium.close()


@dataclass  # neither frozen nor with slots: Playwright sets an attribute on whoever has the handler
class Witness:
    """What went wrong in a page while a test looked at it; a test that provokes something clears it."""

    errors: list[str]
    outside_requests: list[str]

    def watch(self, page: Page) -> None:
        page.on("pageerror", lambda error: self.errors.append(f"exception: {error}"))
        page.on("console", self.note_console)
        page.on("request", self.note_request)

    def note_console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.errors.append(f"console: {message.text}")

    def note_request(self, request: Request) -> None:
        if not request.url.startswith(("http://localhost", "http://127.0.0.1", "file:", "data:", "blob:", "about:")):
            self.outside_requests.append(request.url)


@pytest.fixture
def witness() -> Iterator[Witness]:
    """Fails the test when a page threw, logged an error or asked for something outside."""
    seen = Witness(errors=[], outside_requests=[])
    yield seen
    if seen.errors or seen.outside_requests:
        pytest.fail("\n".join(["the page went wrong:", *seen.errors, *seen.outside_requests]), pytrace=False)


@pytest.fixture
def browsing(browser: Browser, witness: Witness) -> Iterator[BrowserContext]:
    """A fresh browser profile; its pages are watched by `witness`."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    context.on("page", witness.watch)
    yield context
    context.close()


@pytest.fixture
def page(browsing: BrowserContext) -> Page:
    """One blank page in a fresh profile; `page.goto(url)` and look."""
    return browsing.new_page()


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's root folder."""
    return ROOT


@pytest.fixture(scope="session")
def python() -> str:
    """The interpreter to start child processes with: this one."""
    return sys.executable
