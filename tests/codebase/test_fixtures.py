"""The shared fixtures see what they are there to see: each leak, and each fault of a page, is planted once."""

import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent, indent

LEAKS = {
    "thread": """
        import threading
        threading.Thread(target=threading.Event().wait, args=(60,), name="lingering", daemon=True).start()
    """,
    "descriptor": """
        import os
        os.pipe()
    """,
    "child": """
        import subprocess, sys
        globals()["kept"] = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    """,
    "detached": """
        import subprocess, sys
        start = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])"
        subprocess.run([sys.executable, "-c", start], start_new_session=True, check=True)
    """,
    "memory": """
        import os
        from trackside.monitor.spool import Spool, memory_folder
        hello = os.environ["TMPDIR"].encode()
        Spool(memory_folder(), f"trackside-{os.getpid():032x}-000001", hello).leave()
    """,
    "temporary": """
        from trackside.monitor.spool import private_folder
        private_folder().joinpath("trackside-1.part").write_bytes(b"")
    """,
    "socket": """
        import os, socket
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(os.environ["TMPDIR"] + "/socket")
    """,
    "nothing": "pass",
}

LEFT_BEHIND = {
    "thread": "threads: lingering",
    "descriptor": "descriptors: ",
    "child": "processes: ",
    "detached": "processes: ",
    "memory": "files: /dev/shm/trackside-",
    "temporary": "trackside-1.part",
    "socket": "/socket",
}

FAULTS = {
    "exception": "setTimeout(() => { throw new Error('planted') })",
    "logged": "console.error('planted')",
    "outside": "fetch('http://outside.invalid/x').catch(() => 0)",
    "nothing": "console.log('fine')",
}

NOTICED = {"exception": "exception: planted", "logged": "console: planted", "outside": "http://outside.invalid/x"}


def complaints(root: Path, folder: Path, fixture: str, bodies: dict[str, str]) -> dict[str, str]:
    """Run one test for each body, each with `fixture`, under this repository's conftest; what was said on teardown."""
    conftest = (root / "tests/conftest.py").read_text().replace("LEAK_DEADLINE_S = 15.0", "LEAK_DEADLINE_S = 0.3")
    (folder / "conftest.py").write_text(conftest)
    tests = [f"def test_{name}({fixture}):\n{indent(dedent(body).strip(), '    ')}\n" for name, body in bodies.items()]
    (folder / "test_planted.py").write_text("\n".join(tests))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", root / "pyproject.toml", folder],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert f"{len(bodies)} passed" in done.stdout, done.stdout + done.stderr
    return dict(re.findall(r"^_+ ERROR at teardown of test_(\w+) _+$(.*?)(?=^_+ ERROR|^=)", done.stdout, re.M | re.S))


def test_planted_leaks_fail_their_tests(root: Path, tmp_path: Path) -> None:
    said = complaints(root, tmp_path, "leak_check", LEAKS)
    assert said.keys() == LEFT_BEHIND.keys()
    assert [name for name, text in said.items() if LEFT_BEHIND[name] not in text] == []


def test_planted_faults_of_a_page_fail_their_tests(root: Path, tmp_path: Path) -> None:
    bodies = {
        name: f'page.evaluate("() => {{ {script} }}")\npage.wait_for_timeout(100)' for name, script in FAULTS.items()
    }
    said = complaints(root, tmp_path, "page", bodies)
    assert said.keys() == NOTICED.keys()
    assert [name for name, text in said.items() if NOTICED[name] not in text] == []
