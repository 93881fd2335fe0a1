"""What the hosts of a job tell each other through the store of torch's own rendezvous: the controller's address, and which
generation of ranks they start.

The controller lives beside the host with group rank 0, and stays there when a later rendezvous numbers the hosts anew.
Whoever has it puts the address into the store of each rendezvous; the others wait for it, a few seconds at most, and
remember it. A host whose peers run plain torchrun waits once, in vain, and trains on.

torch counts restarts on each host by itself, and a change of hosts as none. So the generation is agreed on here: every
host says the next one it knows of, and the highest of them is everybody's. A host that has just joined says 0.
"""

import logging
from datetime import timedelta
from typing import Any

_logger = logging.getLogger("trackside.launch")

KEY = "trackside/controller"
GENERATION_KEY = "trackside/generation"
WAIT_S = 15.0
"""At first the controller may still be starting; longer than that it is not worth the ranks' time."""
SHORT_WAIT_S = 1.0
"""For hosts that have kept silent before."""


def publish(store: Any, address: str) -> None:
    """Put the address where the other hosts look; an empty one says that there is none."""
    try:
        store.set(KEY, address)
    except (RuntimeError, OSError, ValueError) as error:
        _logger.warning("the other hosts cannot be told where the controller is: %s", error)


def agree(store: Any, wanted: int, group_rank: int, group_size: int, wait_s: float = WAIT_S) -> int:
    """Return the generation that all hosts of this rendezvous start.

    Never less than `wanted`: a store that is kept for several rendezvous still holds what was said in the last one. With
    peers that run plain torchrun, or a store that breaks, it is `wanted`, or the highest that was heard.

    Args:
        store: of the rendezvous.
        wanted: one more than the last generation this host has started; 0 at first.
        group_rank: of this host.
        group_size: hosts of the rendezvous.
        wait_s: for the others' word.

    Blocks: up to twice `wait_s`; usually a few milliseconds, since torch has just made the hosts wait for each other.
    """
    if group_size == 1:
        return wanted
    try:
        store.set(f"{GENERATION_KEY}/{group_rank}", str(wanted))
        if group_rank == 0:
            agreed = max(wanted, *_heard(store, group_size, wait_s))
            store.set(GENERATION_KEY, str(agreed))
            return agreed
        store.wait([GENERATION_KEY], timedelta(seconds=2 * wait_s))
        return max(wanted, int(store.get(GENERATION_KEY)))
    except (RuntimeError, OSError, ValueError) as error:
        _logger.warning("the hosts could not agree on a generation; this one goes on with %d: %s", wanted, error)
        return wanted


def _heard(store: Any, group_size: int, wait_s: float) -> list[int]:
    """What the hosts said; without those that say nothing in time."""
    keys = [f"{GENERATION_KEY}/{rank}" for rank in range(group_size)]
    try:
        store.wait(keys, timedelta(seconds=wait_s))
    except (RuntimeError, OSError):
        keys = [key for key in keys if store.check([key])]
    return [int(store.get(key)) for key in keys]


def look_up(store: Any, wait_s: float = WAIT_S) -> str | None:
    """Return the address, None when nobody published one. Blocks: up to `wait_s`."""
    try:
        store.wait([KEY], timedelta(seconds=wait_s))
        text: bytes = store.get(KEY)
    except (RuntimeError, OSError, ValueError) as error:
        _logger.debug("no controller's address in the store: %s", error)
        return None
    return text.decode("ascii", errors="replace") or None
