"""How the hosts of a job learn the controller's address: through the store of torch's own rendezvous.

The controller lives beside the host with group rank 0, and stays there when a later rendezvous numbers the hosts anew.
Whoever has it puts the address into the store of each rendezvous; the others wait for it, a few seconds at most, and
remember it. A host whose peers run plain torchrun waits once, in vain, and trains on.
"""

import logging
from datetime import timedelta
from typing import Any

_logger = logging.getLogger("trackside.launch")

KEY = "trackside/controller"
WAIT_S = 15.0
"""At first the controller may still be starting; longer than that it is not worth the ranks' time."""


def publish(store: Any, address: str) -> None:
    """Put the address where the other hosts look; an empty one says that there is none."""
    try:
        store.set(KEY, address)
    except (RuntimeError, OSError, ValueError) as error:
        _logger.warning("the other hosts cannot be told where the controller is: %s", error)


def look_up(store: Any, wait_s: float = WAIT_S) -> str | None:
    """Return the address, None when nobody published one. Blocks: up to `wait_s`."""
    try:
        store.wait([KEY], timedelta(seconds=wait_s))
        text: bytes = store.get(KEY)
    except (RuntimeError, OSError, ValueError) as error:
        _logger.debug("no controller's address in the store: %s", error)
        return None
    return text.decode("ascii", errors="replace") or None
