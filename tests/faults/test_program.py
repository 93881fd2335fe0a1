"""What a program does to itself: it ends, prints and finds its process as it would without us, and its values are there."""

import json
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.faults.outcomes import Tell
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
    assert mon._runtime is None or mon._runtime._link.connected.wait(60)
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
    values: int = 100


ENDINGS = {
    "os._exit": Program("train(100); time.sleep(0.4); os._exit(7)", "failed", "exited with code 7"),
    "SystemExit(3)": Program("train(100); raise SystemExit(3)", "failed", "exited with code 3"),
    "SystemExit(text)": Program("train(100); raise SystemExit('enough')", "failed", "exited with code 1"),
    "exception": Program("train(100); raise KeyError('mine')", "failed", "exited with code 1"),
    "KeyboardInterrupt": Program("train(100); raise KeyboardInterrupt", "terminated", "was killed by SIGINT"),
    "SIGTERM": Program(
        "train(100); time.sleep(0.4); os.kill(os.getpid(), signal.SIGTERM)", "terminated", "was killed by SIGTERM"
    ),
    "SIGKILL": Program(
        "train(100); time.sleep(0.4); os.kill(os.getpid(), signal.SIGKILL)", "failed", "was killed by SIGKILL"
    ),
    "exception in a thread": Program(
        "train(100); t = threading.Thread(target=lambda: 1 / 0); t.start(); t.join(); train(100, 100)",
        "finished",
        values=200,
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
        values=200,
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
        values=8000,
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
        values=0,
    ),
}
QUICK = ("os._exit", "exception", "a child that os.fork makes", "log() while the interpreter ends")

Start = Callable[..., Job]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    jobs: list[Job] = []

    def begin(code: str, prelude: str = PRELUDE, **env: str) -> Job:
        script = tmp_path / "train.py"
        script.write_text(prelude + textwrap.dedent(code))
        jobs.append(Job([sys.executable, "-W", "error", str(script)], tmp_path, TMPDIR=str(tmp_path), **env))
        return jobs[-1]

    yield begin
    for job in jobs:
        job.close()


def ended_run(job: Job) -> dict[str, Any]:
    folder = job.folder()
    wait_for(lambda: not (folder / "journal").exists(), 30, "a clean end of the run")
    return job.document()


def reported(job: Job) -> dict[str, Any]:
    text = (job.folder() / "report.html").read_text()
    begin = text.index(">", text.index('id="trackside-data"')) + 1
    return json.loads(text[begin : text.index("</script>", begin)])["run"]


def own_errors(text: str) -> list[str]:
    """What the program itself said on stderr; where its lines are and which thread it was differ."""
    lines = [line for line in text.splitlines() if not re.match(r"  (report|epoch|training|trackside)\b", line)]
    return [re.sub(r"Thread-\d+ |0x[0-9a-f]+", "", line) for line in lines]


@pytest.mark.parametrize(
    "ending", [pytest.param(name, marks=() if name in QUICK else pytest.mark.long) for name in ENDINGS]
)
def test_a_program_ends_as_it_would_without_us(start: Start, tell: Tell, ending: str) -> None:
    program = ENDINGS[ending]
    bare, watched = start(program.code, BARE="1"), start(program.code)
    assert (watched.wait(), watched.stdout) == (bare.wait(), bare.stdout), watched.stderr
    assert own_errors(watched.stderr) == own_errors(bare.stderr)
    document = ended_run(watched)
    detail = document["state_detail"] or ""
    assert (document["state"], detail.endswith(program.detail)) == (program.state, True), detail
    assert {key: reported(watched)[key] for key in ("state", "state_detail")} == {
        key: document[key] for key in ("state", "state_detail")
    }
    frame = watched.points()
    values = frame[frame.series == "loss"].value
    assert (len(values), values.min() if len(values) else 0) == (program.values, 0)
    tell(
        ending,
        training=f"exit {watched.process.returncode}, output and errors the same",
        points=f"all {len(values)}" if program.values else "none: no run was begun for them",
        page=detail or document["state"],
        report=document["state"],
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
    assert job.stdout.startswith("[] [] [] []\n[]\n"), job.stdout[:3000]
    document = ended_run(job)
    tell(
        "the program's own settings (signals, gc, hooks, streams, random numbers, torch)",
        training="every one as it was: before, during, after",
        points="all",
        page=document["state"],
        report=reported(job)["state"],
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
    assert outputs[0] == outputs[1]
    document = ended_run(job)
    assert document["state_detail"].endswith("was killed by SIGKILL")
    assert sorted(job.points().value) == [float(step) for step in range(200)]
    tell(
        "preemption: SIGTERM, and SIGKILL five seconds later",
        training="its own handler ran, output and end the same",
        points="all 200",
        page=document["state_detail"],
        report=reported(job)["state"],
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
        assert job.wait(120) == -signal.SIGKILL
        assert limit.kills() > 0
    document = ended_run(job)
    assert document["state_detail"].endswith("was killed by SIGKILL")
    frame = job.points()
    assert len(frame[frame.series == "loss"]) == 100
    tell(
        "the kernel kills it for its memory",
        training="killed as without us; the controller is not",
        points="all 100",
        page=document["state_detail"],
        report=reported(job)["state"],
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
    assert (watched.wait(240), watched.stdout) == (bare.wait(240), bare.stdout), watched.stderr
    assert watched.process.returncode == 0
    document = ended_run(watched)
    frame = watched.points()
    assert (len(frame[frame.series == "loss"]), document["ranks"]["finished"]) == (16, 1)
    tell(
        f"loader workers by {method} that collect garbage",
        training="same result",
        points="all 16 of the rank, none of the workers'",
        page=document["state"],
        report=reported(watched)["state"],
    )
