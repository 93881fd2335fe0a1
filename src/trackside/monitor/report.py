"""The report, as the rank that started its run sees it: waited for a little, and said where it is."""

import time
from pathlib import Path

from trackside.monitor import console
from trackside.monitor.samplers.patience import Patience
from trackside.monitor.starter import Starter

LOOK_S = 0.02
ANSWER_S = 1.0
"""How long the disk may take to tell whether a file is there; a shared mount may hang for good."""


class ReportWatch:
    """Looks for the report in a thread of its own.

    Args:
        path: Where it will be.
        starter: Knows whether the controller is still there.
    """

    def __init__(self, path: Path, starter: Starter) -> None:
        self.path = path
        self._starter = starter
        self._eyes = Patience(ANSWER_S)

    def wait(self, seconds: float) -> bool:
        """Whether it is there. Blocks: up to `seconds`, and one more where the disk hangs."""
        deadline = time.monotonic() + seconds
        while not (is_there := self._sees()) and time.monotonic() < deadline:
            if self._starter.is_ours and self._starter.has_ended():
                is_there = self._sees()
                break
            time.sleep(LOOK_S)
        self._eyes.close()
        return is_there

    def say(self, is_there: bool, later: str) -> None:
        """Print where it is, or why it is not; `later`: when it will be there."""
        if is_there:
            console.say(f"  report     {self.path}")
        elif self._starter.has_ended():
            console.say(f"  trackside: no report was written; what is there lies in {self.path.parent}")
        else:
            console.say(f"  report     {self.path}  ({later})")

    def _sees(self) -> bool:
        try:
            return bool(self._eyes.ask(self.path.is_file))
        except RuntimeError:  # no thread may begin any more while the interpreter ends
            return self.path.is_file()
