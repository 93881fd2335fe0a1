"""One launched job on this host: controller, ranks, output, agent, from the first line to the exit code."""

import json
import os
import signal
import socket
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import trackside
from trackside.launch import exchange
from trackside.launch.controller_process import READY_S, ControllerProcess, Ready
from trackside.launch.elastic import Outcome, run_elastic
from trackside.launch.host_agent import HostAgent
from trackside.launch.options import RunOptions
from trackside.launch.output import RankOutput
from trackside.launch.terminal import Terminal, duration_text
from trackside.launch.uplink import AgentUplink, connect
from trackside.launch.workers import Worker
from trackside.monitor.samplers.patience import Patience
from trackside.wire.ids import part_of
from trackside.wire.messages import PortWish

_REPORT = "report.html"
_DISK_S = 3.0
"""How long the disk may take to tell what there is; a shared mount may hang for good."""
_REPORT_S = 10.0
"""How long the end waits for the report before it asks the controller to leave."""


class Job:
    """Runs one job; also the elastic agent's observer.

    Args:
        options: What was asked for.
        environ: The launcher's environment.
    """

    def __init__(self, options: RunOptions, environ: Mapping[str, str]) -> None:
        self._options = options
        self._host = socket.gethostname()
        self._terminal = Terminal()
        self._output = RankOutput()
        self._disabled = environ.get("TRACKSIDE_DISABLED", "") not in ("", "0")
        self._given_address = environ.get("TRACKSIDE_CONTROLLER") or None
        self._found_address: str | None = None
        self._controller: ControllerProcess | None = None
        self._agent = HostAgent(self._connect, options.settings.directory, environ)
        self._agent_started = False
        self._generation = -1
        self._patience_s = exchange.WAIT_S

    def run(self) -> int:
        """Run it to its end and return the exit code: the training's own.

        Threads: the main one.
        """
        if self._options.processes > 1:  # torchrun's own default, without its banner
            os.environ.setdefault("OMP_NUM_THREADS", "1")
        if self._options.note is not None:
            self._terminal.entry("note", self._options.note)
        if self._options.max_nodes == 1 and not self._disabled and not self._given_address:
            self._start_controller()
            self._start_agent()  # which shows where the page is, while torch still gathers itself
        try:
            outcome = run_elastic(self._options.torch, self, f"[{self._host}:r${{rank}}] ")
            return self._finish(outcome)
        except KeyboardInterrupt:  # a second Ctrl-C, while the end is being written
            return 130
        finally:
            self._output.close()
            if self._controller is not None:
                self._controller.stop(grace_s=3.0)

    # --- the elastic agent's observer, in the main thread ---------------------------------------------------------

    def rendezvoused(self, store: Any, group_rank: int, group_size: int) -> None:
        """Agree on the generation; find the controller, or start it and tell the others."""
        self._generation = self._agree(store, group_rank, group_size)
        if self._disabled or self._given_address or self._options.max_nodes == 1:
            return
        if self._controller is None and self._found_address is None:
            if group_rank == 0:
                self._start_controller()
            else:
                self._found_address = exchange.look_up(store)
        if self._controller is not None:
            ready = self._controller.ready()
            exchange.publish(store, ready.address if ready else "")

    @property
    def generation(self) -> int:
        """Of the ranks that are started next."""
        return self._generation

    def environment(self) -> Mapping[str, str]:
        """The controller's address and the generation, for every rank."""
        if self._disabled:
            return {}
        address = self._address()
        if address is None:  # no rank may start a controller of its own beside a launcher that could not
            return {"TRACKSIDE_DISABLED": "1"} if self._controller else {}
        return {
            "TRACKSIDE_CONTROLLER": address,
            "TRACKSIDE_LAUNCHER_PID": str(os.getpid()),
            "TRACKSIDE_GENERATION": str(self._generation),
            **(_autostart() if self._options.instrument else {"TRACKSIDE_INSTRUMENT": "0"}),
        }

    def stream_path(self, rank: int, to_stderr: bool) -> str:
        """A stream whose lines carry the rank."""
        return self._output.open(f"[{self._host}:r{rank}] ", to_stderr)

    def generation_ending(self) -> None:
        """Their end by SIGTERM is no failure."""
        self._agent.generation_ending()

    def stopping(self, signal: str, *, at_once: bool) -> None:
        """The ranks end because they were asked to."""
        self._agent.stopping(signal)
        how = "with Ctrl-C; once more kills the ranks" if signal == "SIGINT" else f"by {signal}"
        self._terminal.entry("stopping", "the ranks are killed" if at_once else how)

    def generation_ended(self) -> None:
        """What ended ranks wrote is shown to its end."""
        self._output.end_generation()

    def workers_started(self, workers: list[Worker]) -> None:
        """Follow them."""
        self._start_agent()
        self._agent.workers_started(workers)

    def _agree(self, store: Any, group_rank: int, group_size: int) -> int:
        wanted, began = self._generation + 1, time.monotonic()
        if self._disabled:
            return wanted
        agreed = exchange.agree(store, wanted, group_rank, group_size, self._patience_s)
        if time.monotonic() - began >= self._patience_s:
            self._patience_s = exchange.SHORT_WAIT_S
        return agreed

    # --- parts ----------------------------------------------------------------------------------------------------

    def _start_controller(self) -> None:
        started = self._options.torch
        part = part_of([str(started.training_script), *map(str, started.training_script_args)])
        settings = replace(self._options.settings, part=part)
        if self._options.max_nodes > 1:  # ranks of other hosts come over the network; the link is encrypted, with keys
            settings = replace(settings, listen="0.0.0.0")
        self._controller = ControllerProcess(settings, self._warn)
        self._controller.start()

    def _start_agent(self) -> None:
        if not self._agent_started:
            self._agent_started = True
            self._agent.start()

    def _warn(self, text: str) -> None:
        self._terminal.entry("warning", text)

    def _ready(self) -> Ready | None:
        return self._controller.ready(READY_S) if self._controller else None

    def _address(self) -> str | None:
        ready = self._ready()
        return self._given_address or self._found_address or (ready.address if ready else None)

    def _connect(self) -> AgentUplink | None:
        address = None if self._disabled else self._address()
        link = connect(address, self._terminal.line) if address else None
        ready = self._ready()
        if ready is not None and ready.note is not None:
            self._terminal.entry("note", ready.note)
        if link is not None and self._controller is not None and self._options.settings.page:
            link.send(PortWish(port=self._options.settings.port))
        return link

    def _finish(self, outcome: Outcome) -> int:
        self._start_agent()  # where no rank was started, it still says how the job ended
        self._agent.settle()
        failure = self._agent.first_failure()
        code = outcome.exit_code
        if code and failure is not None and outcome.signal is None and outcome.error is None:
            code = failure.shell_code
        self._output.close()
        self._agent.end(code, outcome.signal)
        if outcome.error is not None:
            self._terminal.entry("error", outcome.error)
        if self._controller is not None:
            self._close_controller(self._controller)
        return code

    def _close_controller(self, controller: ControllerProcess) -> None:
        ready = controller.ready(0)
        if ready is None:
            return
        folder = Path(ready.directory)
        if not (self._options.settings.hold and self._options.settings.page):
            if not controller.wait(_REPORT_S):
                controller.stop()
            self._say_end(folder)
            return
        _wait_for_end(folder, _REPORT_S)
        self._say_end(folder)
        self._terminal.entry("holding", "the page stays until Ctrl-C")
        try:
            _take_as_interrupt(signal.SIGTERM, signal.SIGHUP)
            controller.wait(None)
        except KeyboardInterrupt:
            controller.stop()

    def _say_end(self, folder: Path) -> None:
        eyes = Patience(_DISK_S)
        found = eyes.ask(lambda: (_run_document(folder), (folder / _REPORT).is_file()))
        eyes.close()
        if found is None:
            self._warn(f"the disk of {folder} does not answer; what there is of the run lies there")
            return
        document, has_report = found
        if document is not None:
            self._terminal.entry(*_end_entry(document))
            for line in _verdict_lines(document, folder):
                self._terminal.line(line)
        if has_report:
            self._terminal.entry("report", str(folder / _REPORT))
        else:
            self._warn(f"no report was written; what is there lies in {folder}")


