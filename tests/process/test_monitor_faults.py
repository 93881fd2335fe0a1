"""What a rank does when the controller freezes, dies or never was, and what the user's own program does to it."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.process.job import clean_environment, wait_for
from tests.unit.monitor.fake_controller import FakeController
from trackside.wire import messages
from trackside.wire.address import format_address
from trackside.wire.columns import unpack
from trackside.wire.spool import read_spool

pytestmark = pytest.mark.usefixtures("leak_check")
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def begin(code: str, controller: FakeController | None = None, **env: str) -> subprocess.Popen[str]:
        script = tmp_path / "train.py"
        script.write_text(textwrap.dedent(code))
        address = {"TRACKSIDE_CONTROLLER": format_address(controller.address)} if controller else {}
        process = subprocess.Popen(
            [sys.executable, "-W", "error", str(script)],
            cwd=tmp_path,
            env=clean_environment(**address, TMPDIR=str(tmp_path), **env),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        with contextlib.suppress(ProcessLookupError):  # workers of a script that did not end, too
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=30)


def ended(process: subprocess.Popen[str], seconds: float = 60) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=seconds)
    return process.returncode, out, err


def values(controller: FakeController, name: str = "loss") -> list[float]:
    """Values of one metric, as the real controller would keep them."""
    names: dict[int, str] = {}
    found: list[float] = []
    for message in controller.taken_once():
        if isinstance(message, messages.Points):
            names |= {definition.id: definition.name for definition in message.defs}
            columns = unpack(message)
            found += [
                float(value)
                for series, value in zip(columns.series, columns.value, strict=True)
                if names[int(series)] == name
            ]
    return found


STEADY = """
    import time, trackside
    mon = trackside.Monitor()
    due = time.monotonic()
    for i in range({count}):
        mon.log({{"loss": i}})
        due += 0.005
        time.sleep(max(0, due - time.monotonic()))
    mon.finish()
    print("trained")
"""

FROZEN = """
import sys
from tests.unit.monitor.fake_controller import FakeController
from trackside.wire.address import format_address
with FakeController() as controller:
    print(format_address(controller.address), flush=True)
    sys.stdin.readline()
    from tests.process.test_monitor_faults import values
    print(values(controller) == [float(i) for i in range(600)], flush=True)
