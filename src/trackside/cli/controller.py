"""`trackside controller`: a controller alone, for launchers that are not ours."""

import argparse
import asyncio
import contextlib
import json
import logging
import os
import resource
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from trackside.cli.parser import Parser
from trackside.controller.batch import find_job
from trackside.controller.config import LOOPBACK, ControllerConfig, read_port, read_silence, read_token
from trackside.errors import TracksideError, UsageError
from trackside.sinks.patient import PatientStream
from trackside.wire.address import format_address
from trackside.wire.arguments import utf8_text

SUMMARY = "run a controller alone, for launchers that are not ours"


def main(arguments: Sequence[str]) -> int:
    """Run a controller until its run is over. Prints one JSON line with the address to hand out once it listens.

    Raises:
        UsageError: wrong use.
        TracksideError: it could not begin; the reason is in the ready line as well.
    """
    before = set(threading.enumerate())
    options = _parser().parse_args(list(arguments))
    ready = _Ready(options.ready_fd)
    with PatientStream(sys.stderr) as patient, contextlib.redirect_stderr(patient):
        logging.basicConfig(level=logging.WARNING, format="trackside controller: %(message)s", stream=patient)
        code = _run(options, ready)
    if (
        set(threading.enumerate()) - before
    ):  # a disk or a sink that hangs holds it, and it would hold the interpreter's end
        os._exit(code)
    return code


def _run(options: argparse.Namespace, ready: "_Ready") -> int:
    try:
        config = read_config(options, os.environ)
        return _serve(config, ready)
    except TracksideError as error:
        ready.say({"error": str(error)})
        raise
    finally:
        ready.close()


def _serve(config: ControllerConfig, ready: "_Ready") -> int:
    from trackside.controller.beginning import begin
    from trackside.controller.identity import address_of
    from trackside.controller.lifecycle import Controller
    from trackside.store import keep_frames_out, map_large_blocks

    _raise_file_limit()
    map_large_blocks()
    controller = Controller(config, begin(config))
    try:
        controller.bind()
    except OSError as error:
        raise UsageError(f"the run folder {controller.folder.path} cannot be written: {error.strerror}") from error
    identity = controller.identity

    def say_ready() -> None:
        if not controller.has_sinks_of_others:  # which may want them
            keep_frames_out()
        address = format_address(address_of(identity, os.getpid()))
        directory = str(controller.folder.path)
        said = {"address": address, "directory": directory, "run": identity.run, "pid": os.getpid()}
        note = controller.note
        ready.say({**said, "note": note} if note is not None else said)

    return asyncio.run(controller.run(say_ready))


class _Ready:
    """The ready line: once, to a descriptor or to stdout."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor
        self._said = False

    def say(self, message: dict[str, object]) -> None:
        """Write it, unless something was said already."""
        if self._said:
            return
        self._said = True
        line = json.dumps(message) + "\n"
        if self._descriptor is None:
            if "error" not in message:
                print(line, end="", flush=True)
            return
        with contextlib.suppress(OSError):  # whoever wanted it may be gone
            os.write(self._descriptor, line.encode())

    def close(self) -> None:
        """Let the descriptor go."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = None


def read_config(options: argparse.Namespace, environ: Mapping[str, str]) -> ControllerConfig:
    """Argument before environment before default.

    Raises:
        UsageError: a wrong value.
    """
    port = read_port(options.port, "--port")
    bind = options.bind or environ.get("TRACKSIDE_BIND") or LOOPBACK
    if options.no_page and port is not None:
        raise UsageError(f"--no-page and --port {port} contradict each other; leave one out")
    return ControllerConfig(
        directory=Path(options.dir or environ.get("TRACKSIDE_DIR") or "runs"),
        name=utf8_text(options.name or environ.get("TRACKSIDE_NAME") or "run"),
        resume=Path(options.resume) if options.resume else None,
        again=environ.get("TRACKSIDE_RESUME") or None,
        job=find_job(environ),
        part=options.part or "",
        port=port if port is not None else read_port(environ.get("TRACKSIDE_PORT"), "TRACKSIDE_PORT"),
        wants_page=port is not None,
        no_page=options.no_page,
        bind=bind,
        listen=options.listen or (bind if options.bind else LOOPBACK),
        token=read_token(environ),
        allowed_hosts=tuple(name.strip() for name in (options.allowed_hosts or "").split(",") if name.strip()),
        hold=options.hold,
        silence=read_silence(options.late_after, options.lost_after, environ),
        parent_pid=options.parent_pid,
        ready_fd=options.ready_fd,
    )


def _parser() -> Parser:
    parser = Parser("controller", SUMMARY)
    parser.add_argument("--dir", help="folder that holds the run folders (TRACKSIDE_DIR; default: runs)")
    parser.add_argument("--name", help="the run's name (TRACKSIDE_NAME; default: run)")
    parser.add_argument(
        "--resume", metavar="RUN_DIR", help="go on with a run whose controller was killed while its ranks run"
    )
    parser.add_argument("--part", help=argparse.SUPPRESS)
    parser.add_argument("--port", help="port of the live page; without it, the page opens when a rank asks for one")
    parser.add_argument("--no-page", action="store_true", help="no live page; the report is written all the same")
    parser.add_argument("--bind", help="address of the page (TRACKSIDE_BIND; default: loopback)")
    parser.add_argument("--listen", help="address for the ranks (default: as --bind); 0.0.0.0 for ranks on other hosts")
    parser.add_argument("--allowed-hosts", help="host names a proxy in front of the page uses, separated by commas")
    parser.add_argument("--hold", action="store_true", help="keep the page after the run, until Ctrl-C")
    parser.add_argument(
        "--late-after", metavar="S", help="seconds of silence that make a rank late (TRACKSIDE_LATE_AFTER; default: 10)"
    )
    parser.add_argument(
        "--lost-after", metavar="S", help="seconds of silence that make a rank lost (TRACKSIDE_LOST_AFTER; default: 30)"
    )
    parser.add_argument("--parent-pid", type=int, help="process whose end means that the job has lost its launcher")
    parser.add_argument("--ready-fd", type=int, help="descriptor for the ready line (default: stdout)")
    return parser


def _raise_file_limit() -> None:
    """Every rank is a connection; the usual soft limit of 1,024 files is too low for a thousand of them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 65_536 if hard == resource.RLIM_INFINITY else min(hard, 65_536)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
