"""The rank's side in real processes, against the real listener."""

import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.job import clean_environment, wait_for
from tests.process.station import Station
from trackside.wire import messages
from trackside.wire.spool import read_spool


@pytest.fixture
def station() -> Iterator[Station]:
    made = Station()
    yield made
    made.close()


def start(code: str, folder: Path, station: Station | None, **env: str) -> subprocess.Popen[str]:
    script = folder / "train.py"
    script.write_text(textwrap.dedent(code))
    address = {"TRACKSIDE_CONTROLLER": station.address} if station else {}
    return subprocess.Popen(
        [sys.executable, str(script)],
        cwd=folder,
        env=clean_environment(**address, TMPDIR=str(folder), **env),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str], seconds: float = 60) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=seconds)
    return process.returncode, out, err


def losses(station: Station) -> list[int]:
    return [step for name, _, step, _ in station.points() if name == "loss"]


def test_everything_logged_arrives_once_and_in_order(station: Station, tmp_path: Path) -> None:
    code = """
        import trackside
        mon = trackside.Monitor(epochs=2, config={"lr": 0.1})
        for epoch in mon.epochs():
            for batch in mon.batches([[1.0] * 4] * 5):
                mon.log({"loss": 1.0 / (1 + epoch), "lr": 0.1})
            mon.log_epoch(epoch, {"val_acc": 0.5 + epoch / 10})
        mon.event("saved", "model.pt")
        mon.finish()
    """
    code_, out, err = finish(start(code, tmp_path, station))
    assert (code_, out) == (0, "")
    assert losses(station) == list(range(10))
    first, second = station.of(messages.EpochReport)
    assert first.metrics == {"loss": 1.0, "lr": pytest.approx(0.1), "val_acc": 0.5}
    assert (second.epoch, second.batches, second.samples) == (1, 5, 20)
    assert station.of(messages.UserEvent)[0].title == "saved"
    assert station.of(messages.SetPlan)[0].epochs == 2
    assert [goodbye.clean for goodbye in station.of(messages.Goodbye)] == [True]
    assert "  epoch 1/2  loss=1.0000  lr=0.1000  val_acc=0.5000  [" in err
    assert "  training complete in " in err


@pytest.mark.parametrize(
    ("ending", "code", "clean"),
    [
        ("", 0, True),
        ("import sys; sys.exit(3)", 3, True),
        ("raise ValueError('boom')", 1, False),
        ("import os, signal; os.kill(os.getpid(), signal.SIGINT)", -signal.SIGINT, False),
    ],
)
def test_b11_without_finish_what_was_logged_still_arrives_and_the_end_is_the_scripts_own(
    station: Station, tmp_path: Path, ending: str, code: int, clean: bool
) -> None:
    script = "import trackside\nmon = trackside.Monitor()\nfor i in range(50): mon.log({'loss': i})\n" + ending
    assert finish(start(script, tmp_path, station))[0] == code
    assert losses(station) == list(range(50))
    assert [goodbye.clean for goodbye in station.of(messages.Goodbye)] == [clean]


def test_a_controller_that_comes_back_gets_every_point(tmp_path: Path) -> None:
    first = Station(acks=False)
    code = """
        import sys, time, trackside
        mon = trackside.Monitor()
        for i in range(200):
            mon.log({"loss": i})
            time.sleep(0.01)
        print("done", flush=True)
        mon.finish()
    """
    process = start(code, tmp_path, first)
    wait_for(lambda: len(losses(first)) > 20, 15, "some points")
    first.close()
    second = Station(first.keys, first.port)
    assert finish(process)[0] == 0
    assert losses(second) == list(range(200))
    assert len(second.hellos()) >= 1
    second.close()