"""


def test_a_controller_that_is_stopped_and_goes_on_has_every_point_once(start: Start) -> None:
    holder = subprocess.Popen([sys.executable, "-c", FROZEN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdin is not None
    assert holder.stdout is not None
    address = holder.stdout.readline().strip()
    process = start(STEADY.format(count=600), TRACKSIDE_CONTROLLER=address)
    try:
        time.sleep(0.5)  # some arrive before
        holder.send_signal(signal.SIGSTOP)
        time.sleep(1.0)
        holder.send_signal(signal.SIGCONT)
        assert ended(process)[:2] == (0, "trained\n")
        out, _ = holder.communicate("\n", timeout=20)
        assert out.strip() == "True"
    finally:
        holder.kill()
        holder.communicate()


def test_a_controller_that_dies_and_comes_back_has_every_point_once(start: Start) -> None:
    durable: dict[bytes, int] = {}
    first = FakeController(durable=durable)
    process = start(STEADY.format(count=400), first)
    wait_for(lambda: len(values(first)) > 50, 20, "some points")
    first.close()
    with FakeController(first.keys, first.port, durable) as second:
        assert ended(process)[:2] == (0, "trained\n")
        kept = [message for message in first.taken_once() if isinstance(message, messages.Points)]
        assert kept
        first.frames += second.frames
        assert values(first) == [float(i) for i in range(400)]


def test_a_controller_that_never_comes_back_leaves_the_rest_in_the_run_folder(start: Start, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    controller = FakeController(directory=str(run))
    process = start(STEADY.format(count=900), controller)
    wait_for(lambda: len(values(controller)) > 20, 20, "some points")
    controller.close()
    code, out, err = ended(process)
    assert (code, out) == (0, "trained\n")
    (spool,) = (run / "spool").glob("*.spool")
    assert str(spool) in err
    assert len(list(read_spool(spool))) > 10


@pytest.mark.parametrize(
    "method", ["spawn", *(pytest.param(m, marks=pytest.mark.long) for m in ("fork", "forkserver"))]
)
def test_b11_d33_ranks_that_multiprocessing_starts_deliver_without_finish(start: Start, method: str) -> None:
    """D33: atexit does not run in a `multiprocessing.Process`."""
    code = f"""
        import multiprocessing, os, sys
        def train(rank):
            os.environ.update(RANK=str(rank), WORLD_SIZE="2", LOCAL_RANK=str(rank))
            import trackside
            mon = trackside.Monitor()
            for i in range(20): mon.log({{"loss": rank}})
            if rank: sys.exit(3)
        if __name__ == "__main__":
            context = multiprocessing.get_context("{method}")
            ranks = [context.Process(target=train, args=(rank,)) for rank in range(2)]
            [rank.start() for rank in ranks]; [rank.join(30) for rank in ranks]
            print([rank.exitcode for rank in ranks])
    """
    with FakeController() as controller:
        code_, out, err = ended(start(code, controller))
        assert (code_, out) == (0, "[0, 3]\n"), err
        found = {hello.identity.rank for hello in controller.of(messages.Hello)}
        assert found == {0, 1}
        assert sum(len(message.value) // 8 for message in controller.of(messages.Points)) == 40
        assert sorted(goodbye.clean for goodbye in controller.of(messages.Goodbye)) == [False, True]


@pytest.mark.parametrize("method", ["fork", "spawn", pytest.param("forkserver", marks=pytest.mark.long)])
def test_b01_d36_d37_workers_of_a_data_loader_are_strangers(start: Start, method: str) -> None:
    """Also one that imports the script again, which makes its `Monitor` again, and one that makes another."""
    code = f"""
        import torch, trackside
        from torch.utils.data import DataLoader, Dataset
        mon = trackside.Monitor()
        class Data(Dataset):
            def __len__(self): return 32
            def __getitem__(self, i):
                mon.log({{"worker": i}})
                trackside.Monitor().log({{"worker": i}})
                return torch.ones(3) * i
        if __name__ == "__main__":
            loader = DataLoader(
                Data(), batch_size=4, num_workers=1, persistent_workers=True, multiprocessing_context="{method}"
            )
            for epoch in mon.epochs(2):
                for batch in mon.batches(loader):
                    mon.log({{"loss": batch.sum()}})
            mon.finish()
    """
    with FakeController() as controller:
        code_, _, err = ended(start(code, controller, RANK="0", LOCAL_RANK="0", WORLD_SIZE="1"), 240)
        assert code_ == 0, err
        assert len(values(controller)) == 16
        assert values(controller, "worker") == []
        assert len({hello.session for hello in controller.of(messages.Hello)}) == 1
        assert [report.samples for report in controller.of(messages.EpochReport)] == [32, 32]


def test_signal_handlers_may_call_everything_at_any_moment(start: Start) -> None:
    code = """
        import os, signal, threading, time, trackside
        mon = trackside.Monitor()
        seen = 0
        def handler(number, frame):
            global seen
            seen += 1
            mon.log({"handled": seen}); mon.set_metadata({"n": seen}); mon.event("signal")
        signal.signal(signal.SIGUSR1, handler)
        signal.signal(signal.SIGTERM, lambda *args: mon.finish())
        def poke():
            for _ in range(500):
                os.kill(os.getpid(), signal.SIGUSR1)
                time.sleep(0.0005)
        poker = threading.Thread(target=poke); poker.start()
        logged = 0
        while poker.is_alive():
            mon.log({"loss": logged}); logged += 1
            time.sleep(0.00002)  # slower than the sender on any machine: what the bound drops is another test
            if logged % 100 == 0: mon.set_metadata({"i": logged})
        os.kill(os.getpid(), signal.SIGTERM)
        mon.finish()
        print(logged, seen)
    """
    with FakeController() as controller:
        code_, out, err = ended(start(code, controller))
        assert code_ == 0, err
        logged, seen = map(int, out.split())
        assert values(controller) == [float(i) for i in range(logged)]
        assert values(controller, "handled") == [float(i + 1) for i in range(seen)]


def test_b06_b07_b10_a_stash_of_all_monitors_arrives_once_in_order_and_what_comes_later_goes_out_live(
    start: Start, tmp_path: Path
) -> None:
    code = """
        import os, time, trackside
        mon = trackside.Monitor(name="run", config={"lr": 0.1})
        other = trackside.Monitor()
        other.set_metadata({"a": 0}); other.serve(7100); other.set_identity("net", "hash"); other.set_svg("<svg>0</svg>")
        mon.set_metadata({"a": 1}); mon.set_svg("<svg/>"); mon.serve(7200)
        while not os.path.exists("arrived"): time.sleep(0.02)
        mon.serve(7201); other.set_metadata({"a": 2})
        other.finish(); mon.finish()
    """
    with FakeController() as controller:
        process = start(code, controller)
        wait_for(lambda: controller.of(messages.SetMetadata) and controller.of(messages.PortWish), 30, "the stash")
        (tmp_path / "arrived").touch()
        code_, _, err = ended(process)
        assert code_ == 0, err
        described = (messages.PortWish, messages.SetGraph, messages.SetMetadata)
        found = [message for message in controller.taken_once() if isinstance(message, described)]
        assert found == [
            messages.PortWish(port=7200),
            messages.SetGraph(svg="<svg/>", label="net", hash="hash"),
            messages.SetMetadata(text='{"a": 1}'),
            messages.PortWish(port=7201),
            messages.SetMetadata(text='{"a": 2}'),
        ]
        (plan,) = controller.of(messages.SetPlan)
        assert (plan.name, plan.config) == ("run", '{"lr": 0.1}')


def test_b24_what_a_rank_runs_on_is_said_before_its_last_word_however_late_it_is_known(start: Start) -> None:
    """A loaded machine lets the sampler begin when a short script is over."""
    code = """
        import time, trackside
        from trackside.monitor import samplers, sampling
        known = samplers.hardware_parts
        samplers.hardware_parts = lambda *arguments: (time.sleep(0.3), known(*arguments))[1]
        mon = trackside.Monitor()
        mon.finish()
    """
    with FakeController() as controller:
        code_, _, err = ended(start(code, controller))
        assert code_ == 0, err
        kinds = [type(message) for message in controller.taken_once()]
        assert kinds.count(messages.SetHardware) == 1
        assert kinds[-1] is messages.Goodbye


def test_b20_the_port_is_the_arguments_then_the_environments(start: Start) -> None:
    code = "import trackside; mon = trackside.Monitor(); mon.serve(); mon.finish()"
    with FakeController() as controller:
        assert ended(start(code, controller, TRACKSIDE_PORT="7300"))[0] == 0
        assert controller.of(messages.PortWish) == [messages.PortWish(port=7300)]
        code_, _, err = ended(start(code, controller, TRACKSIDE_PORT="http"))
        assert (code_, "TRACKSIDE_PORT='http' is no port" in err) == (1, True)


def test_an_exception_inside_the_users_code_is_the_users_and_said_in_the_goodbye(start: Start) -> None:
    code = """
        import trackside
        with trackside.Monitor(epochs=3) as mon:
            for epoch in mon.epochs():
                for batch in mon.batches([1, 2]):
                    mon.log({"loss": 1.0})
                raise KeyError("mine")
    """
    with FakeController() as controller:
        code_, _, err = ended(start(code, controller))
        assert code_ == 1
        assert err.rstrip().endswith("KeyError: 'mine'")
        assert "training complete" not in err
        assert [goodbye.clean for goodbye in controller.of(messages.Goodbye)] == [False]
        assert [report.epoch for report in controller.of(messages.EpochReport)] == [0]


def test_without_finish_the_closing_line_comes_all_the_same(start: Start) -> None:
    code = """
        import trackside
        mon = trackside.Monitor(epochs=1)
        for epoch in mon.epochs(): mon.log({"loss": 0.5})
    """
    with FakeController() as controller:
        _, _, err = ended(start(code, controller))
        assert "  epoch 1/1  loss=0.5000  [" in err
        assert "  training complete in " in err


def test_a_plain_script_starts_its_own_controller_and_names_the_report(start: Start, tmp_path: Path) -> None:
    code = """
        import trackside
        mon = trackside.Monitor(epochs=2, name="plain")
        for epoch in mon.epochs():
            for batch in mon.batches([[1.0] * 4] * 5):
                mon.log({"loss": 1.0 / (1 + epoch)})
        mon.save_html("copy.html")
        mon.finish()
    """
    code_, out, err = ended(start(code))
    assert (code_, out) == (0, ""), err
    (folder,) = (tmp_path / "runs").iterdir()
    wait_for(lambda: not (folder / "journal").exists(), 20, "a clean end")
    assert f"  report     {folder / 'report.html'}" in err
    assert (tmp_path / "copy.html").stat().st_size > 10_000
    document = json.loads((folder / "run.json").read_text())
    assert (document["state"], document["name"], document["epochs"]) == ("finished", "plain", 2)
    import pandas as pd

    assert len(pd.read_parquet(folder / "points")) == 10


def test_nobody_to_be_had_is_one_warning_and_training_goes_on(start: Start, tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file where the folder should be")
    code_, out, err = ended(start(STEADY.format(count=100)))
    assert (code_, out) == (0, "trained\n")
    assert err.count("training goes on without") == 1, err


def test_d32_a_rank_that_is_killed_leaves_no_process_behind_and_its_run_has_failed(
    start: Start, tmp_path: Path
) -> None:
    """D32, D38."""
    process = start("import time, trackside\nmon = trackside.Monitor()\nmon.log({'loss': 1.0})\ntime.sleep(60)")
    document = wait_for(lambda: next(iter(tmp_path.glob("runs/*/run.json")), None), 20, "a run folder")
    wait_for(lambda: json.loads(document.read_text())["rank_entries"], 20, "the rank")
    process.kill()
    wait_for(lambda: not (document.parent / "journal").exists(), 60, "the controller's clean end")
    found = json.loads(document.read_text())
    assert (found["state"], found["ranks"]["failed"]) == ("failed", 1)
    assert (document.parent / "report.html").exists()


def test_b05_a_second_monitor_adds_and_never_overwrites(start: Start) -> None:
    code = """
        import trackside
        first = trackside.Monitor(epochs=3, name="first", config={"lr": 0.1})
        second = trackside.Monitor(epochs=9, steps=100, name="second", config={"lr": 0.9, "seed": 1})
        third = trackside.Monitor()
        third.finish(); second.finish(); first.finish()
    """
    with FakeController() as controller:
        assert ended(start(code, controller))[0] == 0
        first, last = controller.of(messages.SetPlan)
        assert first == messages.SetPlan(epochs=3, name="first", config='{"lr": 0.1}')
        assert (last.epochs, last.steps, last.name) == (3, 100, "first")
        assert json.loads(last.config) == {"lr": 0.1, "seed": 1}


def test_a_process_may_have_one_run_after_the_other(start: Start, tmp_path: Path) -> None:
    code = """
        import trackside
        for run in range(2):
            trackside.init(project=f"p{run}")
            trackside.log({"loss": float(run)})
            trackside.finish()
    """
    code_, _, err = ended(start(code, TRACKSIDE_PORT="0"))
    assert code_ == 0, err
    wait_for(lambda: len(list(tmp_path.glob("runs/*/report.html"))) == 2, 30, "two reports")
    wait_for(lambda: not list(tmp_path.glob("runs/*/journal")), 30, "two clean ends")
    assert err.count("  report     ") == 2
    names = {json.loads(path.read_text())["name"] for path in tmp_path.glob("runs/*/run.json")}
    assert names == {"p0", "p1"}


@pytest.mark.parametrize(
    ("thread", "refused"),
    [
        ("trackside", "raise RuntimeError('can\\'t start new thread')"),  # a container that may have no more processes
        ("trackside-send", "raise RuntimeError('can\\'t start new thread')"),  # and had room for the first of ours
        ("trackside", "raise OSError(24, 'Too many open files')"),
    ],
)
def test_a_session_that_cannot_begin_costs_one_line(start: Start, thread: str, refused: str) -> None:
    process = start(f"""
        import threading, time
        really = threading.Thread.start
        def start(thread):
            if thread.name.startswith("{thread}"):
                {refused}
            really(thread)
        threading.Thread.start = start
        import trackside
        from trackside.monitor import ring
        paths, turn = [], ring.Ring.turn
        ring.Ring.turn = lambda self, *told: (turn(self, *told), paths.append(self._path))[0]
        mon = trackside.Monitor(epochs=1)
        for epoch in mon.epochs():
            for batch in mon.batches([1, 2]):
                mon.log({{"loss": batch}})
        mon.finish()
        until = time.monotonic() + 20
        while threading.active_count() > 1 and time.monotonic() < until: time.sleep(0.01)
        print("trained", [path.exists() for path in paths if path], threading.active_count())
    """)
    code, out, err = ended(process)
    assert (code, out) == (0, f"trained {[False] * (thread == 'trackside-send')} 1\n")
    (line,) = [line for line in err.splitlines() if line.startswith("trackside")]
    assert line.startswith("trackside: this process is not watched: ")
    assert "Traceback" not in err
