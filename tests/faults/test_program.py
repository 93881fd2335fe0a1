"""What a program does to itself: it ends, prints and finds its process as it would without us, and its values are there."""

import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.faults.job import report_of
from tests.faults.outcomes import Shown, Tell, show
from tests.faults.page import OpenPage
from tests.faults.pressure import MemoryLimit
from tests.process.job import Job, wait_for

pytestmark = pytest.mark.usefixtures("leak_check")

PRELUDE = """
import os, signal, sys, threading, time
if os.environ.get("BARE"):
    class Nobody:
        def __getattr__(self, name):
            return lambda *arguments, **named: None
    mon = Nobody()
else:
    import trackside
    mon = trackside.Monitor()
    mon.serve(0)
    assert mon._runtime is None or mon._runtime._link.connected.wait(60)
    while not os.path.exists("seen"):  # by a page
        time.sleep(0.01)
def train(count, begin=0):
    weight = 0.5
    for step in range(begin, begin + count):
        weight += (1 - weight) * 0.01
        mon.log({"loss": step}, step=step)
    print("weight", weight.hex(), flush=True)
"""


@dataclass(frozen=True)
class Program:
    """A script behind the prelude, and what its run comes to."""

    code: str
    state: str
    """Of the run."""
    detail: str = ""
    """How `state_detail` ends."""
    logged: Sequence[int] = range(100)
    """Values, in order."""


ENDINGS = {
    "os._exit": Program("train(100); time.sleep(0.4); os._exit(7)", "failed", "exited with code 7"),
    "SystemExit(3)": Program("train(100); raise SystemExit(3)", "failed", "exited with code 3"),
    "SystemExit(text)": Program("train(100); raise SystemExit('enough')", "failed", "exited with code 1"),
    "exception": Program("train(100); raise KeyError('mine')", "failed", "exited with code 1"),
    "KeyboardInterrupt": Program("train(100); raise KeyboardInterrupt", "terminated", "stopped with Ctrl-C (SIGINT)"),
    "SIGTERM": Program(
        "train(100); time.sleep(0.4); os.kill(os.getpid(), signal.SIGTERM)", "terminated", "was killed by SIGTERM"
    ),
    "SIGKILL": Program(
        "train(100); time.sleep(0.4); os.kill(os.getpid(), signal.SIGKILL)", "failed", "was killed by SIGKILL"
    ),
    "exception in a thread": Program(
        "train(100); t = threading.Thread(target=lambda: 1 / 0); t.start(); t.join(); train(100, 100)",
        "finished",
        logged=range(200),
    ),
    "a child that os.fork makes": Program(
        """
        train(100)
        for leave in (os._exit, sys.exit):
            child = os.fork()
            if not child:
                mon.log({"loss": -1}, step=1000); mon.event("child")
                leave(5)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        train(100, 100)
        """,
        "finished",
        logged=range(200),
    ),
    "a thousand values from each of eight threads": Program(
        """
        def one(number):
            for step in range(1000): mon.log({"loss": number}, step=step)
        threads = [threading.Thread(target=one, args=(number,)) for number in range(8)]
        [t.start() for t in threads]; [t.join() for t in threads]
        print("trained")
        """,
        "finished",
        logged=[number for number in range(8) for _ in range(1000)],
    ),
    "log() while the interpreter ends": Program(
        """
        import atexit
        class Late:
            def __del__(self):
                mon.log({"late": 1}); mon.event("late"); mon.finish()
                print("late", flush=True)
        keep = Late(); sys.kept = Late()
        atexit.register(lambda: (mon.log({"late": 2}), mon.set_metadata({"late": 2}), print("atexit", flush=True)))
        threading.Thread(target=lambda: [mon.log({"busy": 1}) or time.sleep(0.001) for _ in iter(int, 1)], daemon=True).start()
        train(100)
        """,
        "finished",
    ),
    "log() after finish()": Program(
        "train(100); mon.finish(); train(100, 100); mon.event('late'); mon.finish()", "finished"
    ),
    "log() before anything": Program(
        """
        if not os.environ.get("BARE"):
            mon.finish()
            trackside.log({"loss": 1.0}); trackside.finish()
        print("trained")
        """,
        "finished",
        logged=(),
    ),
}
QUICK = ("os._exit", "exception", "a child that os.fork makes", "log() while the interpreter ends")