def test_what_nobody_takes_is_left_in_a_named_file(tmp_path: Path) -> None:
    station = Station(acks=False)
    code = """
        import trackside
        mon = trackside.Monitor()
        for i in range(100): mon.log({"loss": i})
        mon.finish()
    """
    process = start(code, tmp_path, station)
    returned, _, err = finish(process)
    assert returned == 0
    (spool,) = tmp_path.rglob("*.spool")
    assert str(spool) in err
    kinds = [messages_of(frame) for frame in read_spool(spool)]
    assert (kinds[0], kinds[-1], kinds.count("points") > 0) == ("hello", "goodbye", True)
    station.close()


def messages_of(frame: bytes) -> str:
    from trackside.wire.codec import open_envelope

    return open_envelope(frame).kind


def test_d30_d31_d34_a_frozen_controller_never_delays_a_call_or_the_end(tmp_path: Path) -> None:
    """Nobody answers at all: the address is right, the process behind it is stopped."""
    code = """
        import time, trackside
        mon = trackside.Monitor()
        worst = 0.0
        for i in range(2000):
            began = time.perf_counter()
            mon.log({"loss": i})
            worst = max(worst, time.perf_counter() - began)
            time.sleep(0.0005)
        began = time.perf_counter()
        mon.finish()
        print(worst, time.perf_counter() - began)
    """
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from tests.process.station import Station; s = Station(); print(s.address, flush=True); input()",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    address = holder.stdout.readline().strip()  # type: ignore[union-attr]
    holder.send_signal(signal.SIGSTOP)
    try:
        returned, out, _ = finish(start(code, tmp_path, None, TRACKSIDE_CONTROLLER=address))
    finally:
        holder.send_signal(signal.SIGCONT)
        holder.communicate("\n", timeout=10)
    worst, ending = map(float, out.split())
    assert returned == 0
    assert worst < 2, "nobody answers, so a call that waited would wait for good"
    assert ending < 3 * 6.5


def test_b01_a_disabled_monitor_does_everything_and_nothing(station: Station, tmp_path: Path) -> None:
    code = """
        import threading, trackside
        mon = trackside.Monitor(epochs=2)
        mon.serve(7117); mon.set_metadata({"a": 1}); mon.set_svg("<svg/>"); mon.event("x"); mon.watch(None)
        for epoch in mon.epochs():
            for batch in mon.batches([1, 2, 3]): mon.log({"loss": 1})
            mon.log_epoch(epoch, {"a": 1})
        mon.export_csv("a.csv"); mon.write_log("a.log"); mon.save_html("a.html"); mon.history(); mon.finish(); mon.finish()
        print(sorted(t.name for t in threading.enumerate()))
    """
    returned, out, err = finish(start(code, tmp_path, station, TRACKSIDE_DISABLED="1"))
    assert (returned, out, err) == (0, "['MainThread']\n", "")
    assert station.hellos() == []


def test_b05_any_number_of_monitors_share_one_link(station: Station, tmp_path: Path) -> None:
    code = """
        import threading, trackside
        first, second = trackside.Monitor(), trackside.Monitor()
        first.log({"loss": 1.0}); second.log({"acc": 2.0})
        second.finish(); first.log({"loss": 2.0}); first.finish()
        print(len([t for t in threading.enumerate() if t.name == "trackside-send"]))
    """
    returned, out, _ = finish(start(code, tmp_path, station))
    assert (returned, out.strip()) == (0, "0")
    assert [(name, value) for name, _, _, value in station.points()] == [("loss", 1.0), ("acc", 2.0), ("loss", 2.0)]
    assert len({hello.session for hello in station.hellos()}) == 1


def test_forked_and_spawned_children_are_strangers(station: Station, tmp_path: Path) -> None:
    code = """
        import multiprocessing, os, trackside
        mon = trackside.Monitor()
        def child():
            for i in range(100): mon.log({"child": i})
            mon.finish()
        if __name__ == "__main__":
            mon.log({"loss": 1.0})
            for method in ("fork", "spawn", "forkserver"):
                process = multiprocessing.get_context(method).Process(target=child)
                process.start(); process.join(20)
                assert process.exitcode == 0, (method, process.exitcode)
            pid = os.fork()
            if pid == 0:
                mon.log({"child": 1}); os._exit(0)
            os.waitpid(pid, 0)
            mon.log({"loss": 2.0}); mon.finish()
    """
    returned, _, err = finish(start(code, tmp_path, station), 60)
    assert returned == 0, err
    assert [(name, value) for name, _, _, value in station.points()] == [("loss", 1.0), ("loss", 2.0)]
    assert len({hello.session for hello in station.hellos()}) == 1


