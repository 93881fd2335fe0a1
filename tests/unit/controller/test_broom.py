"""What leads to a run goes with its controller, whoever left it."""

from pathlib import Path

import pytest

from trackside.controller import broom as broom_module
from trackside.controller.broom import Broom
from trackside.wire.address import ControllerAddress, format_address


def address(run: str) -> str:
    return format_address(
        ControllerAddress(
            run=run, hosts=["127.0.0.1"], port=1, server_key="0" * 40, client_public="0" * 40, client_secret="0" * 40
        )
    )


def test_addresses_of_the_run_go_with_its_controller_and_others_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "private"
    folder.mkdir(mode=0o700)
    monkeypatch.setattr(broom_module, "private_path", lambda: folder)
    (folder / "children-of-1.address").write_text(address("ours"))
    (folder / "job.address").write_text(address("ours"))
    (folder / "another.address").write_text(address("theirs"))
    (folder / "noise.address").write_bytes(b"\xff")
    Broom("ours", lambda: False, lambda line: None).close()
    assert sorted(path.name for path in folder.iterdir()) == ["another.address", "noise.address"]
