"""Imported by Python itself before a rank's script.

Takes its folder back out of the path, so that no child process of the rank finds it, waits for torch, and then makes room
for the `sitecustomize` that would have been imported without it.
"""

import os
import sys


def _leave(folder: str) -> None:
    """Neither this process nor its children find us again."""
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != folder]  # noqa: PTH100 - pathlib is not loaded yet
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    left = [entry for entry in entries if entry != folder]
    if left:
        os.environ["PYTHONPATH"] = os.pathsep.join(left)
    else:
        os.environ.pop("PYTHONPATH", None)


def _wait_for_torch() -> None:
    if "RANK" not in os.environ or "TRACKSIDE_CONTROLLER" not in os.environ:
        return
    try:
        from trackside.monitor.phases.imports import ImportWatch
    except ImportError:  # another Python than the launcher's, without Trackside: it runs as it would
        return
    rank = os.getpid()

    def begin() -> None:
        if os.getpid() == rank:  # a child that was forked before is no rank
            from trackside.monitor.automatic import begin

            begin()

    ImportWatch("torch", begin).install()


def _make_room() -> None:
    """Import the one that is hidden behind us, if there is one, with whatever it raises."""
    ours = sys.modules.pop(__name__, None)
    try:
        import sitecustomize  # type: ignore[import-not-found]  # noqa: F401 - the next one on the path
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        if ours is not None:
            sys.modules.setdefault(__name__, ours)


if __name__ == "sitecustomize":
    _leave(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
    _wait_for_torch()
    _make_room()