def test_values_of_every_kind_and_one_warning_for_what_is_none(station: Station, tmp_path: Path) -> None:
    code = """
        import decimal, fractions, numpy, trackside
        mon = trackside.Monitor()
        for i in range(3):
            mon.log({"int": 3, "bool": True, "np32": numpy.float32(0.5), "np0d": numpy.array(2.0), "dec": decimal.Decimal("1.5"),
                     "frac": fractions.Fraction(1, 4), "big": 10**30, "nan": float("nan"), "text": "7", "none": None,
                     "list": [1], "vector": numpy.zeros(3)}, step=i)
        mon.log({"": 1.0, 5: 2.0}, step=9)
        mon.log({"x": 10**400}, step=9); mon.log("loss"); mon.log({"x": 1}, step="later"); mon.log(None)
        mon.log({"a/b c's <b>🦊</b>" + "y" * 10_000: 1.0}, step=10)
        mon.finish()
    """
    returned, out, err = finish(start(code, tmp_path, station))
    assert (returned, out) == (0, "")
    values = {name: value for name, _, _, value in station.points()}
    assert {k: values[k] for k in ("int", "bool", "np32", "np0d", "dec", "frac", "big")} == {
        "int": 3.0, "bool": 1.0, "np32": 0.5, "np0d": 2.0, "dec": 1.5, "frac": 0.25, "big": 1e30,
    }  # fmt: skip
    assert values["nan"] != values["nan"]
    assert (values["unnamed"], values["5"]) == (1.0, 2.0)
    assert any(name.startswith("a/b c's <b>🦊</b>") and len(name) > 10_000 for name in values)
    for refused in ("text", "none", "list", "vector"):
        assert refused not in values
        assert err.count(f"'{refused}'") == 1
    assert err.count("log() was not taken") == 1


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ("epochs=0", "UsageError", "epochs=0"),
        ("epochs='ten'", "ArgumentTypeError", "'ten'"),
        ("steps=-1", "UsageError", "steps=-1"),
        ("name=3", "ArgumentTypeError", "name"),
        ("config=[1]", "ArgumentTypeError", "config"),
    ],
)
def test_wrong_arguments_raise_before_training(tmp_path: Path, arguments: str, error: str, words: str) -> None:
    returned, _, err = finish(start(f"import trackside; trackside.Monitor({arguments})", tmp_path, None))
    assert returned == 1
    assert error in err
    assert words in err.splitlines()[-1]


def test_b02_a_contradictory_environment_is_an_error_that_names_the_variables(tmp_path: Path) -> None:
    code = "import trackside; trackside.Monitor()"
    returned, _, err = finish(start(code, tmp_path, None, RANK="4", WORLD_SIZE="2", LOCAL_RANK="0"))
    assert returned == 1
    assert "RANK=4 and WORLD_SIZE=2 contradict each other" in err
    returned, _, err = finish(start(code, tmp_path, None, TRACKSIDE_CONTROLLER="tcp://old:1"))
    assert returned == 1
    assert "TRACKSIDE_CONTROLLER" in err


def test_another_runs_address_is_refused_in_words_and_training_goes_on(station: Station, tmp_path: Path) -> None:
    import msgspec

    from trackside.wire.address import format_address, parse_address

    other = format_address(msgspec.structs.replace(parse_address(station.address), run="another"))
    code = "import time, trackside\nmon = trackside.Monitor()\nmon.log({'a': 1})\ntime.sleep(0.5)\nmon.finish()\nprint('trained')"
    returned, out, err = finish(start(code, tmp_path, None, TRACKSIDE_CONTROLLER=other))
    assert (returned, out) == (0, "trained\n")
    assert "names run another" in err


