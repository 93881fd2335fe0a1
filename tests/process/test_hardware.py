"""What ranks say of the hardware, in real processes: with a driver of eight GPUs, with one that hangs, without any."""

import json
import re
import subprocess
import sys
import textwrap
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.process.job import TRACKSIDE, Job, clean_environment, wait_for
from tests.process.station import Station
from tests.process.wire_client import ControllerUnderTest
from tests.unit.samplers.nvidia import driver
from trackside.wire import messages

__all__ = ["driver"]

pytestmark = pytest.mark.usefixtures("leak_check")

GB = 1 << 30
UNTIL_GO = """
    import os, time, trackside
    mon = trackside.Monitor({arguments})
    for step in range(100):
        mon.log({{"loss": 1 / (step + 1)}}, step=step)
    open("ready" + os.environ.get("RANK", "0"), "w").close()
    while not os.path.exists("go"):
        time.sleep(0.02)
    mon.finish()
    print("trained", flush=True)
"""


def uuid(index: int) -> str:
    return f"GPU-{index}0a1b2c3-fake"


@pytest.fixture
def launch(scratch: Path) -> Iterator[Callable[..., Job]]:
    jobs: list[Job] = []

    def begin(arguments: str = "", **env: str) -> Job:
        (scratch / "train.py").write_text(textwrap.dedent(UNTIL_GO.format(arguments=arguments)))
        jobs.append(Job([*TRACKSIDE, "run", "--nproc-per-node", "2", "--port", "0", "train.py"], scratch, **env))
        return jobs[-1]

    yield begin
    (scratch / "go").touch()  # what a failed test has left goes as well
    for job in jobs:
        job.close()


def both_ready(folder: Path) -> None:
    wait_for(lambda: len(list(folder.glob("ready*"))) == 2, 90, "both ranks at work")


def latest(job: Job, path: str) -> dict[str, Any]:
    return [record for record in job.get("api/v1/resources?path=root") if record["path"] == path][-1]


def test_b14_b17_ranks_with_a_driver_reach_a_real_controller(
    launch: Callable[..., Job], scratch: Path, driver: Path
) -> None:
    job = launch(LD_LIBRARY_PATH=str(driver), CUDA_VISIBLE_DEVICES=f"{uuid(6)},GPU-2")

    def typical() -> list[dict[str, Any]] | None:
        """Both ranks, each with the mean of a card that is idle at every second look: one look would be 0.8 or 0."""
        found = job.get("api/v1/ranks")
        known = [r for r in found if r["gpu"] and r["cpu"] is not None and 0.2 < (r["gpu"]["util"] or 0) < 0.6]
        return found if len(known) == 2 else None

    ranks = wait_for(typical, 120, "figures of both ranks")
    assert [(r["gpu"]["uuid"], r["gpu"]["memory_used"], r["gpu"]["memory_total"]) for r in ranks] == [
        (uuid(6), 7 * GB, 80 * GB),
        (uuid(2), 3 * GB, 80 * GB),
    ]
    assert {r["gpu"]["util_peak"] for r in ranks} == {0.8}
    (host,) = {r["host"] for r in ranks}

    def marked() -> dict[str, Any] | None:
        record = latest(job, f"root/{host}")
        return record if [g["index"] for g in record["gpus"] if g["ours"]] == [2, 6] else None

    of_host = wait_for(marked, 30, "the host's list with ours marked")
    assert [g["index"] for g in of_host["gpus"]] == list(range(8))
    assert of_host["vram_used"] == 10 * GB
    whole = wait_for(lambda: r if len((r := latest(job, "root"))["gpus"]) == 2 else None, 30, "the whole job")
    assert [(g["index"], g["name"]) for g in whole["gpus"]] == [
        (0, f"{host}:lr=0 gr=0 Fake H100"),
        (1, f"{host}:lr=1 gr=1 Fake H100"),
    ]
    assert (whole["vram_used"], whole["vram_total"]) == (10 * GB, 160 * GB)
    assert whole["memory_total"] == of_host["memory_total"] > 0
    line = job.get("api/v1/run")["hardware"]
    assert re.fullmatch(
        re.escape(host)
        + r": .+ \(\d+ threads, \d+ GB\) \| gr=0 lr=0: Fake H100 \(80 GB\) \| gr=1 lr=1: Fake H100 \(80 GB\)",
        line,
    ), line
    assert of_host["cpu_limit_source"] in ("host", "affinity", "cgroup v1", "cgroup v2")
    (scratch / "go").touch()
    assert job.wait() == 0, job.stderr


