"""Names of the phases, as they go over the wire."""

DATA = "data"
"""Waiting for the next batch."""
TRANSFER = "transfer"
"""Copying to the device."""
FORWARD = "forward"
BACKWARD = "backward"
OPTIMIZER = "optimizer"
COLLECTIVE = "collective"
"""Waiting for peers; all other phases are the rank's own time."""
REST = "rest"
"""What is in none of the others."""
BLURRED = "step"
"""The same, where waiting for peers may be among it."""
BETWEEN = "between steps"
"""What a rank does that is in no step; no phase."""

BUILT_IN = frozenset((DATA, TRANSFER, FORWARD, BACKWARD, OPTIMIZER, COLLECTIVE, REST, BLURRED))