def test_log_from_many_threads_and_after_finish_and_at_interpreter_end(station: Station, tmp_path: Path) -> None:
    code = """
        import atexit, threading, trackside
        mon = trackside.Monitor()
        atexit.register(lambda: mon.log({"late": 1}))
        def work(n):
            for i in range(2000): mon.log({"loss": n}, step=i)
        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        [t.start() for t in threads]; [t.join() for t in threads]
        mon.finish(); mon.log({"after": 1}); mon.event("after"); trackside.log({"x": 1}); trackside.finish()
    """
    returned, _, err = finish(start(code, tmp_path, station))
    assert (returned, "Traceback" in err) == (0, False)
    counted = [value for name, _, _, value in station.points() if name == "loss"]
    assert {value: counted.count(value) for value in set(counted)} == dict.fromkeys(map(float, range(8)), 2000)


def test_b04_a_monitor_never_imports_torch_or_numpy(station: Station, tmp_path: Path) -> None:
    code = """
        import os, sys, time, trackside
        mon = trackside.Monitor(); mon.log({"a": 1.0})
        while not os.path.exists("sampled"): time.sleep(0.02)
        mon.finish()
        print([m for m in ("torch", "numpy", "asyncio", "duckdb", "starlette", "uvicorn") if m in sys.modules])
    """
    process = start(code, tmp_path, station)
    wait_for(lambda: station.of(messages.ResourceSample), 30, "a sample")
    (tmp_path / "sampled").touch()
    returned, out, err = finish(process)
    assert (returned, out) == (0, "[]\n"), err
    assert station.of(messages.SetHardware)
    assert station.of(messages.ResourceSample)[0].rank.memory > 1_000_000


@pytest.mark.leaves_files
def test_a_killed_rank_has_lost_next_to_nothing(station: Station, tmp_path: Path) -> None:
    code = """
        import os, signal, time, trackside
        mon = trackside.Monitor()
        due = time.perf_counter()
        for i in range(1500):
            mon.log({"loss": i})
            due += 0.001
            time.sleep(max(0, due - time.perf_counter()))
        os.kill(os.getpid(), signal.SIGKILL)
    """
    assert finish(start(code, tmp_path, station))[0] == -signal.SIGKILL
    wait_for(lambda: len(losses(station)) >= 1400, 10, "the points")
    assert losses(station) == list(range(len(losses(station))))


def test_pickled_and_interactive_uses(station: Station, tmp_path: Path) -> None:
    code = """
        import copy, pickle, trackside
        with trackside.Monitor(name="x") as mon:
            pickle.loads(pickle.dumps(mon)).log({"stranger": 1})
            mon.log({"loss": 1.0})
        run = trackside.init(project="p", config={"a": 1}); trackside.log({"loss": 2.0}); trackside.finish()
    """
    returned, _, err = finish(start(code, tmp_path, station))
    assert returned == 0, err
    assert [(name, value) for name, _, _, value in station.points()] == [("loss", 1.0), ("loss", 2.0)]


def test_a_name_that_utf8_cannot_hold_costs_no_epoch(station: Station, tmp_path: Path) -> None:
    code = """
        import trackside
        mon = trackside.Monitor(epochs=1)
        for epoch in mon.epochs():
            mon.log({"loss": 1.0, "l\\ud800": 2.0})
            mon.log_epoch(epoch, {"acc\\ud800": 0.5})
        mon.finish()
    """
    returned, _, err = finish(start(code, tmp_path, station))
    assert (returned, "was not sent" in err) == (0, False)
    assert station.of(messages.EpochReport)[0].metrics == {"loss": 1.0, "l?": 2.0, "acc?": 0.5}
    assert {name for name, *_ in station.points()} == {"loss", "l?", "acc?"}
