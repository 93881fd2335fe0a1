"""`trackside demo`: a real small model on two local ranks, with the page on and a report at its end."""

import argparse
import importlib.util
import os
import sys
from collections.abc import Sequence

from trackside.cli.parser import Parser
from trackside.errors import LaunchError, UsageError
from trackside.launch.options import parse_options
from trackside.launch.settings import add_run_options

SUMMARY = "train a real small model on two local ranks, with the page on"

_NEEDS = {"torch": "torch", "sklearn": "scikit-learn"}
_TRAINING = "trackside.cli.demo_training"


def main(arguments: Sequence[str]) -> int:
    """Run the command and return the training's exit code.

    Raises:
        UsageError: wrong use.
        LaunchError: what it trains with is not installed.
    """
    chosen = _parser().parse_args(list(arguments))
    if chosen.epochs < 1 or not 0 < chosen.seconds < 86400:
        raise UsageError(f"--epochs {chosen.epochs} --seconds {chosen.seconds:g}: both must be positive")
    missing = [package for module, package in _NEEDS.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise LaunchError(
            f"trackside demo trains a real model; {' and '.join(missing)} is missing for {sys.executable}\n"
            f"  install: pip install {' '.join(missing)}"
        )
    options = parse_options(_run_arguments(chosen), os.environ)
    from trackside.launch.job import Job

    return Job(options, os.environ).run()


def _parser() -> Parser:
    parser = Parser("demo", SUMMARY)
    parser.add_argument("--epochs", type=int, default=12, help="default: 12")
    parser.add_argument("--seconds", type=float, default=25, help="how long to take at least; default: 25")
    add_run_options(parser)
    return parser


def _run_arguments(chosen: argparse.Namespace) -> list[str]:
    options = ["--nproc-per-node", "2", "--name", chosen.name or "demo"]
    for name, value in (
        ("--dir", chosen.dir),
        ("--port", chosen.port),
        ("--bind", chosen.bind),
        ("--allowed-hosts", chosen.allowed_hosts),
    ):
        options += [name, value] if value is not None else []
    options += ["--hold"] if chosen.hold else []
    options += ["--no-page"] if chosen.no_page else []
    return [*options, "-m", _TRAINING, "--epochs", str(chosen.epochs), "--seconds", str(chosen.seconds)]
