"""Two ranks of one job: every value is its rank's own, one process writes, and nobody is ever waited for."""

from __future__ import annotations

import ast
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

import trackside
from tests.process.job import TRACKSIDE, Job, wait_for
from tests.unit.monitor.fake_controller import FakeController
from trackside.wire import messages
from trackside.wire.address import format_address

pytestmark = pytest.mark.usefixtures("leak_check")

COLLECTIVES = (
    "all_gather", "all_gather_into_tensor", "all_gather_object", "all_reduce", "all_to_all", "all_to_all_single", "barrier",
    "broadcast", "broadcast_object_list", "gather", "gather_object", "irecv", "isend", "monitored_barrier", "new_group",
    "recv", "reduce", "reduce_scatter", "reduce_scatter_tensor", "scatter", "scatter_object_list", "send",
)  # fmt: skip


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[list[Job]]:
    started: list[Job] = []
    yield started
    for job in started:
        job.close()


def start(jobs: list[Job], folder: Path, code: str, *command: str, **env: str) -> Job:
    script = folder / "train.py"
    script.write_text(textwrap.dedent(code))
    jobs.append(Job([*(command or (sys.executable,)), str(script)], folder, TMPDIR=str(folder), **env))
    return jobs[-1]


def test_d05_d08_d12_d13_every_ranks_values_are_its_own_and_one_process_writes(tmp_path: Path, jobs: list[Job]) -> None:
    code = """
        import os, time, trackside
        rank = int(os.environ["RANK"])
        mon = trackside.Monitor()
        for step in range(50): mon.log({"loss": 1.0 + 2 * rank}, step=step)
        until = time.monotonic() + 90
        while not os.path.exists("go") and time.monotonic() < until: time.sleep(0.02)
        mon.finish()
    """
    job = start(jobs, tmp_path, code, *TRACKSIDE, "run", "--nproc-per-node", "2", "--port", "0")
    job.url(60)
    series = "api/v1/series?metric=loss&path="
    wait_for(lambda: job.get(series + "root")["total_points"] == 100, 60, "both ranks' points")
    root = job.get(series + "root")
    assert {name: set(root[name]) for name in ("mean", "min", "max")} == {"mean": {2.0}, "min": {1.0}, "max": {3.0}}
    assert root["reduction"] == "mean"
    for entry in job.get("api/v1/ranks"):
        own = job.get(series + entry["path"])
        assert (len(own["x"]), set(own["mean"])) == (50, {1.0 + 2 * entry["rank"]})
    folder = str(job.folder())
    holders = {pid for pid in all_pids() if any(name.startswith(folder) for name in open_files(pid))}
    assert holders == {job.controller_pid()}
    (tmp_path / "go").touch()
    assert job.wait() == 0, job.stderr
    frame = job.points()
    assert frame.groupby(["rank", "series"]).step.nunique().to_dict() == {(0, "loss"): 50, (1, "loss"): 50}
    assert len(frame) == 100


def all_pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def open_files(pid: int) -> Iterator[str]:
    try:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            yield str(descriptor.readlink())
    except OSError:
        return


@pytest.mark.long
def test_d15_monitoring_calls_no_collective(tmp_path: Path, jobs: list[Job]) -> None:
    """Neither in the loop nor at an epoch's end that one rank alone reaches."""
    code = f"""
        import torch, torch.distributed as dist, trackside
        called = []
        def watched(name, function):
            return lambda *args, **kwargs: (called.append(name), function(*args, **kwargs))[1]
        for name in {COLLECTIVES!r}:
            for module in (dist, dist.distributed_c10d):
                setattr(module, name, watched(name, getattr(module, name)))
        dist.init_process_group("gloo")
        called.clear()
        mon = trackside.Monitor(epochs=2)
        model = torch.nn.Linear(2, 1)
        mon.watch(model)
        for epoch in mon.epochs():
            for batch in mon.batches([torch.ones(4, 2)] * (3 + dist.get_rank())): mon.log({{"loss": model(batch).mean()}})
            if dist.get_rank() == 0: mon.log_epoch(epoch, {{"accuracy": 0.5}})
        mon.event("saved"); mon.set_metadata({{"a": 1}}); mon.history()
        assert mon._runtime._link.connected.wait(60)
        mon.finish()
        print("called", called)
        dist.destroy_process_group()
    """
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    job = start(jobs, tmp_path, code, *torchrun)
    assert job.wait(120) == 0, job.stderr
    assert job.stdout == "called []\n" * 2
    wait_for(lambda: not (job.folder() / "journal").exists(), 30, "a clean end of the run")


