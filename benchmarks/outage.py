"""What a rank pays, and what is left, while its controller is well, stopped, dead, or swallowed by the network; and `kill -9`.

A process logs ten scalars at 1 kHz, and its controller is healthy, stopped (SIGSTOP), killed, or behind a relay that delivers
nothing. Then a rank, or everything at once, is killed in the middle of logging one scalar at 1 kHz.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from log_call import loop, resident_bytes, start_controller, summary
from record import Figure, save

STATES = ("healthy", "stopped", "dead", "blackholed")
CALLS = 6_000
FLOOD_CALLS = 400_000
"""Of 100 scalars as fast as it goes, with a controller that is dead: more than an hour of 10,000 values a second."""
KILLED_CALLS = 3_000
KILLS = 3


class Relay:
    """Passes bytes on between a port of its own and another one, until `swallow`."""

    def __init__(self, port: int) -> None:
        self._target, self._is_black = port, False
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def swallow(self) -> None:
        """Deliver nothing more; connections stay open."""
        self._is_black = True

    def _accept(self) -> None:
        while True:
            near, _ = self._server.accept()
            far = socket.create_connection(("127.0.0.1", self._target))
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._pass, args=(source, sink), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        while data := source.recv(65_536):
            if not self._is_black:
                sink.sendall(data)


def thread_cpu_s() -> float:
    """CPU time of all threads but the calling one."""
    return time.process_time() - time.thread_time()


def log_in_state(state: str, folder: str) -> dict:
    """Runs in a process of its own; `blackholed` has the relay in its parent."""
    import trackside
    from trackside.wire.address import parse_address

    pid = parse_address(os.environ["TRACKSIDE_CONTROLLER"]).pid
    monitor = trackside.Monitor()
    monitor._runtime._link.connected.wait(30)
    loop(monitor.log, 10, 500, 0.001)
    {"stopped": lambda: os.kill(pid, signal.SIGSTOP), "dead": lambda: os.kill(pid, signal.SIGKILL)}.get(state, int)()
    if state == "dead, flooded":
        os.kill(pid, signal.SIGKILL)
        return flood(monitor, folder)
    if state == "blackholed":
        print("swallow", flush=True)
        sys.stdin.readline()
    memory, cpu = resident_bytes(), thread_cpu_s()
    found = summary(loop(monitor.log, 10, CALLS, 0.001))
    found["cpu"] = (thread_cpu_s() - cpu) / (CALLS / 1000) * 100
    found["grown_mb"] = (resident_bytes() - memory) / 2**20
    began = time.perf_counter()
    monitor.finish()
    found["finish_s"] = time.perf_counter() - began
    found["dropped"] = monitor._runtime.dropped_points
    if state == "stopped":
        os.kill(pid, signal.SIGCONT)
    return found


def flood(monitor: object, folder: str) -> dict:
    """What all that leaves in memory and on the disk, taken and refused values counted."""
    memory = resident_bytes()
    loop(monitor.log, 100, FLOOD_CALLS, 0.0)
    found = {"grown_mb": (resident_bytes() - memory) / 2**20}
    began = time.perf_counter()
    monitor.finish()
    found["finish_s"], found["dropped"] = time.perf_counter() - began, monitor._runtime.dropped_points
    found["disk_mb"] = sum(path.stat().st_size for path in Path(folder).rglob("*.spool")) / 2**20
    return found


def measure(state: str) -> dict:
    """One state in fresh processes."""
    import msgspec

    from trackside.wire.address import format_address, parse_address

    with tempfile.TemporaryDirectory(prefix="trackside-bench-") as folder:
        address = parse_address(start_controller(folder))
        relay = Relay(address.port)
        if state == "blackholed":
            address = msgspec.structs.replace(address, hosts=["127.0.0.1"], port=relay.port)
        command = [sys.executable, __file__, "--state", state, "--folder", folder]
        env = {**os.environ, "TRACKSIDE_CONTROLLER": format_address(address), "TMPDIR": folder}
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        for line in process.stdout:
            if line.strip() == "swallow":
                relay.swallow()
                process.stdin.write("\n")
                process.stdin.flush()
            elif line.startswith("{"):
                found = json.loads(line)
        process.wait(30)
        end(address.pid)
    return found


def end(pid: int) -> None:
    """End a controller that this process started."""
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except (ProcessLookupError, ChildProcessError):
        return


def log_until_killed() -> None:
    """Runs in a process of its own, and kills itself in the call after the last one that counts."""
    import trackside

    monitor = trackside.Monitor()
    monitor._runtime._link.connected.wait(30)
    loop(monitor.log, 1, KILLED_CALLS, 0.001)
    if os.environ.get("KILLS_ALL"):
        from trackside.wire.address import parse_address

        os.kill(parse_address(os.environ["TRACKSIDE_CONTROLLER"]).pid, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def missing_after_kill(*, everything: bool) -> tuple[int, int]:
    """(missing, double) points of `KILLED_CALLS`."""
    from trackside.store import read_points
    from trackside.wire.address import parse_address

    with tempfile.TemporaryDirectory(prefix="trackside-bench-") as folder:
        address = start_controller(folder)
        env = {**os.environ, "TRACKSIDE_CONTROLLER": address, "KILLS_ALL": "1" if everything else ""}
        subprocess.run([sys.executable, __file__, "--killed"], env=env, check=False, timeout=60)
        (run,) = Path(folder).glob("*/")
        pid = parse_address(address).pid
        if everything:
            end(pid)
            command = [sys.executable, "-m", "trackside", "recover", str(run), "--json"]
            subprocess.run(command, check=True, capture_output=True, timeout=120)
        else:
            os.waitpid(pid, 0)
        steps = [step for _, step, _ in read_points(run)]
    return KILLED_CALLS - len(set(steps)), len(steps) - len(set(steps))


def main() -> None:
    figures, raw = [], {}
    for state in STATES:
        raw[state] = row = measure(state)
        what = f"controller {state}"
        figures += [
            Figure(f"{what}: `log()` of 10, 1 kHz, median", row["p50"], "µs", budget=6),
            Figure(f"{what}: p99", row["p99"], "µs", budget=25, note=f"p99.9 {row['p999']:.0f}, most {row['max']:.0f}"),
            Figure(f"{what}: CPU of our threads", row["cpu"], "% of a core", note="10,000 values a second"),
            Figure(f"{what}: memory grown", row["grown_mb"], "MB", note=f"in {CALLS / 1000:g} s"),
            Figure(f"{what}: `finish()`", row["finish_s"], "s", budget=5),
            Figure(f"{what}: values dropped", row["dropped"], "", budget=0),
        ]
    raw["flooded"] = row = measure("dead, flooded")
    what = f"controller dead, {FLOOD_CALLS * 100 / 1e6:g} M values at once"
    figures += [
        Figure(f"{what}: memory grown", row["grown_mb"], "MB", budget=200, note="queue and outbox full"),
        Figure(f"{what}: on the disk", row["disk_mb"], "MB", budget=2048),
        Figure(f"{what}: values dropped and counted", row["dropped"]),
        Figure(f"{what}: `finish()`", row["finish_s"], "s", budget=5),
    ]
    for everything in (False, True):
        rows = [missing_after_kill(everything=everything) for _ in range(KILLS)]
        name = "everything killed at once" if everything else "rank killed"
        raw[name] = rows
        note = f"of {KILLS} times {KILLED_CALLS:,} at 1 kHz; {sum(double for _, double in rows)} twice"
        peer = "0 (JSON lines, aim) to 524 (trackio)" if everything else ""
        figures.append(
            Figure(f"{name}: points missing", sum(gone for gone, _ in rows), "", budget=0, peer=peer, note=note)
        )
    save("outage", "Outages and `kill -9`", figures, raw)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--state")
    parser.add_argument("--folder")
    parser.add_argument("--killed", action="store_true")
    options = parser.parse_args()
    if options.state:
        print(json.dumps(log_in_state(options.state, options.folder)))
    elif options.killed:
        log_until_killed()
    else:
        main()