class SeenJob(Job):
    """A script with a page open over it; the script waits for that, unless it is bare."""

    page: OpenPage

    def open_page(self, directory: Path) -> None:
        self.page = OpenPage(f"{self.url()}/")
        (directory / "seen").touch()

    def close(self) -> None:
        if hasattr(self, "page"):
            self.page.close()
        super().close()

    def ended_run(self) -> dict[str, Any]:
        folder = self.folder()
        wait_for(lambda: not (folder / "journal").exists(), 30, "a clean end of the run")
        return self.document()

    def page_ended(self, state: str, detail: str = "") -> Shown:
        """The page was told the end, as the run folder says it."""
        said = self.document()["state_detail"] or ""
        assert said.endswith(detail), said
        return show(said or state, self.page.ending(), (state, said or None))

    def reported(self, state: str) -> Shown:
        """The report says the end as the run folder does, and holds every point of it."""
        report = report_of(self.folder() / "report.html")
        counts = sum(metric["points"] for metric in report["metrics"])
        said = (report["run"]["state"], report["run"]["state_detail"], counts)
        points = len(self.points()) if any((self.folder() / "points").glob("*.parquet")) else 0
        return show(f"{state}, with all points", said, (state, self.document()["state_detail"], points))

    def losses(self) -> list[float]:
        """Values of `loss`, in order."""
        if not any((self.folder() / "points").glob("*.parquet")):
            return []
        frame = self.points()
        return sorted(frame[frame.series == "loss"].value.tolist())


Start = Callable[..., SeenJob]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    jobs: list[SeenJob] = []

    def begin(code: str, prelude: str = PRELUDE, **env: str) -> SeenJob:
        script = tmp_path / "train.py"
        script.write_text(prelude + textwrap.dedent(code))
        jobs.append(SeenJob([sys.executable, "-W", "error", str(script)], tmp_path, TMPDIR=str(tmp_path), **env))
        if "BARE" not in env:
            jobs[-1].open_page(tmp_path)
        return jobs[-1]

    yield begin
    for job in jobs:
        job.close()


def own_errors(text: str) -> list[str]:
    """What the program itself said on stderr; where its lines are and which thread it was differ."""
    lines = [
        line
        for line in text.splitlines()
        if not re.match(r"  (report|epoch|training|trackside|dashboard|page)\b", line)
    ]
    return [re.sub(r"Thread-\d+ |0x[0-9a-f]+", "", line) for line in lines]


@pytest.mark.parametrize(
    "ending", [pytest.param(name, marks=() if name in QUICK else pytest.mark.long) for name in ENDINGS]
)
def test_a_program_ends_as_it_would_without_us(start: Start, tell: Tell, ending: str) -> None:
    program = ENDINGS[ending]
    bare, watched = start(program.code, BARE="1"), start(program.code)
    became = [(job.wait(), job.stdout, own_errors(job.stderr)) for job in (watched, bare)]
    watched.ended_run()
    logged = [float(value) for value in program.logged]
    tell(
        ending,
        training=show(f"exit {watched.process.returncode}, output and errors the same", *became),
        points=show(f"all {len(logged)}" if logged else "none was logged while it could be", watched.losses(), logged),
        page=watched.page_ended(program.state, program.detail),
        report=watched.reported(program.state),
    )