@pytest.mark.parametrize(
    "call", ["nvmlInitWithFlags", pytest.param("nvmlDeviceGetUtilizationRates", marks=pytest.mark.long)]
)
def test_b16_d28_a_driver_that_hangs_silences_nothing_else(
    launch: Callable[..., Job], scratch: Path, driver: Path, call: str
) -> None:
    job = launch(LD_LIBRARY_PATH=str(driver), FAKE_NVML_HANG=call)
    both_ready(scratch)
    began = job.get("api/v1/run")["elapsed_seconds"]
    wait_for(lambda: job.get("api/v1/run")["elapsed_seconds"] > began + 3, 30, "some seconds of it")
    ranks = wait_for(
        lambda: (r := job.get("api/v1/ranks")) and all(e["cpu"] is not None and e["memory"] for e in r) and r,
        40,
        "CPU and memory of both ranks",
    )
    assert [(entry["state"], entry["gpu"]) for entry in ranks] == [("alive", None)] * 2
    of_host = wait_for(lambda: latest(job, f"root/{ranks[0]['host']}"), 40, "the host's sample")
    assert (of_host["memory_total"] > 0, of_host["gpus"], of_host["gpu_util"]) == (True, [], None)
    wait_for(lambda: "threads" in (job.get("api/v1/run")["hardware"] or ""), 40, "the CPUs in the header")
    silent = wait_for(
        lambda: [e for e in job.get("api/v1/events") if e["kind"] == "driver silent"], 40, "the word that it is silent"
    )
    assert silent[0]["severity"] == "warn"
    assert job.get("api/v1/series?metric=loss")["total_points"] == 200
    (scratch / "go").touch()
    assert job.wait() == 0, job.stderr
    assert job.stdout.count("trained") == 2
    assert len(job.points()) == 200
    assert job.document()["state"] == "finished"
    assert (job.folder() / "report.html").is_file()


def test_b16_a_driver_that_answers_again_is_heard_again(tmp_path: Path, driver: Path) -> None:
    station, cause = Station(), tmp_path / "hangs"
    cause.touch()
    hanging = {"FAKE_NVML_HANG": "nvmlInitWithFlags", "FAKE_NVML_HANG_WHILE": str(cause)}
    code = UNTIL_GO.format(arguments="")
    process = start(tmp_path, code, LD_LIBRARY_PATH=str(driver), TRACKSIDE_CONTROLLER=station.address, **hanging)

    def gpus() -> list[Any]:
        return [sample.rank.gpu for sample in station.of(messages.ResourceSample) if sample.rank is not None]

    try:
        wait_for(lambda: len(gpus()) >= 2, 60, "samples without the driver")
        assert set(gpus()) == {None}
        assert [hardware.gpu for hardware in station.of(messages.SetHardware)] == [None]
        cause.unlink()
        wait_for(lambda: gpus()[-1] is not None, 60, "a sample with the driver")
        wait_for(lambda: len(station.of(messages.SetHardware)) == 2, 60, "the GPU's name")
    finally:
        (tmp_path / "go").touch()
        _, err = process.communicate(timeout=60)
        station.close()
    assert process.returncode == 0, err
    assert station.of(messages.SetHardware)[1].gpu == "Fake H100 (80 GB)"
    assert [notice.about for notice in station.of(messages.Notice)] == ["driver silent"]


