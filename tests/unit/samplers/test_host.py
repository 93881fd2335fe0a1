"""The host: counters to rates, the container's limits as denominators, what is missing stays missing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.samplers.test_cgroup import V1_MOUNTS, V2_MOUNT, write
from trackside.monitor.samplers import HostSampler, RankSampler, hardware, hardware_parts
from trackside.monitor.samplers.window import Rate, Window

GB = 1 << 30


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def counters(root: Path, busy: int, idle: int, received: int, sent: int, sectors: int) -> None:
    rows = "".join(f"cpu{n} {busy} 0 0 {idle} 0 0 0 0 0 0\n" for n in sorted(os.sched_getaffinity(0)))
    write(
        root,
        {
            "proc/stat": f"cpu 9 9 9 9 9 9 9 9 9 9\n{rows}intr 5\n",
            "proc/meminfo": f"MemTotal: {64 << 20} kB\nMemFree: 5 kB\nMemAvailable: {48 << 20} kB\n",
            "proc/net/dev": "head\nhead\n"
            f"    lo: {received * 9} 0 0 0 0 0 0 0 {sent * 9} 0 0 0 0 0 0 0\n"
            f"  eth0:{received} 0 0 0 0 0 0 0 {sent} 0 0 0 0 0 0 0\n"
            f"docker0: {received} 0 0 0 0 0 0 0 {sent} 0 0 0 0 0 0 0\n",
            "proc/diskstats": f"8 0 sda 1 0 {sectors} 0 1 0 {2 * sectors} 0 0 0 0\n"
            f"8 1 sda1 1 0 {sectors} 0 1 0 {2 * sectors} 0 0 0 0\n",
        },
    )


def test_b17_rates_are_of_the_interval_and_of_the_machine_itself(tmp_path: Path) -> None:
    clock = Clock()
    write(tmp_path, {"sys/class/net/eth0/device/vendor": "x", "sys/block/sda/device/vendor": "x"})
    counters(tmp_path, busy=100, idle=100, received=1000, sent=500, sectors=10)
    sampler = HostSampler(tmp_path, clock=clock, root=tmp_path)
    clock.now += 2
    counters(tmp_path, busy=130, idle=170, received=5000, sent=600, sectors=30)
    sample = sampler.sample()
    assert sample.cpu == pytest.approx(0.3)
    assert (sample.network_received, sample.network_sent) == (2000, 50)
    assert (sample.disk_read, sample.disk_written) == (20 * 512 / 2, 40 * 512 / 2)
    assert (sample.memory_used, sample.memory_total, sample.memory_limit_source) == (16 * GB, 64 * GB, "host")
    assert sample.disk_total is not None
    assert sample.gpus == []


def test_in_a_container_every_interface_but_loopback_counts(tmp_path: Path) -> None:
    clock = Clock()
    counters(tmp_path, 1, 1, received=0, sent=0, sectors=0)
    sampler = HostSampler(tmp_path, clock=clock, root=tmp_path)
    clock.now += 1
    counters(tmp_path, 2, 2, received=100, sent=10, sectors=10)
    sample = sampler.sample()
    assert (sample.network_received, sample.network_sent) == (200, 20)
    assert (sample.disk_read, sample.disk_written) == (None, None)


def test_d21_a_tighter_container_is_the_denominator(tmp_path: Path) -> None:
    clock = Clock()
    counters(tmp_path, 1, 1, 0, 0, 0)
    group = tmp_path / "sys/fs/cgroup"
    write(tmp_path, {"proc/self/mountinfo": V2_MOUNT.format(root="/"), "proc/self/cgroup": "0::/\n"})
    write(
        group,
        {
            "memory.max": f"{4 * GB}",
            "memory.current": f"{3 * GB}",
            "cpu.max": "50000 100000",
            "cpu.stat": "usage_usec 0\n",
        },
    )
    sampler = HostSampler(tmp_path, clock=clock, root=tmp_path)
    clock.now += 2
    write(group, {"cpu.stat": "usage_usec 250000\n"})
    sample = sampler.sample()
    assert (sample.cpu, sample.cpu_count, sample.cpu_limit_source) == (0.25, 0.5, "cgroup v2")
    assert (sample.memory_used, sample.memory_total, sample.memory_limit_source) == (3 * GB, 4 * GB, "cgroup v2")


def test_b17_d21_limits_of_the_first_version_are_denominators_too_and_are_named(tmp_path: Path) -> None:
    clock = Clock()
    counters(tmp_path, 1, 1, 0, 0, 0)
    write(
        tmp_path,
        {"proc/self/mountinfo": V1_MOUNTS.format(root="/"), "proc/self/cgroup": "4:memory:/\n3:cpu,cpuacct:/\n"},
    )
    cpu, memory = tmp_path / "sys/fs/cgroup/cpu,cpuacct", tmp_path / "sys/fs/cgroup/memory"
    write(cpu, {"cpu.cfs_quota_us": "25000", "cpu.cfs_period_us": "100000", "cpuacct.usage": "0"})
    write(memory, {"memory.limit_in_bytes": f"{2 * GB}", "memory.usage_in_bytes": f"{GB}"})
    sampler = HostSampler(tmp_path, clock=clock, root=tmp_path)
    clock.now += 2
    write(cpu, {"cpuacct.usage": "100000000"})
    sample = sampler.sample()
    assert (sample.cpu, sample.cpu_count, sample.cpu_limit_source) == (pytest.approx(0.2), 0.25, "cgroup v1")
    assert (sample.memory_used, sample.memory_total, sample.memory_limit_source) == (GB, 2 * GB, "cgroup v1")


def test_b17_d21_what_makes_the_cpus_so_many_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    counters(tmp_path, 1, 1, 0, 0, 0)
    whole = HostSampler(tmp_path, root=tmp_path).sample()
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    part = HostSampler(tmp_path, root=tmp_path).sample()
    assert (whole.cpu_count, whole.cpu_limit_source, part.cpu_count, part.cpu_limit_source) == (
        2,
        "host",
        2,
        "affinity",
    )


def test_d21_a_container_limit_looser_than_the_machine_is_none(tmp_path: Path) -> None:
    counters(tmp_path, 1, 1, 0, 0, 0)
    write(tmp_path, {"proc/self/mountinfo": V2_MOUNT.format(root="/"), "proc/self/cgroup": "0::/\n"})
    write(tmp_path / "sys/fs/cgroup", {"memory.max": f"{512 * GB}", "memory.current": "1"})
    assert HostSampler(tmp_path, root=tmp_path).sample().memory_limit_source == "host"


def test_b13_a_machine_that_says_nothing_has_no_figures(tmp_path: Path) -> None:
    sample = HostSampler(tmp_path / "gone", root=tmp_path).sample()
    figures = (sample.cpu, sample.memory_used, sample.memory_total, sample.network_sent, sample.disk_read)
    assert figures == (None,) * 5
    assert (sample.disk_used, sample.disk_total, sample.memory_limit_source) == (None, None, None)


def test_the_machine_itself_can_be_sampled() -> None:
    host, rank = HostSampler("."), RankSampler(os.getpid(), None, os.environ)
    host.tick()
    rank.tick()
    seen, own = host.sample(), rank.sample()
    host.close()
    rank.close()
    assert seen.memory_total is not None
    assert seen.memory_used is not None
    assert 0 < seen.memory_used < seen.memory_total
    assert own.memory is not None
    assert own.memory > 1 << 20
    assert own.processes is not None


def test_a_rank_that_has_gone_has_no_figures() -> None:
    with subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE) as process:
        sampler = RankSampler(process.pid, 0, os.environ)
        before = sampler.sample()
        process.communicate(b"\n", timeout=20)
    after = sampler.sample()
    assert before.memory is not None
    assert (after.cpu, after.memory, after.processes) == (None, None, None)


def test_b12_the_cpu_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "cpu_model", lambda: "Some CPU")
    monkeypatch.setattr(hardware, "cpu_threads", lambda: 64)
    monkeypatch.setattr(hardware, "machine_memory_bytes", lambda: 503 * GB + GB // 3)
    assert hardware_parts({}, 0) == ("Some CPU (64 threads, 503 GB)", None)


def test_b12_unknown_parts_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cpu_model", "cpu_threads", "machine_memory_bytes"):
        monkeypatch.setattr(hardware, name, lambda: None)
    assert hardware_parts({}, 0)[0] == "Unknown CPU"
    monkeypatch.setattr(hardware, "cpu_threads", lambda: 8)
    assert hardware_parts({}, 0)[0] == "Unknown CPU (8 threads)"


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("processor\t: 0\nmodel name\t:  Some   CPU @ 2GHz \nflags: a\n", "Some CPU @ 2GHz"),
        ("processor\t: 0\nBogoMIPS\t: 2000\nCPU part\t: 0xd4f\n", None),
        ("model name\t: \n", None),
        ("", None),
    ],
)
def test_b12_the_cpus_model_is_what_the_kernel_calls_it(
    monkeypatch: pytest.MonkeyPatch, text: str, model: str | None
) -> None:
    monkeypatch.setattr(hardware, "read_text", lambda path: text)
    assert hardware.cpu_model() == model


def test_a_window_knows_mean_and_peak_and_leaves_unknown_out() -> None:
    window = Window()
    assert window.close() == (None, None)
    for value in (0.0, None, 0.9, 0.3):
        window.add(value)
    assert window.close() == (pytest.approx(0.4), 0.9)
    assert window.close() == (None, None)


def test_a_counter_that_goes_back_or_stands_still_in_time_has_no_rate() -> None:
    rate = Rate()
    assert [
        rate.of(5, 1.0),
        rate.of(9, 3.0),
        rate.of(2, 4.0),
        rate.of(3, 4.0),
        rate.of(None, 5.0),
        rate.of(9, 6.0),
    ] == [
        None,
        2.0,
        None,
        None,
        None,
        None,
    ]


def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys, trackside.monitor.samplers\n"
        "print([n for n in ('torch', 'numpy', 'asyncio', 'psutil', 'pynvml') if n in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert answer.stdout == "[]\n"