SETTINGS = """
import atexit, faulthandler, gc, locale, logging, os, random, resource, signal, sys, threading, warnings
import numpy, torch
def custom(*arguments): pass
signal.signal(signal.SIGUSR1, custom)
gc.set_threshold(123, 7, 5)
def custom_hook(*told): sys.__excepthook__(*told[:3])
sys.excepthook = threading.excepthook = sys.unraisablehook = custom_hook
os.umask(0o027)
random.seed(1); numpy.random.seed(1); torch.manual_seed(1)
def state():
    return [
        [signal.getsignal(number) for number in sorted(signal.valid_signals()) if number not in (9, 19)],
        signal.pthread_sigmask(signal.SIG_BLOCK, []), signal.set_wakeup_fd(-1),
        gc.get_threshold(), gc.isenabled(), gc.get_freeze_count(), gc.get_debug(), list(gc.callbacks),
        sys.excepthook, threading.excepthook, sys.unraisablehook, sys.gettrace(), sys.getprofile(), sys.displayhook,
        sys.getswitchinterval(), sys.getrecursionlimit(), sys.stdout, sys.stderr, sys.stdin, list(sys.path), sys.argv,
        sorted(os.environ.items()), os.getcwd(), locale.setlocale(locale.LC_ALL), os.nice(0),
        [resource.getrlimit(which) for which in range(16)], os.sched_getaffinity(0),
        logging.root.handlers, logging.root.level, logging.getLogger("trackside").handlers, len(warnings.filters),
        faulthandler.is_enabled(), atexit._ncallbacks() >= 0, [t.name for t in threading.enumerate() if not t.daemon],
        random.getstate(), numpy.random.get_state()[1].tolist(), torch.get_rng_state().tolist(),
        torch.get_num_threads(), torch.get_num_interop_threads(), torch.get_default_dtype(), torch.is_grad_enabled(),
        torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.benchmark, torch.is_anomaly_enabled(),
        torch.get_float32_matmul_precision(), tuple(torch._C._get_cublas_allow_tf32() for _ in [0]),
        numpy.geterr(), numpy.get_printoptions(), os.umask(0o027),
    ]
bare = torch.nn.Linear(4, 1)  # what torch itself does at its first step is not ours
optimizer = torch.optim.SGD(bare.parameters(), lr=0.1)
bare(torch.ones(2, 4)).sum().backward(); optimizer.step()
seeded = torch.get_rng_state()
before = state()
import trackside
mon = trackside.Monitor()
mon.serve(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
rng = torch.get_rng_state()
mon.watch(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
assert mon._runtime._link.connected.wait(60)
while not os.path.exists("seen"):
    threading.Event().wait(0.01)
for epoch in mon.epochs(2):
    for batch in mon.batches([torch.ones(2, 4)] * 3):
        loss = model(batch).sum(); loss.backward(); optimizer.step(); mon.log({"loss": loss})
assert torch.equal(torch.get_rng_state(), rng), "the generator of random numbers was touched"
torch.set_rng_state(seeded)
during = state()
mon.finish()
after = state()
names = [at for at, (a, b, c) in enumerate(zip(before, during, after)) if not a == b == c]
print(names, [before[at] for at in names], [during[at] for at in names], [after[at] for at in names])
print([k for module in model.modules() for k in ("forward", "__call__") if k in vars(module)])
"""


def test_a_programs_process_is_left_as_it_was(start: Start, tell: Tell) -> None:
    """Signal handlers and masks, gc, hooks, streams, environment, limits, logging, warnings, random numbers, torch's switches."""
    job = start(SETTINGS, prelude="")
    assert job.wait() == 0, job.stderr
    job.ended_run()
    tell(
        "the program's own settings (signals, gc, hooks, streams, random numbers, torch)",
        training=show("every one as it was: before, during, after", job.stdout.split("\n")[:2], ["[] [] [] []", "[]"]),
        points=show("all 6", len(job.losses()), 6),
        page=job.page_ended("finished"),
        report=job.reported("finished"),
    )


PREEMPTED = """
saved = []
def save(number, frame):
    train(100, 100)
    print("saving", flush=True)
    time.sleep(60)  # longer than it is given
signal.signal(signal.SIGTERM, save)
train(100)
print("ready", flush=True)
time.sleep(60)
"""


