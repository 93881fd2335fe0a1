"""Who a process is, by its environment."""

import os

import pytest

from trackside.errors import ArgumentTypeError, UsageError
from trackside.monitor.roles import SINGLE, check_count, check_port, check_text, find_identity, is_disabled, port_of

TORCHRUN = {
    "RANK": "5",
    "LOCAL_RANK": "1",
    "WORLD_SIZE": "8",
    "LOCAL_WORLD_SIZE": "4",
    "GROUP_RANK": "1",
    "TORCHELASTIC_RUN_ID": "job",
    "TORCHELASTIC_RESTART_COUNT": "2",
}


def test_b01_without_a_launcher_it_is_a_single_process() -> None:
    assert find_identity({}) == SINGLE
    assert find_identity({"RANK": "-1", "LOCAL_RANK": "-1", "WORLD_SIZE": "1"}) == SINGLE
    assert find_identity({"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}) == SINGLE, "a shell inside an allocation"


def test_torchrun_names_everything() -> None:
    found = find_identity(TORCHRUN)
    assert (found.rank, found.local_rank, found.world_size, found.node_rank) == (5, 1, 8, 1)
    assert (found.generation, found.job) == (2, "job")
    assert found.source == "torchrun (RANK, LOCAL_RANK, WORLD_SIZE)"


@pytest.mark.parametrize(
    ("environ", "source"),
    [
        (
            {"SLURM_PROCID": "3", "SLURM_NTASKS": "4", "SLURM_LOCALID": "1", "SLURM_STEP_ID": "0", "SLURM_JOB_ID": "9"},
            "Slurm",
        ),
        ({"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}, "Open MPI"),
        ({"PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1"}, "PMI"),
    ],
)
def test_other_launchers(environ: dict[str, str], source: str) -> None:
    found = find_identity(environ)
    assert (found.rank, found.local_rank, found.world_size) == (3, 1, 4)
    assert found.source.startswith(source)
    assert find_identity({**environ, **TORCHRUN}).source.startswith("torchrun")


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"RANK": "8"}, ("RANK=8", "WORLD_SIZE=8")),
        ({"WORLD_SIZE": "two"}, ("WORLD_SIZE='two'",)),
        ({"WORLD_SIZE": ""}, ("RANK=5", "WORLD_SIZE")),
        ({"LOCAL_RANK": "6", "LOCAL_WORLD_SIZE": "8"}, ("LOCAL_RANK=6", "RANK=5")),
        ({"LOCAL_RANK": "4"}, ("LOCAL_RANK=4", "LOCAL_WORLD_SIZE=4")),
        ({"LOCAL_WORLD_SIZE": "16"}, ("LOCAL_WORLD_SIZE=16", "WORLD_SIZE=8")),
    ],
)
def test_b02_a_contradiction_names_every_variable(changed: dict[str, str], named: tuple[str, ...]) -> None:
    with pytest.raises(UsageError) as raised:
        find_identity({**TORCHRUN, **changed})
    assert all(name in str(raised.value) for name in named)


def test_b01_the_launcher_itself_and_whoever_is_told_so_are_inert() -> None:
    assert is_disabled({"TRACKSIDE_LAUNCHER_PID": str(os.getpid())})
    assert not is_disabled({"TRACKSIDE_LAUNCHER_PID": str(os.getpid() + 1)})
    assert is_disabled({"TRACKSIDE_DISABLED": "1"})
    assert not is_disabled({"TRACKSIDE_DISABLED": "0"})


def test_wrong_arguments_say_what_is_wrong() -> None:
    for check, value, kind in [
        (check_count, 0, UsageError),
        (check_count, True, ArgumentTypeError),
        (check_count, 1.5, ArgumentTypeError),
        (check_text, "", UsageError),
        (check_text, 3, ArgumentTypeError),
        (check_port, 65536, UsageError),
        (check_port, -1, UsageError),
        (check_port, "7117", ArgumentTypeError),
    ]:
        with pytest.raises(kind, match="thing"):
            check("thing", value)
    assert (port_of(None), port_of(" "), port_of("0"), port_of("7117")) == (None, None, 0, 7117)
    for text in ("seven", "-1", "70000"):
        with pytest.raises(UsageError, match="TRACKSIDE_PORT"):
            port_of(text)


def test_b31_the_launchers_generation_goes_before_torchs_count_of_restarts() -> None:
    environ = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "TORCHELASTIC_RESTART_COUNT": "1"}
    assert find_identity(environ).generation == 1
    assert find_identity({**environ, "TRACKSIDE_GENERATION": "4"}).generation == 4
    slurm = {"SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURM_STEP_ID": "0", "SLURM_RESTART_COUNT": "2"}
    assert find_identity({**slurm, "TRACKSIDE_GENERATION": "4"}).generation == 2