def _autostart() -> dict[str, str]:
    """What starts a monitor in a script that has none."""
    folder = str(Path(trackside.__file__).parent / "monitor" / "autostart")
    return {"PYTHONPATH": os.pathsep.join(filter(None, (folder, os.environ.get("PYTHONPATH"))))}


def _take_as_interrupt(*numbers: signal.Signals) -> None:
    """The training is over: who ends us now, or closes the terminal, wants the page gone, and the exit code is known."""
    for number in numbers:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)


def _wait_for_end(folder: Path, timeout_s: float) -> None:
    """Until the run folder says how this session ended; a report may be that of an earlier one."""

    def has_ended() -> bool:
        document = _run_document(folder)
        return document is not None and document["state"] not in ("waiting", "running") and (folder / _REPORT).exists()

    deadline, eyes = time.monotonic() + timeout_s, Patience(_DISK_S)
    while not eyes.ask(has_ended) and time.monotonic() < deadline:
        time.sleep(0.05)
    eyes.close()


def _verdict_lines(document: dict[str, Any], folder: Path) -> list[str]:
    """What the run's time went into and who was slow, in at most five lines."""
    if document.get("diagnosis") is None:
        return []
    import msgspec

    from trackside.run.diagnose.words import summary_lines
    from trackside.wire.documents import Diagnosis

    try:
        return summary_lines(msgspec.convert(document["diagnosis"], Diagnosis), str(folder))
    except msgspec.ValidationError:  # a controller of another version
        return []


def _run_document(folder: Path) -> dict[str, Any] | None:
    try:
        document = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) and "state" in document else None


def _end_entry(document: Mapping[str, Any]) -> tuple[str, str]:
    """How it ended, in a word, and after how long."""
    word, detail = str(document["state"]), document.get("state_detail") or ""
    if detail.startswith("stopped "):  # by the user's own hand
        word, detail = "stopped", detail.removeprefix("stopped ")
    seconds = document.get("elapsed_seconds")
    took = f"after {duration_text(seconds)}" if isinstance(seconds, int | float) else ""
    return word, ", ".join(filter(None, (took, detail)))