@pytest.mark.long
def test_a_preempted_program_keeps_what_it_logged_before_it_was_killed(start: Start, tell: Tell) -> None:
    """SIGTERM, its own handler saves, and SIGKILL comes five seconds later."""
    outputs = []
    for env in ({"BARE": "1"}, {}):
        job = start(PREEMPTED, **env)
        wait_for(lambda job=job: "ready" in job.stdout, 60, "the next step")
        job.kill(sig=signal.SIGTERM)
        wait_for(lambda job=job: "saving" in job.stdout, 20, "its own handler")
        with pytest.raises(subprocess.TimeoutExpired):
            job.process.wait(5)
        job.kill(sig=signal.SIGKILL)
        outputs.append((job.wait(), job.stdout))
    job.ended_run()
    tell(
        "preemption: SIGTERM, and SIGKILL five seconds later",
        training=(
            show("its own handler ran", "saving" in outputs[1][1], True),
            show("output and end the same", *outputs),
        ),
        points=show("all 200", job.losses(), [float(step) for step in range(200)]),
        page=job.page_ended("failed", "was killed by SIGKILL"),
        report=job.reported("failed"),
    )


OOM = """
train(100); time.sleep(0.4)
print("grows", flush=True)
hoard = []
while True: hoard.append(bytearray(os.urandom(1 << 20)))
"""


@pytest.mark.long
@pytest.mark.skipif(not MemoryLimit.is_possible(), reason="limiting memory needs a writable control group")
def test_a_program_that_the_kernel_kills_for_its_memory(start: Start, tell: Tell) -> None:
    with MemoryLimit(400 << 20) as limit:
        job = start(f"open({str(limit.tasks)!r}, 'w').write(str(os.getpid()))" + OOM)
        killed = job.wait(120), limit.kills()
    job.ended_run()
    tell(
        "the kernel kills it for its memory",
        training=show("killed by the kernel, and nothing else is", killed, (-signal.SIGKILL, 1)),
        points=show("all 100", job.losses(), [float(step) for step in range(100)]),
        page=job.page_ended("failed", "was killed by SIGKILL"),
        report=job.reported("failed"),
    )


WORKERS = """
import gc, torch
from torch.utils.data import DataLoader, Dataset
class Data(Dataset):
    def __len__(self): return 32
    def __getitem__(self, i):
        gc.collect()
        mon.log({"worker": i})
        return torch.ones(3) * i
class Cycle:
    def __init__(self): self.me, self.mon = self, mon
    def __del__(self): self.mon.log({"worker": 0})
cycles = [Cycle() for _ in range(10)]
gc.freeze() if METHOD == "fork" else gc.collect()
if __name__ == "__main__":
    del cycles
    torch.manual_seed(0)
    loader = DataLoader(Data(), 4, num_workers=2, shuffle=True, multiprocessing_context=METHOD)
    total = 0.0
    for epoch in mon.epochs(2) or range(2):
        for step, batch in enumerate(mon.batches(loader) or loader):
            total = total * 0.9 + batch.sum().item()
            mon.log({"loss": total})
    print("weight", total.hex())
"""


@pytest.mark.long
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_of_a_loader_that_collect_garbage(start: Start, tell: Tell, method: str) -> None:
    """Objects that hold the monitor die in the workers, too."""
    code = f"METHOD = {method!r}\n" + WORKERS
    bare, watched = start(code, BARE="1"), start(code)
    became = [(job.wait(240), job.stdout) for job in (watched, bare)]
    assert became[0][0] == 0, watched.stderr
    document = watched.ended_run()
    assert document["ranks"]["finished"] == 1
    frame = watched.points()
    of_workers = frame[
        (frame.series == "worker") & (frame.value > 0)
    ].value.tolist()  # 0 is what the rank's own cycles log
    tell(
        f"loader workers by {method} that collect garbage",
        training=show("same result", *became),
        points=show("all 16 of the rank, none of the workers'", (len(watched.losses()), of_workers), (16, [])),
        page=watched.page_ended("finished"),
        report=watched.reported("finished"),
    )
