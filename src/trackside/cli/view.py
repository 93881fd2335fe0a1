"""`trackside view`: the page over a run folder, finished or still being written."""

import asyncio
import json
import logging
import os
import sys
from collections.abc import Sequence

from trackside.cli.parser import Parser
from trackside.controller.config import LOOPBACK, ControllerConfig, make_token, read_port, read_token
from trackside.sinks.terminal import escape_controls

SUMMARY = "show the page over a finished or running run folder"


def main(arguments: Sequence[str]) -> int:
    """Serve the page until Ctrl-C.

    Raises:
        UsageError: wrong use.
        RunFolderError: no run folder.
        PortTakenError: the wanted port has another holder.
    """
    logging.basicConfig(level=logging.WARNING, format="trackside view: %(message)s", stream=sys.stderr)
    parser = Parser("view", SUMMARY)
    parser.add_argument("run", metavar="RUN_DIR", help="a run: its folder, or its name in `trackside ls`")
    parser.add_argument("--port", help="port of the page (TRACKSIDE_PORT; default: 7117, or the next that is free)")
    parser.add_argument("--bind", help="address of the page (TRACKSIDE_BIND; default: loopback)")
    parser.add_argument("--allowed-hosts", help="host names a proxy in front of the page uses, separated by commas")
    parser.add_argument("--json", action="store_true", help="print the page's address as JSON")
    options = parser.parse_args(list(arguments))
    bind = options.bind or os.environ.get("TRACKSIDE_BIND") or LOOPBACK
    port = options.port if options.port is not None else os.environ.get("TRACKSIDE_PORT")
    config = ControllerConfig(
        port=read_port(port, "--port" if options.port is not None else "TRACKSIDE_PORT"),
        bind=bind,
        token=read_token(os.environ),
        allowed_hosts=tuple(name.strip() for name in (options.allowed_hosts or "").split(",") if name.strip()),
    )
    from trackside.controller.viewing import Viewer
    from trackside.store import choose_run, keep_frames_out

    keep_frames_out()
    token = None if config.is_loopback else config.token or make_token()
    run = choose_run(options.run, os.environ.get("TRACKSIDE_DIR") or "runs")
    viewer = Viewer(str(run), config, token)

    def say(url: str, line: str) -> None:
        if options.json:
            print(json.dumps({"url": url, "directory": str(viewer.directory)}), flush=True)
        else:
            print(f"{line}\n{escape_controls(f'  run folder {viewer.directory}')}\n  Ctrl-C ends it", flush=True)

    return asyncio.run(viewer.run(say))
