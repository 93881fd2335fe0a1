"""The command line of `trackside run`: torchrun's own options and ours, in torchrun's own parser."""

import argparse
import importlib.util
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from trackside.errors import LaunchError, UsageError
from trackside.launch.settings import RunSettings, add_run_options, settings_from

_TORCHS = ("--nproc-per-node", "--nproc_per_node", "--nnodes", "--max-restarts", "--max_restarts")
"""Of torch's options those that are forgotten in front of the script."""
_NO_TORCH = (
    "trackside run needs PyTorch, whose elastic agent starts the ranks, and it is not installed for {python}\n"
    "  install it: pip install torch\n"
    "  a script without PyTorch needs no launcher: python train.py, with trackside.Monitor inside"
)


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What was asked for, already checked."""

    settings: RunSettings
    torch: Any
    """Torchrun's own namespace, as its parser made it."""
    processes: int
    """Ranks on this host."""
    max_nodes: int
    note: str | None
    """What looks like a slip, for people."""
    instrument: bool
    """Whether torch is watched in the ranks, also in a script without a `Monitor`."""


def _refuse(message: str) -> NoReturn:
    """Say what is wrong in one line, not under forty lines of usage."""
    raise UsageError(f"{message}\n  see: trackside run --help")


def parse_options(arguments: Sequence[str], environ: Mapping[str, str]) -> RunOptions:
    """Read and check the command line; nothing is started or written.

    Raises:
        UsageError: an unknown option, a wrong value, a script that does not exist, a folder that cannot be written.
        LaunchError: no torch.
    """
    torchrun = _torchrun()
    parser = torchrun.get_args_parser()
    parser.error = _refuse
    parser.allow_abbrev = False  # or the script's own `--signal` is "ambiguous" with torchrun's options
    parser.prog = "trackside run"
    parser.description = (
        "Start a training script on every rank, as torchrun does, with a live page beside it and a report at its end. "
        "All of torchrun's options are taken; Trackside's own are below."
    )
    add_run_options(parser)
    if not arguments:
        raise UsageError("which script?\n  usage: trackside run --nproc-per-node 2 train.py --its-own options")
    namespace = parser.parse_args(list(arguments))
    _check_script(namespace)
    processes = _checked(torchrun.determine_local_world_size, namespace.nproc_per_node, "--nproc-per-node")
    least, most = _checked(torchrun.parse_min_max_nnodes, namespace.nnodes, "--nnodes")
    if processes < 1 or not 0 < least <= most:
        raise UsageError(
            f"--nnodes {namespace.nnodes} --nproc-per-node {namespace.nproc_per_node} leaves no rank to run"
        )
    namespace.nproc_per_node = str(processes)
    settings = settings_from(namespace, environ, default_name=_default_name(namespace))
    return RunOptions(
        settings=settings,
        torch=namespace,
        processes=processes,
        max_nodes=most,
        note=_note_on_order(namespace),
        instrument=not namespace.no_instrument and _may_instrument(environ),
    )


def _note_on_order(namespace: argparse.Namespace) -> str | None:
    """An option behind the script is the script's; one of ours that the script says nothing of was hardly meant so."""
    ours = {*_own_options(), *_TORCHS}
    script = Path(str(namespace.training_script))
    given = [str(argument).partition("=")[0] for argument in namespace.training_script_args]
    astray = [option for option in given if option in ours]
    if not astray or namespace.module or namespace.no_python:
        return None
    try:
        text = script.read_text("utf-8", errors="replace")
    except OSError:
        return None
    option = next((one for one in astray if not re.search(rf"\b{one[2:].replace('-', '[-_]')}\b", text)), None)
    if option is None:
        return None
    return f"{option} stands behind {script.name} and is the script's; for Trackside it stands before: trackside run {option} … {script.name}"


def _own_options() -> list[str]:
    parser = argparse.ArgumentParser(add_help=False)
    add_run_options(parser)
    return [f"--{name.replace('_', '-')}" for name in vars(parser.parse_args([]))]


def _may_instrument(environ: Mapping[str, str]) -> bool:
    return environ.get("TRACKSIDE_INSTRUMENT", "").strip().lower() not in ("0", "false", "no")


def _torchrun() -> Any:
    try:
        from torch.distributed import run
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] != "torch":
            raise LaunchError(f"PyTorch is installed and cannot be imported: {error}") from error
        raise LaunchError(_NO_TORCH.format(python=sys.executable)) from error
    return run


def _checked(read: Any, text: str, option: str) -> Any:
    try:
        return read(text)
    except (ValueError, RuntimeError) as error:
        raise UsageError(f"{option} {text}: {error}") from error


def _default_name(namespace: argparse.Namespace) -> str:
    script = str(namespace.training_script)
    return script.rpartition(".")[2] if namespace.module else Path(script).stem


def _check_script(namespace: argparse.Namespace) -> None:
    script = str(namespace.training_script)
    if namespace.module:
        sys.path.insert(0, str(Path.cwd()))  # where `python -m` looks first
        try:
            found: Any = importlib.util.find_spec(script.partition(".")[0])
        except (ImportError, ValueError):
            found = None
        finally:
            sys.path.pop(0)
        missing = f"no module named {script!r}"
    elif namespace.no_python:
        found, missing = shutil.which(script), f"no program {script!r}"
    else:
        found = Path(script).is_file() or (Path(script) / "__main__.py").is_file()
        missing = f"no script {script!r} in {Path.cwd()}"
    if not found:
        raise UsageError(f"{missing}\n  options of `trackside run` stand before the script, the script's own after it")
