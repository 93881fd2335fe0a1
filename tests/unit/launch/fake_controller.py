"""Plays `trackside controller` for its starter's tests: says it is ready and lives as its --name tells it.

`die:N` exits with code 1 in its first N lives; `mute` never speaks; `refuse` fails at once; `error` says why it fails; `leave` ends cleanly at once;
anything else stays until SIGTERM.
"""

import json
import os
import signal
import sys
from pathlib import Path


def main() -> None:
    options = dict(zip(sys.argv[2::2], sys.argv[3::2], strict=False))
    folder = Path(options.get("--resume") or Path(options["--dir"]) / "run")
    folder.mkdir(exist_ok=True)
    lives = folder / "lives"
    with lives.open("a") as file:
        file.write(f"{'resume' if '--resume' in options else 'start'}\n")
    (folder / "argv").write_text(json.dumps(sys.argv[1:]))
    (folder / "environ").write_text(json.dumps(dict(os.environ)))
    (folder / "pid").write_text(str(os.getpid()))
    name_file = folder / "name"
    if "--name" in options:
        name_file.write_text(options["--name"])
    how = name_file.read_text()
    if how == "refuse":
        sys.exit(2)
    if how == "error":
        os.write(int(options["--ready-fd"]), b'{"error": "the disk is made of cheese"}\n')
        sys.exit(2)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    if how != "mute":
        ready = {"address": "trackside1:secret", "directory": str(folder), "run": "r1", "pid": os.getpid()}
        os.write(int(options["--ready-fd"]), json.dumps(ready).encode() + b"\n")
    word, _, number = how.partition(":")
    if word == "die" and len(lives.read_text().splitlines()) <= int(number):
        sys.exit(1)
    if word == "leave":
        sys.exit(0)
    while True:
        signal.pause()


main()
