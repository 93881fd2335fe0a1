"""`trackside run`: start a training script on every rank, watch it, keep the report."""

import os
from collections.abc import Sequence

from trackside.launch.options import parse_options

SUMMARY = "start a script on every rank, as torchrun does, with a live page and a report"


def main(arguments: Sequence[str]) -> int:
    """Run the command and return the exit code: the training's own.

    Raises:
        UsageError: wrong use; nothing was started.
        LaunchError: no PyTorch.
    """
    options = parse_options(arguments, os.environ)
    from trackside.launch.job import Job

    return Job(options, os.environ).run()
