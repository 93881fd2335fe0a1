"""The agent's link, on a host of its own."""

from pathlib import Path

import pytest

from tests.unit.launch.polling import eventually
from trackside.launch import uplink
from trackside.launch.uplink import AgentUplink
from trackside.wire.address import ControllerAddress
from trackside.wire.machine import machine_id
from trackside.wire.sweep import Moved

pytestmark = pytest.mark.usefixtures("leak_check")


@pytest.mark.parametrize("is_here", [True, False])
def test_an_agent_sweeps_its_host_where_no_controller_does(monkeypatch: pytest.MonkeyPatch, is_here: bool) -> None:
    swept: list[str] = []

    def sweep() -> list[Moved]:
        swept.append("once")
        return [Moved("r1", 2, 1_500_000, Path("/var/tmp/trackside-1"), None)]

    monkeypatch.setattr(uplink, "sweep", sweep)
    address = ControllerAddress(
        run="r2",
        hosts=["127.0.0.1"],
        port=1,
        server_key="0" * 40,
        client_public="0" * 40,
        client_secret="0" * 40,
        machine_id=machine_id() if is_here else "elsewhere",
    )
    said: list[str] = []
    link = AgentUplink(address, said.append)
    link.start()
    if not is_here:
        eventually(lambda: bool(said))
        assert "1.5 MB that 2 killed processes of run r1 left went to /var/tmp/trackside-1" in said[0]
    link.close(0.0)
    assert swept == ([] if is_here else ["once"])