def test_d15_no_line_of_ours_names_a_collective() -> None:
    found = [
        f"{path.name}:{node.lineno} {node.func.attr}"
        for path in Path(trackside.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in COLLECTIVES
        and ast.unparse(node.func.value).rpartition(".")[2] in ("dist", "distributed", "distributed_c10d", "c10d")
    ]
    assert found == []


def begun(jobs: list[Job], folder: Path, code: str, controller: FakeController, **env: str) -> Job:
    address = format_address(controller.address)
    return start(jobs, folder, code, sys.executable, "-W", "error", TRACKSIDE_CONTROLLER=address, **env)


def ran(jobs: list[Job], folder: Path, code: str, controller: FakeController, **env: str) -> Job:
    job = begun(jobs, folder, code, controller, **env)
    job.wait(60)
    return job


RANK_1 = {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2"}


def test_d01_every_rank_may_call_everything_before_without_and_after_init(tmp_path: Path, jobs: list[Job]) -> None:
    code = """
        import pickle, trackside
        def everything(mon):
            mon.log({"loss": 1.0}); mon.log_epoch(0, {"a": 1}); mon.event("x"); mon.serve(0); mon.watch(None)
            mon.set_metadata({}); mon.set_svg("<svg/>"); mon.set_identity("a", "b"); mon.history(); mon.silent_summary()
            for epoch in mon.epochs(1):
                for batch in mon.batches([1]): pass
            with mon.epoch(3): pass
            mon.finish(); mon.finish()
        trackside.log({"loss": 0.0}); trackside.finish()
        stranger = pickle.loads(pickle.dumps(trackside.Monitor()))
        everything(stranger)
        everything(trackside.init(project="p"))
        trackside.log({"loss": 2.0}); trackside.finish(); trackside.log({"loss": 3.0}); trackside.finish()
        mon = trackside.Monitor(); mon.finish(); everything(mon)
        print("trained")
    """
    with FakeController() as controller:
        job = ran(jobs, tmp_path, code, controller, **RANK_1)
    assert (job.process.returncode, job.stdout) == (0, "trained\n"), job.stderr


@pytest.mark.parametrize(("environ", "lines"), [(RANK_1, 0), ({**RANK_1, "RANK": "0", "LOCAL_RANK": "0"}, 2), ({}, 2)])
def test_b03_d09_the_primary_alone_prints_epochs_and_every_rank_reports_them(
    tmp_path: Path, jobs: list[Job], environ: dict[str, str], lines: int
) -> None:
    code = """
        import trackside
        mon = trackside.Monitor(epochs=2)
        for epoch in mon.epochs(): mon.log({"loss": 0.5})
        mon.finish()
    """
    with FakeController() as controller:
        job = ran(jobs, tmp_path, code, controller, **environ)
        assert [report.epoch for report in controller.of(messages.EpochReport)] == [0, 1]
    assert (job.process.returncode, job.stderr.count("  epoch ")) == (0, lines)
    assert job.stderr.count("training complete") == (1 if lines else 0)


def test_d09_a_warning_of_any_rank_surfaces_with_its_rank_and_once(tmp_path: Path, jobs: list[Job]) -> None:
    code = """
        import trackside
        mon = trackside.Monitor()
        for i in range(5): mon.log({"name": "text", "loss": 1.0})
        mon.finish()
    """
    with FakeController() as controller:
        job = ran(jobs, tmp_path, code, controller, **RANK_1)
        notices = [notice for notice in controller.of(messages.Notice) if "'name'" in notice.text]
    (line,) = job.stderr.splitlines()
    assert line.startswith("  trackside: 'name' was not taken: ")
    assert line.endswith("  [rank 1]")
    assert len(notices) == 1


def test_b04_making_and_polling_a_monitor_asks_cuda_for_nothing_but_whether_it_is_there(
    tmp_path: Path, jobs: list[Job]
) -> None:
    code = """
        import os, sys, time, types
        asked = []
        class Cuda(types.ModuleType):
            def is_initialized(self): return False
            def is_available(self): return True
            def __getattr__(self, name):
                if not name.startswith("__"): asked.append(name)
                raise AttributeError(name)
        torch = types.ModuleType("torch"); torch.cuda = Cuda("torch.cuda"); torch.__version__ = "2"
        sys.modules.update({"torch": torch, "torch.cuda": torch.cuda})
        import trackside
        mon = trackside.Monitor(epochs=2)
        for epoch in mon.epochs():
            for batch in mon.batches([[1.0]] * 3): mon.log({"loss": 1.0})
        while not os.path.exists("sampled"): time.sleep(0.02)
        mon.finish()
        print(asked, sorted(name for name in sys.modules if name.partition(".")[0] == "torch"))
    """
    with FakeController() as controller:
        job = begun(jobs, tmp_path, code, controller)
        wait_for(lambda: controller.of(messages.ResourceSample), 30, "a sample")
        (tmp_path / "sampled").touch()
        job.wait(60)
    assert job.stdout == "[] ['torch', 'torch.cuda']\n", job.stderr


def test_b09_a_fault_in_sending_is_a_debug_line_and_shows_on_the_page(tmp_path: Path, jobs: list[Job]) -> None:
    code = """
        import logging, trackside
        heard = []
        class Keep(logging.Handler):
            def emit(self, record): heard.append(record)
        logging.getLogger("trackside").addHandler(Keep()); logging.getLogger("trackside").setLevel(logging.DEBUG)
        class Evil:
            def __str__(self): raise RuntimeError("no")
            __repr__ = __iter__ = __len__ = __str__
        mon = trackside.Monitor()
        mon.set_svg(Evil()); mon.event(Evil()); mon.set_identity(Evil(), "x"); mon.set_metadata(Evil()); mon.watch(Evil())
        mon.set_svg("<svg>" + "x" * (17 << 20) + "</svg>")
        mon.log({"loss": 1.0})
        assert mon._runtime._link.connected.wait(60)
        mon.finish()
        print({record.levelname for record in heard}, len(heard) > 2)
    """
    with FakeController() as controller:
        job = ran(jobs, tmp_path, code, controller)
        about = [notice.about for notice in controller.of(messages.Notice)]
        assert sum(len(message.value) // 8 for message in controller.of(messages.Points)) == 1
    assert (job.process.returncode, job.stdout, job.stderr) == (0, "{'DEBUG'} True\n", "")
    assert "message not sent" in about
    assert about.count("monitor fault") >= 2


def test_b09_nothing_in_a_rank_logs_above_debug() -> None:
    """Where a program has no handlers, the last resort of `logging` prints warnings of libraries."""
    loud = [
        f"{path.name}:{node.lineno}"
        for path in (Path(trackside.__file__).parent / "monitor").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("warning", "error", "exception", "critical", "info")
        and ast.unparse(node.func.value) in ("logger", "log", "logging", "_logger")
    ]
    assert loud == []
