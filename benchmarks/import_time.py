"""What `import trackside` costs: fresh interpreters, one after the other, candidates in turn."""

import json
import statistics
import subprocess
import sys

from record import Figure, save

REPEATS = 21
PROBE = """
import sys, time
before = len(sys.modules)
started = time.perf_counter()
{code}
seconds = time.perf_counter() - started
import json
print(json.dumps([seconds, len(sys.modules) - before]))
"""
CODES = {
    "nothing": "pass",
    "trackside": "import trackside",
    "Monitor": "import trackside; trackside.Monitor",
    "numpy": "import numpy",
}


def measure(code: str) -> tuple[float, int]:
    """Seconds and modules of one import in a fresh interpreter, byte code and files warm."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE.format(code=code)], check=True, capture_output=True, text=True, timeout=60
    )
    seconds, modules = json.loads(done.stdout)
    return seconds, modules


def main() -> None:
    for code in CODES.values():
        measure(code)
    found = {name: [] for name in CODES}
    for _ in range(REPEATS):
        for name, code in CODES.items():
            found[name].append(measure(code))
    ms = {name: statistics.median(seconds for seconds, _ in runs) * 1000 for name, runs in found.items()}
    modules = {name: runs[0][1] for name, runs in found.items()}
    save(
        "import_time",
        "Import",
        [
            Figure(
                "`import trackside`",
                ms["trackside"],
                "ms",
                budget=40,
                peer="240 ms (tensorboardX)",
                note=f"median of {REPEATS} fresh processes, {modules['trackside']} modules",
            ),
            Figure(
                "`import trackside; trackside.Monitor`",
                ms["Monitor"],
                "ms",
                note=f"with the first use of the name, {modules['Monitor']} modules",
            ),
            Figure("`import numpy`, for comparison", ms["numpy"], "ms", note=f"{modules['numpy']} modules"),
        ],
        {"ms": ms, "modules": modules, "seconds": {name: [s for s, _ in runs] for name, runs in found.items()}},
    )


if __name__ == "__main__":
    main()