def start(folder: Path, code: str, **env: str) -> subprocess.Popen[str]:
    script = folder / "train.py"
    script.write_text(textwrap.dedent(code))
    return subprocess.Popen(
        [sys.executable, str(script)],
        cwd=folder,
        env=clean_environment(**env),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


COLLECTIVE = """
    import os, pathlib, time, trackside
    import torch.distributed as dist
    mon = trackside.Monitor()
    meeting = "file://" + os.path.abspath("meeting")
    dist.init_process_group("gloo", init_method=meeting, rank=int(os.environ["RANK"]), world_size=2)
    if os.environ["RANK"] == "1":
        while not os.path.exists("go"):
            time.sleep(0.02)
    pathlib.Path("waiting" + os.environ["RANK"]).touch()
    dist.barrier()
    dist.destroy_process_group()
    mon.finish()
"""


def test_b16_samples_flow_every_two_seconds_while_a_rank_waits_in_a_collective(tmp_path: Path) -> None:
    station = Station()
    world = {"WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
    zero = start(tmp_path, COLLECTIVE, **world, RANK="0", LOCAL_RANK="0", TRACKSIDE_CONTROLLER=station.address)
    one = start(tmp_path, COLLECTIVE, **world, RANK="1", LOCAL_RANK="1", TRACKSIDE_DISABLED="1")
    try:
        wait_for((tmp_path / "waiting0").exists, 90, "rank 0 in the collective")
        before = len(station.of(messages.ResourceSample))
        samples = wait_for(lambda: station.of(messages.ResourceSample)[before + 1 :][2:], 60, "samples meanwhile")
        assert not (tmp_path / "waiting1").exists()
        assert station.of(messages.EpochReport) == []
        inside = station.of(messages.ResourceSample)[before + 1 :]
        assert min(sample.interval_seconds for sample in inside) == pytest.approx(2, abs=1), "on a busy machine more"
        assert samples
    finally:
        (tmp_path / "go").touch()
        answers = [process.communicate(timeout=60) for process in (zero, one)]
        station.close()
    assert (zero.returncode, one.returncode) == (0, 0), answers


LATE = """
    import os, time, trackside
    mon = trackside.Monitor()
    while not os.path.exists("told"):
        time.sleep(0.02)
    os.environ.update(RANK="1", WORLD_SIZE="2", LOCAL_RANK="1")
    while not os.path.exists("go"):
        time.sleep(0.02)
    mon.finish()
"""


def test_b14_a_rank_that_is_told_so_late_reports_its_own_device(tmp_path: Path, driver: Path) -> None:
    station = Station()
    process = start(tmp_path, LATE, LD_LIBRARY_PATH=str(driver), TRACKSIDE_CONTROLLER=station.address)

    def devices() -> list[int]:
        samples = [sample.rank for sample in station.of(messages.ResourceSample)]
        return [rank.gpu.index for rank in samples if rank is not None and rank.gpu is not None]

    try:
        wait_for(lambda: devices() and set(devices()) == {0}, 60, "a sample of the single process")
        (tmp_path / "told").touch()
        wait_for(lambda: devices()[-1] == 1, 60, "a sample of rank 1")
    finally:
        (tmp_path / "go").touch()
        _, err = process.communicate(timeout=60)
        station.close()
    assert process.returncode == 0, err


QUIET = """
    import os, threading, time, trackside
    mon = trackside.Monitor({arguments})
    mon.log({{"loss": 1.0}})
    deadline = time.monotonic() + 2.6
    while time.monotonic() < deadline or os.path.exists("unsampled"):
        time.sleep(0.05)
    print(sorted(thread.name for thread in threading.enumerate()))
    print([line.split()[-1] for line in open("/proc/self/maps") if "nvidia-ml" in line])
    mon.finish()
"""


@pytest.mark.parametrize(
    ("arguments", "env", "threads"),
    [
        ("", {"LD_LIBRARY_PATH": ""}, ["MainThread", "trackside-sample", "trackside-send"]),
        ("resources=False", {}, ["MainThread", "trackside-send"]),
        ("", {"TRACKSIDE_DISABLED": "1"}, ["MainThread"]),
    ],
)
def test_b18_sampling_stays_off_where_nobody_wants_it(
    tmp_path: Path, driver: Path, arguments: str, env: dict[str, str], threads: list[str]
) -> None:
    station, calls = Station(), tmp_path / "calls"
    watched = {"LD_LIBRARY_PATH": str(driver), "FAKE_NVML_CALLS": str(calls), "TRACKSIDE_CONTROLLER": station.address}
    is_on = "trackside-sample" in threads
    if is_on:
        (tmp_path / "unsampled").touch()
    process = start(tmp_path, QUIET.format(arguments=arguments), **{**watched, **env})
    try:
        if is_on:
            wait_for(lambda: station.of(messages.ResourceSample), 60, "a sample")
            (tmp_path / "unsampled").unlink()
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out.splitlines()) == (0, [repr(threads), "[]"]), err
        assert not calls.exists(), "the driver was not even loaded"
        seen = (bool(station.of(messages.ResourceSample)), bool(station.of(messages.SetHardware)))
        assert seen == (is_on, is_on), "without a driver two threads do it all, switched off not even that"
        assert [hello.resources for hello in station.hellos()] == {2: [False], 3: [True]}.get(len(threads), [])
    finally:
        station.close()


def test_b18_a_launcher_that_is_disabled_reads_nothing(launch: Callable[..., Job], scratch: Path, driver: Path) -> None:
    calls = scratch / "calls"
    job = launch(TRACKSIDE_DISABLED="1", LD_LIBRARY_PATH=str(driver), FAKE_NVML_CALLS=str(calls))
    both_ready(scratch)
    (scratch / "go").touch()
    assert job.wait() == 0, job.stderr
    assert not calls.exists()
    assert not (scratch / "runs").exists() or not list((scratch / "runs").iterdir())


@pytest.mark.long
def test_b18_ranks_that_want_no_sampling_are_not_sampled_by_their_launcher_either(
    launch: Callable[..., Job], scratch: Path, driver: Path
) -> None:
    calls = scratch / "calls"
    job = launch("resources=False", LD_LIBRARY_PATH=str(driver), FAKE_NVML_CALLS=str(calls))
    both_ready(scratch)
    wait_for(lambda: [r["monitored"] for r in job.get("api/v1/ranks")] == [True, True], 30, "both ranks known")
    seen: dict[str, float] = {"size": -1, "at": 0}

    def quiet() -> bool:
        size = calls.stat().st_size if calls.exists() else 0
        if size != seen["size"]:
            seen.update(size=size, at=time.monotonic())
        return time.monotonic() - seen["at"] > 2.5

    wait_for(quiet, 40, "the driver left alone for longer than an interval")
    shown = job.get("api/v1/ranks")
    assert [(r["gpu"], r["cpu"], r["memory"]) for r in shown] == [(None, None, None)] * 2
    (scratch / "go").touch()
    assert job.wait() == 0, job.stderr


def test_d19_d20_ranks_alone_bring_the_sampling_and_one_of_a_host_samples_it(scratch: Path) -> None:
    """No launcher of ours, no GPU: sampling comes with the ranks, and CPU and memory are there once."""
    controller = ControllerUnderTest(scratch)
    code = textwrap.dedent(UNTIL_GO.format(arguments="")).replace("mon.log(", "mon.serve(0); mon.log(", 1)
    world = {"WORLD_SIZE": "2", "TRACKSIDE_CONTROLLER": controller.said["address"]}
    ranks = [start(scratch, code, **world, RANK=str(n), LOCAL_RANK=str(n)) for n in range(2)]
    lines: list[str] = []
    reader = threading.Thread(target=lines.extend, args=(ranks[0].stderr,), daemon=True)
    reader.start()
    try:
        url = wait_for(lambda: re.search(r"http://\S+?:\d+", "".join(lines)), 60, "the page's URL").group()

        def records() -> list[dict[str, Any]]:
            with urllib.request.urlopen(f"{url}/api/v1/resources?path=root", timeout=10) as answer:
                return json.loads(answer.read())

        wait_for(lambda: sum(r["path"].count("/") == 1 for r in records()) >= 3, 60, "three samples of the host")
        wait_for(lambda: len({r["rank"] for r in records() if r["rank"] is not None}) == 2, 60, "samples of both ranks")
    finally:
        (scratch / "go").touch()
        codes = [process.wait(60) for process in ranks]
        reader.join(10)
        for process in ranks:
            for stream in (process.stdout, process.stderr):
                if stream:
                    stream.close()
        ended = controller.wait(60)
        controller.close()
    assert (codes, ended) == ([0, 0], 0)
    rows = pd.read_parquet(controller.folder / "resources").sort_values("time")
    of_host = rows[rows.path.str.fullmatch("root/[^/]+")]
    span_s = of_host.time.iloc[-1] - of_host.time.iloc[0]
    assert len(of_host) <= span_s / 2 + 2, "one sampler, or there would be twice as many"
    assert of_host.memory_total.nunique() == 1
    assert of_host.cpu.dropna().between(0, 1).all()
    assert of_host.cpu_limit_source.isin(["host", "affinity", "cgroup v1", "cgroup v2"]).all()
    of_ranks = rows[rows["rank"].notna()]
    assert set(of_ranks["rank"]) == {0, 1}
    assert (of_ranks.memory_used > 1 << 20).all()
    assert rows[["gpu_util", "vram_used"]].isna().all(axis=None)
    whole = rows[rows.path == "root"]
    assert whole.memory_total.dropna().isin(of_host.memory_total).all(), "not once a rank"
