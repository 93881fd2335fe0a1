"""NVIDIA devices: which one is whose, and figures that fail alone."""

from pathlib import Path

import pytest

from tests.unit.samplers.nvidia import Machine
from trackside.monitor.samplers.gpu import GpuWindow
from trackside.monitor.samplers.nvml import Device

GB = 1 << 30


def uuid(index: int) -> str:
    return f"GPU-{index}0a1b2c3-fake"


@pytest.mark.parametrize(
    ("listed", "indices"),
    [
        ("", []),
        ("-1", []),
        ("none", []),
        (" ", []),
        ("3", [3]),
        ("+3", [3]),
        ("6,2", [6, 2]),
        ("7,6,5,4,3,2,1,0", [7, 6, 5, 4, 3, 2, 1, 0]),
        (" 1 , 0 ", [1, 0]),
        ("2,-1,3", [2]),
        ("1,9,2", [1]),
        ("1,1", []),
        (f"{uuid(5)},{uuid(0)}", [5, 0]),
        ("GPU-7,GPU-40a1", [7, 4]),
        ("GPU-", []),
        (f"{uuid(2)},GPU-unknown,{uuid(3)}", [2]),
        (f"{uuid(2)},{uuid(2)}", []),
        (f"4,{uuid(2)}", [4]),
        (f"{uuid(2)},4", [2]),
        ("4,two,2", [4]),
        ("8", []),
    ],
)
def test_b14_d24_the_visible_list_is_read_as_cuda_reads_it(machine: Machine, listed: str, indices: list[int]) -> None:
    assert machine.visible(CUDA_VISIBLE_DEVICES=listed) == indices


def test_b14_without_a_list_every_gpu_is_visible(machine: Machine) -> None:
    assert machine.visible() == list(range(8))


def test_b14_d24_a_single_number_is_the_cards_own_and_not_the_first(machine: Machine) -> None:
    (gpu,) = machine.run("out([RankSampler(os.getpid(), 0, os.environ).sample().gpu])", CUDA_VISIBLE_DEVICES="2")
    assert (gpu["index"], gpu["uuid"], gpu["memory_used"]) == (2, uuid(2), 3 * GB)


def test_b14_a_host_of_one_gpu_gives_it_to_every_rank(machine: Machine) -> None:
    """Whatever the rank's number: one device is nobody else's."""
    code = "out([d.uuid for d in (assigned_device(os.environ, r, Nvml().devices[:1]) for r in (None, 0, 1, 7))])"
    assert machine.run(code) == [uuid(0)] * 4
    assert machine.run(code, CUDA_VISIBLE_DEVICES="0") == [uuid(0)] * 4
    none = "out(assigned_device(os.environ, 0, Nvml().devices[:1]))"
    assert machine.run(none, CUDA_VISIBLE_DEVICES="") is None


def test_b14_a_rank_has_the_device_of_its_local_rank_among_the_visible(machine: Machine) -> None:
    assert machine.assigned(1, CUDA_VISIBLE_DEVICES="6,2") == uuid(2)
    assert machine.assigned(None) == uuid(0)
    assert machine.assigned(5, CUDA_VISIBLE_DEVICES="3") == uuid(3), "one visible device is everybody's"
    assert machine.assigned(2, CUDA_VISIBLE_DEVICES="6,2") is None, "which one it shares is not known"
    assert machine.assigned(0, CUDA_VISIBLE_DEVICES="") is None


def test_b14_cards_of_different_models_are_numbered_by_cuda_alone(machine: Machine) -> None:
    mixed = {"FAKE_NVML_NAMES": "Small|Big|Small|Small|Small|Small|Small|Small"}
    assert machine.visible(**mixed) is None
    assert machine.visible(**mixed, CUDA_DEVICE_ORDER="PCI_BUS_ID") == list(range(8))
    assert machine.visible(**mixed, CUDA_VISIBLE_DEVICES=f"{uuid(1)},{uuid(0)}") == [1, 0]


