from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.store.station import Station, new_folder, open_station
from trackside.store import RunFolder


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return new_folder(tmp_path)


@pytest.fixture
def station(folder: RunFolder) -> Iterator[Station]:
    with open_station(folder) as opened:
        yield opened
