"""Limits of containers, both versions, nested, with and without their own namespace."""

from pathlib import Path

import pytest

from trackside.monitor.samplers.cgroup import Cgroup, CpuQuota, MemoryLimit, usable_cpus, used_cpu_seconds

GB = 1 << 30
V2_MOUNT = "31 23 0:28 {root} /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n"
V1_MOUNTS = (
    "32 31 0:29 {root} /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "35 31 0:32 {root} /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
)


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def v2(root: Path, group: str, files: dict[str, str], mount_root: str = "/") -> Cgroup:
    write(root, {"proc/self/mountinfo": V2_MOUNT.format(root=mount_root), "proc/self/cgroup": f"0::{group}\n"})
    write(root / "sys/fs/cgroup", files)
    return Cgroup(root)


def test_d21_v2_memory_without_the_page_cache_that_can_go(tmp_path: Path) -> None:
    cgroup = v2(
        tmp_path,
        "/",
        {
            "memory.max": f"{8 * GB}\n",
            "memory.current": f"{5 * GB}\n",
            "memory.stat": f"anon 1\ninactive_file {2 * GB}\nactive_file 7\n",
        },
    )
    assert cgroup.memory() == MemoryLimit(8 * GB, 3 * GB, "cgroup v2")


def test_d21_the_tightest_level_of_a_nested_path_holds(tmp_path: Path) -> None:
    cgroup = v2(
        tmp_path,
        "/slurm/job_7/step_0",
        {
            "slurm/job_7/memory.max": f"{4 * GB}",
            "slurm/job_7/memory.current": f"{GB}",
            "slurm/job_7/step_0/memory.max": "max",
            "slurm/memory.max": f"{64 * GB}",
            "slurm/job_7/cpu.max": "250000 100000",
            "slurm/cpu.max": "max 100000",
            "slurm/job_7/step_0/cpu.max": "800000 100000",
        },
    )
    assert cgroup.memory() == MemoryLimit(4 * GB, GB, "cgroup v2")
    assert cgroup.cpu() == CpuQuota(2.5, tmp_path / "sys/fs/cgroup/slurm/job_7/cpu.stat")


def test_max_is_no_limit(tmp_path: Path) -> None:
    cgroup = v2(tmp_path, "/a", {"a/memory.max": "max\n", "a/cpu.max": "max 100000\n", "a/memory.current": "5"})
    assert (cgroup.memory(), cgroup.cpu()) == (None, None)


def test_the_soft_limit_counts_when_it_is_the_tighter(tmp_path: Path) -> None:
    cgroup = v2(tmp_path, "/", {"memory.max": f"{8 * GB}", "memory.high": f"{6 * GB}", "memory.current": "0"})
    assert cgroup.memory() == MemoryLimit(6 * GB, 0, "cgroup v2")


@pytest.mark.parametrize("group", ["/docker/0123", "/../../system.slice", "/"])
def test_a_path_that_is_not_below_the_mount_falls_back_to_the_mount(tmp_path: Path, group: str) -> None:
    cgroup = v2(tmp_path, group, {"memory.max": f"{GB}", "memory.current": "1"}, mount_root="/docker/0123")
    assert cgroup.memory() == MemoryLimit(GB, 1, "cgroup v2")


def test_d21_v1_memory_and_quota(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "proc/self/mountinfo": V1_MOUNTS.format(root="/"),
            "proc/self/cgroup": "4:memory:/box\n3:cpu,cpuacct:/box\n1:name=systemd:/\n",
            "sys/fs/cgroup/memory/box/memory.limit_in_bytes": f"{2 * GB}",
            "sys/fs/cgroup/memory/box/memory.usage_in_bytes": f"{GB}",
            "sys/fs/cgroup/memory/box/memory.stat": f"inactive_file 1\ntotal_inactive_file {GB // 2}\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
            "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us": "150000",
            "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us": "100000",
            "sys/fs/cgroup/cpu,cpuacct/box/cpuacct.usage": "2500000000",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000",
        },
    )
    cgroup = Cgroup(tmp_path)
    quota = cgroup.cpu()
    assert cgroup.memory() == MemoryLimit(2 * GB, GB // 2, "cgroup v1")
    assert quota is not None
    assert (quota.cpus, used_cpu_seconds(quota)) == (1.5, 2.5)


def test_used_time_of_v2(tmp_path: Path) -> None:
    (tmp_path / "cpu.stat").write_text("usage_usec 1500000\nuser_usec 1\n")
    assert used_cpu_seconds(CpuQuota(1.0, tmp_path / "cpu.stat")) == 1.5
    assert used_cpu_seconds(CpuQuota(1.0, tmp_path / "gone" / "cpu.stat")) is None


def test_without_any_cgroup_there_is_no_limit(tmp_path: Path) -> None:
    cgroup = Cgroup(tmp_path)
    assert (cgroup.memory(), cgroup.cpu()) == (None, None)


def test_usable_cpus_is_the_tighter_of_quota_and_affinity() -> None:
    allowed = usable_cpus(None)
    assert allowed is not None
    assert usable_cpus(CpuQuota(0.5, Path("x"))) == 0.5
    assert usable_cpus(CpuQuota(allowed + 100, Path("x"))) == allowed