def test_b14_slices_by_both_kinds_of_name(machine: Machine) -> None:
    mig = {"FAKE_NVML_MIG": "2"}
    assert machine.assigned(0, **mig, CUDA_VISIBLE_DEVICES="MIG-23-5ee1") == "MIG-23-5ee1"
    assert machine.assigned(0, **mig, CUDA_VISIBLE_DEVICES=f"MIG-{uuid(2)}/10/0") == "MIG-23-5ee1"
    assert machine.assigned(0, **mig, CUDA_VISIBLE_DEVICES="MIG-2") is None, "a prefix of two"
    assert machine.assigned(2, **mig) == "MIG-20-5ee1", "a number means the card's first slice"
    assert machine.assigned(0, **mig, CUDA_VISIBLE_DEVICES="MIG-GPU-unknown/10/0") is None
    assert machine.assigned(0, **mig, CUDA_VISIBLE_DEVICES=f"MIG-{uuid(2)}/11/0") is None


def test_b14_cuda_shows_one_slice_and_no_card_beside_it(machine: Machine) -> None:
    mig = {"FAKE_NVML_MIG": "2"}
    code = "out([d.uuid for d in visible_devices(os.environ, Nvml().devices)])"
    assert machine.run(code, **mig) == ["MIG-20-5ee1"]
    assert machine.run(code, **mig, CUDA_VISIBLE_DEVICES="5,2") == ["MIG-20-5ee1"]
    assert machine.run(code, **mig, CUDA_VISIBLE_DEVICES="MIG-23-5ee1,MIG-20-5ee1") == ["MIG-23-5ee1"]
    assert machine.run(code, **mig, CUDA_VISIBLE_DEVICES=f"{uuid(0)},MIG-23-5ee1") == ["MIG-23-5ee1"]
    assert machine.run(code, **mig, CUDA_VISIBLE_DEVICES="5,6") == [uuid(5), uuid(6)]
    assert machine.assigned(3, **mig, CUDA_VISIBLE_DEVICES="MIG-23-5ee1,MIG-20-5ee1") == "MIG-23-5ee1"


def test_b15_a_busy_card_caught_idle_now_and_then_shows_mean_and_peak(machine: Machine) -> None:
    sample = machine.run("""
gpu = RankGpu({"CUDA_VISIBLE_DEVICES": "4"}, 0, same_process=False)
gpu.tick(); gpu.tick(); gpu.tick()
out(gpu.sample())
""")
    assert sample == {
        "index": 4,
        "uuid": uuid(4),
        "name": "Fake H100",
        "util": 0.4,
        "util_peak": 0.8,
        "memory_used": 5 * GB,
        "memory_peak": 5 * GB,
        "memory_total": 80 * GB,
        "temperature": 44.0,
        "power": 300.004,
        "power_limit": 700.0,
        "clock_limits": [],
        "mig": False,
        "ours": True,
    }


def test_b15_memory_has_a_mean_and_a_peak_too_and_each_interval_begins_anew() -> None:
    class Driver:
        """Answers in turn."""

        def __init__(self) -> None:
            self.used = iter([1 * GB, 9 * GB, None, 2 * GB, 3 * GB, 3 * GB])
            self.busy = iter([0.0, 1.0, None, 0.5, 0.25, 0.25])

        def memory(self, device):
            return next(self.used), 80 * GB

        def utilization(self, device):
            return next(self.busy)

        def power(self, device):
            return None, None

        def temperature(self, device):
            return None

        def clock_limits(self, device):
            return []

    window = GpuWindow(Driver(), Device(0, "u", "n", False, 1, 1, "u"))
    for _ in range(3):
        window.tick()
    first = window.sample()
    assert (first.memory_used, first.memory_peak, first.memory_total) == (4 * GB, 9 * GB, 80 * GB)
    assert (first.util, first.util_peak) == (0.5, 1.0)
    window.tick()
    second = window.sample()
    assert (second.memory_used, second.memory_peak, second.util, second.util_peak) == (3 * GB, 3 * GB, 0.25, 0.25)


def test_clock_limits_are_words_and_idle_is_none(machine: Machine) -> None:
    found = machine.run("out([g.clock_limits for g in HostGpus().sample()[:2]])")
    assert found == [["power cap", "thermal slowdown (hardware)"], []]


def test_d25_a_slice_has_memory_and_no_utilisation(machine: Machine) -> None:
    rows = machine.run("out([g for g in HostGpus().sample() if g.mig])", FAKE_NVML_MIG="2,5")
    assert [(g["index"], g["uuid"]) for g in rows] == [
        (2, "MIG-20-5ee1"),
        (2, "MIG-23-5ee1"),
        (5, "MIG-50-5ee1"),
        (5, "MIG-53-5ee1"),
    ]
    assert {(g["util"], g["power"], g["memory_total"], g["temperature"]) for g in rows[:2]} == {
        (None, None, 10 * GB, 42.0)
    }


