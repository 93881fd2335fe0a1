"""What killed sessions left on this machine goes as soon as it is delivered, however much is logged meanwhile."""

from pathlib import Path

import pytest

from trackside.monitor.heir import Heir
from trackside.monitor.outbox import Outbox
from trackside.monitor.spool import Spool
from trackside.wire import codec, messages
from trackside.wire import estate as estate_module
from trackside.wire.ids import new_session
from trackside.wire.machine import machine_id
from trackside.wire.spool import stem_of

NO_PROCESS = 1 << 30


@pytest.fixture
def left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a killed session."""
    tmp_path.chmod(0o700)
    for place in ("memory_path", "private_path", "lasting_path"):
        monkeypatch.setattr(estate_module, place, lambda: tmp_path)
    session = new_session()
    hello = messages.Hello(
        session=session,
        role="rank",
        run="r",
        identity=messages.Identity(rank=1, local_rank=0, world_size=2),
        host=messages.HostFacts(host="here", machine_id=machine_id()),
        process=messages.ProcessFacts(pid=NO_PROCESS),
        sent_at=0.0,
    )
    spool = Spool(tmp_path, f"{stem_of(session)}-000001", codec.encode(hello))
    spool.append(codec.encode(messages.UserEvent(time=0.0, title="saved"), 1))
    spool.leave()
    (path,) = tmp_path.glob("*.spool")
    return path


def test_it_is_removed_once_it_is_delivered_although_later_frames_always_wait(left: Path) -> None:
    outbox = Outbox(new_session())
    outbox.may_spool = False

    def add(message: messages.Upward) -> None:
        assert outbox.add(codec.encode(message, outbox.next_seq), outbox.next_seq)
        outbox.next_seq += 1

    heir = Heir("r", add)
    add(messages.UserEvent(time=0.0, title="before"))
    heir.inherit()
    assert outbox.next_seq == 3
    for _ in range(3):
        heir.turned(outbox.oldest_seq, outbox.next_seq)
        add(messages.UserEvent(time=0.0, title="later"))
        assert left.exists()
    outbox.acknowledge(1)
    heir.turned(outbox.oldest_seq, outbox.next_seq)
    assert left.exists()
    outbox.acknowledge(2)
    heir.turned(outbox.oldest_seq, outbox.next_seq)
    assert (left.exists(), len(outbox)) == (False, 3)
