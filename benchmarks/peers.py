"""Side by side with a peer, in one run: `python benchmarks/peers.py --harness DIR --peers trackio,trackside --parts b,c,d,g`.

The harness (peer_bench.py and its adapters) lies outside this repository; it is taken into a temporary folder, where
Trackside's adapter joins it. Results go to `benchmarks/results/peers.json`.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "peers.json"


def enter(harness: Path, folder: Path) -> Path:
    """Lay the harness into `folder` with our adapter in it; return its driver."""
    shutil.copytree(harness, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("results", "__pycache__"))
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    shutil.copy(HERE / "peer_adapter.py", folder / "adapters" / "trackside.py")
    return folder / "peer_bench.py"


def measure(driver: Path, parts: str, peers: str, arguments: str) -> dict[str, dict[str, object]]:
    """Run the parts for all peers in turn; return what the harness wrote, by part and peer."""
    command = [sys.executable, str(driver), "--parts", parts, "--peers", peers, "--args", arguments]
    subprocess.run(command, check=True)
    return {path.stem: json.loads(path.read_text()) for path in sorted((driver.parent / "results").glob("*.json"))}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--harness", type=Path, default=HERE.parent.parent / "shared" / "peers")
    parser.add_argument("--peers", default="null,jsonl,trackio,trackside")
    parser.add_argument("--parts", default="b,c,d,g")
    parser.add_argument("--args", default="{}", help="JSON arguments of the parts")
    options = parser.parse_args()
    if not (options.harness / "peer_bench.py").is_file():
        print(f"peers: no peer_bench.py in {options.harness}; name its folder with --harness", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="trackside-peers-") as folder:
        found = measure(enter(options.harness, Path(folder)), options.parts, options.peers, options.args)
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for part, rows in found.items():
        results.setdefault(part, {}).update(rows)
    results["machine"] = {"cpus": os.cpu_count(), "python": platform.python_version(), "at": time.time()}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