@pytest.mark.parametrize(
    ("call", "fields"),
    [
        ("nvmlDeviceGetUtilizationRates", ["util", "util_peak"]),
        ("nvmlDeviceGetMemoryInfo", ["memory_used", "memory_peak", "memory_total"]),
        ("nvmlDeviceGetTemperature", ["temperature"]),
        ("nvmlDeviceGetPowerUsage", ["power"]),
        ("nvmlDeviceGetEnforcedPowerLimit", ["power_limit"]),
        ("nvmlDeviceGetName", ["name"]),
        ("nvmlDeviceGetUUID", ["uuid", "ours"]),
    ],
)
def test_b13_d26_each_counter_fails_alone(machine: Machine, call: str, fields: list[str]) -> None:
    code = "out(HostGpus([]).sample()[1])"
    whole, broken = machine.run(code), machine.run(code, FAKE_NVML_FAIL=call)
    assert all(value is not None for value in whole.values())
    assert broken == {**whole, **dict.fromkeys(fields)}


def test_d26_no_permission_on_mig_mode_hides_nothing(machine: Machine) -> None:
    assert len(machine.run("out(HostGpus().sample())", FAKE_NVML_FAIL="nvmlDeviceGetMigMode")) == 8
    mig = machine.run(
        "out(HostGpus().sample())", FAKE_NVML_MIG="2", FAKE_NVML_FAIL="nvmlDeviceGetMigDeviceHandleByIndex"
    )
    assert (len(mig), mig[2]["mig"], mig[2]["util"]) == (8, True, None)


def test_d23_every_gpu_of_the_host_is_listed_and_ours_are_marked(machine: Machine) -> None:
    rows = machine.run(f"out(HostSampler('.', our_gpu_uuids=['{uuid(1)}', '{uuid(3)}']).sample().gpus)")
    assert [g["index"] for g in rows if g["ours"]] == [1, 3]
    assert len(rows) == 8


def test_b15_a_host_whose_devices_only_torch_can_tell_apart_is_read_several_times_an_interval(
    machine: Machine, tmp_path: Path
) -> None:
    gpus, readings = machine.run(
        """
import threading
from trackside.monitor.sampling import Sampling
from trackside.wire import messages
class Sink:
    samples_host = True
    came = threading.Event()
    def send(self, message):
        if isinstance(message, messages.ResourceSample):
            self.sample = message
            self.came.set()
sink = Sink()
sampling = Sampling(os.environ, messages.Identity(rank=0, local_rank=0, world_size=2), sink)
sampling.start()
assert sink.came.wait(30)
sampling.stop()
assert sink.sample.rank.gpu is None
out([sink.sample.host.gpus, open(os.environ["FAKE_NVML_CALLS"]).read().count("GetUtilizationRates")])
""",
        FAKE_NVML_CALLS=str(tmp_path / "calls"),
        FAKE_NVML_NAMES="Small|Big|Small|Small|Small|Small|Small|Small",
    )
    assert len(gpus) == 8
    assert {gpu["util_peak"] for gpu in gpus} == {0.8}
    assert all(0.2 < gpu["util"] < 0.6 for gpu in gpus)
    assert readings >= 8 * 3, "at the end of an interval they are read once more in any case"


def test_d27_an_interval_costs_few_calls_and_never_asks_for_processes(machine: Machine, tmp_path: Path) -> None:
    """Listing a device's processes holds the driver's lock for milliseconds."""
    calls = tmp_path / "calls"
    machine.run(
        """
sampler = RankSampler(os.getpid(), 5, os.environ)
open(os.environ["FAKE_NVML_CALLS"], "w").close()
for _ in range(7):
    sampler.tick()
out(sampler.sample().gpu.index)
""",
        FAKE_NVML_CALLS=str(calls),
    )
    made = calls.read_text().split()
    assert made.count("nvmlDeviceGetUtilizationRates") == made.count("nvmlDeviceGetMemoryInfo") == 8
    assert len(made) == 16 + 4, made
    assert not [name for name in made if "Process" in name]


