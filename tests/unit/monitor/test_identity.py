"""Who a process is, when that is known only after its first monitor."""

import os
import sys
import types

import pytest

from trackside.errors import UsageError
from trackside.monitor import identity as identity_module
from trackside.monitor.identity import LateIdentity
from trackside.monitor.roles import SINGLE, find_identity, process_group_identity

VARIABLES = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"}


class Clock:
    """Monotonic seconds that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(identity_module, "time", made)
    return made


def group(monkeypatch: pytest.MonkeyPatch, rank: int, world_size: int) -> None:
    """A process group that has begun."""
    distributed = types.ModuleType("torch.distributed")
    distributed.is_initialized = lambda: True  # type: ignore[attr-defined]
    distributed.get_rank = lambda: rank  # type: ignore[attr-defined]
    distributed.get_world_size = lambda: world_size  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.distributed", distributed)


def test_d02_variables_that_are_set_late_count_once_they_stand_still(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    who = LateIdentity({})
    assert (who.look(), who.identity) == (False, SINGLE)
    monkeypatch.setenv("RANK", "0")
    assert not who.look()
    clock.now += 0.1
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert not who.look()
    clock.now += 0.3
    assert who.look()
    assert (who.identity.rank, who.identity.world_size) == (0, 2)
    monkeypatch.setenv("WORLD_SIZE", "4")
    clock.now += 1
    assert (who.look(), who.identity.world_size) == (False, 2)


def test_d02_a_process_group_that_begins_late_counts_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    who = LateIdentity({})
    group(monkeypatch, 3, 4)
    assert who.look()
    assert (who.identity.rank, who.identity.world_size, who.identity.source) == (3, 4, "torch.distributed")


def test_d02_half_an_import_of_torch_is_no_process_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.distributed", types.ModuleType("torch.distributed"))
    assert process_group_identity() is None


def test_b02_what_is_set_late_and_contradicts_itself_is_kept_to_be_said(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    who = LateIdentity({})
    for name, value in {**VARIABLES, "RANK": "7"}.items():
        monkeypatch.setenv(name, value)
    assert not who.look()
    assert who.problem is not None
    assert "RANK=7 and WORLD_SIZE=2" in who.problem


def test_d04_a_child_among_others_is_not_taken_for_a_single_process_at_once(clock: Clock) -> None:
    who = LateIdentity({"LOCAL_RANK": "1"})
    assert who.is_held
    clock.now += 9.9
    assert who.is_held
    clock.now += 0.2
    assert not who.is_held
    assert not LateIdentity({}).is_held
    assert not LateIdentity(VARIABLES).is_held


def test_d02_at_the_end_nothing_is_waited_for(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    who = LateIdentity({"LOCAL_RANK": "0"})
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    who.release()
    assert not who.is_held
    assert who.look()


def test_d02_a_local_rank_is_the_global_one_on_the_first_host_only() -> None:
    found = find_identity({"LOCAL_RANK": "1", "WORLD_SIZE": "4", "NODE_RANK": "0"})
    assert (found.rank, found.local_rank, found.world_size) == (1, 1, 4)
    assert find_identity({"LOCAL_RANK": "1", "WORLD_SIZE": "4", "NODE_RANK": "1"}) is SINGLE
    assert find_identity({"LOCAL_RANK": "1"}) is SINGLE
    with pytest.raises(UsageError, match=r"LOCAL_RANK=4 and WORLD_SIZE=4"):
        find_identity({"LOCAL_RANK": "4", "WORLD_SIZE": "4"})


def test_d02_the_group_knows_no_local_rank_but_the_environment_may(monkeypatch: pytest.MonkeyPatch) -> None:
    group(monkeypatch, 5, 8)
    assert find_identity({}).local_rank == 5
    assert find_identity({"LOCAL_RANK": "1"}).local_rank == 1
    assert os.environ.get("LOCAL_RANK") is None