def test_d28_nothing_is_started_to_learn_about_the_hardware(machine: Machine) -> None:
    """No vendor's command line, not even `uname`: a hung one would hang with us, and a fork of a training is not ours."""
    started = machine.run("""
seen = []
wanted = ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.system")
sys.addaudithook(lambda name, arguments: seen.append([name, str(arguments)]) if name in wanted else None)
from trackside.monitor.facts import host_facts, process_facts
host_facts(), process_facts(), hardware_parts(os.environ, 0)
for sampler in (HostSampler("."), RankSampler(os.getpid(), 0, os.environ)):
    sampler.tick(), sampler.sample(), sampler.close()
out(seen)
""")
    assert started == []


def test_b12_the_hardware_line_names_the_assigned_gpu(machine: Machine) -> None:
    names = {"FAKE_NVML_NAMES": "A|B", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert machine.run("out(hardware_parts(os.environ, 1)[1])", **names) == "B (80 GB)"
    assert machine.run("out(hardware_parts(os.environ, 1)[1])", CUDA_VISIBLE_DEVICES="") is None


def test_b12_b13_what_a_gpu_does_not_say_is_left_out_of_its_part(machine: Machine) -> None:
    code = "out(hardware_parts(os.environ, 0)[1])"
    assert machine.run(code, FAKE_NVML_FAIL="nvmlDeviceGetMemoryInfo") == "Fake H100"
    assert machine.run(code, FAKE_NVML_FAIL="nvmlDeviceGetName") == "Unknown GPU (80 GB)"


@pytest.mark.parametrize("failing", ["nvmlInitWithFlags", "nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2"])
def test_a_driver_that_does_not_answer_means_no_gpu(machine: Machine, failing: str) -> None:
    found = machine.run("out([HostGpus().sample(), hardware_parts(os.environ, 0)[1]])", FAKE_NVML_FAIL=failing)
    assert found == [[], None]


def test_b04_neither_torch_nor_arrays_are_imported_and_no_context_is_made(machine: Machine) -> None:
    seen = machine.run("""
sampler = RankSampler(os.getpid(), 0, os.environ)
sampler.tick(); sample = sampler.sample(); sampler.close(); sampler.close()
names = ["torch", "numpy", "asyncio"]
cuda = [line for line in open("/proc/self/maps") if "libcuda" in line]
out([sample.gpu.index, [n for n in names if n in sys.modules], cuda])
""")
    assert seen == [0, [], []]


def test_torch_in_use_names_the_device_itself(machine: Machine) -> None:
    index = machine.run("""
import types
properties = types.SimpleNamespace(uuid="60a1b2c3-fake")
cuda = types.SimpleNamespace(is_initialized=lambda: True, device_count=lambda: 8,
                             get_device_properties=lambda i: properties, memory_stats=lambda d: {
                                 "allocated_bytes.all.current": 10, "reserved_bytes.all.current": 20,
                                 "allocated_bytes.all.peak": 15})
sys.modules["torch"] = types.SimpleNamespace(cuda=cuda)
sample = RankSampler(os.getpid(), 0, os.environ).sample()
out([sample.gpu.index, sample.torch_allocated, sample.torch_reserved, sample.torch_peak])
""")
    assert index == [6, 80, 160, 120]


@pytest.mark.parametrize(
    ("environ", "status", "said"),
    [
        ({"CUDA_VISIBLE_DEVICES": "6,2"}, "ok", "8 × Fake H100; 2 visible to this process"),
        ({"FAKE_NVML_FAIL": "nvmlInitWithFlags"}, "ok", "no NVIDIA driver here: CPU and memory only"),
        ({"FAKE_NVML_HANG": "nvmlDeviceGetUUID"}, "warn", "the NVIDIA driver does not answer within 3 s; "),
        ({"FAKE_NVML_NAMES": "A|B"}, "warn", "8 devices of different models; "),
    ],
)
def test_doctor_says_how_the_driver_is(machine: Machine, environ: dict[str, str], status: str, said: str) -> None:
    found = machine.run("from trackside.cli.checks import check_gpus; out(check_gpus(os.environ))", **environ)
    assert (found["status"], found["text"].startswith(said)) == (status, True), found
    assert (found["advice"] is not None) == (status == "warn")
