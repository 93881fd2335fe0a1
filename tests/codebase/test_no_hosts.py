"""Trackside talks to nobody: no outside host is named in the source, but in the licence and as an XML name."""

import re
import subprocess
from pathlib import Path

# A host in a URL of any scheme, and a bare name under a domain that people use for services.
URL = re.compile(r"(?<![\w.])(?:https?|wss?|ftp|git)://(?:[^\s/@\"'`<>]*@)?(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9][\w.-]*)")
BARE = re.compile(r"(?<![\w.@-])((?:[a-z0-9-]+\.)+(?:com|org|net|io))(?![\w.(-])")

# Names that reach nobody: this machine, and what standards keep free for documentation.
THIS_MACHINE = re.compile(r"localhost|127\.\d+\.\d+\.\d+|0\.0\.0\.0|\[::1?\]")
RESERVED = re.compile(
    r"(.*\.)?(example|invalid|test|localhost|local|internal)(\.(com|org|net))?|(192\.0\.2|10\.\d+\.\d+)\.\d+"
    r"|\[2001:db8:[0-9a-f:]*\]"
)

# A host that may stand in one kind of place, with the reason.
ALLOWED = {
    "www.w3.org": ("*", "names an XML vocabulary; nothing is fetched"),
    "www.apache.org": ("LICENSE", "the licence's own text"),
    "keepachangelog.com": ("CHANGELOG.md", "a link for the reader"),
    "semver.org": ("CHANGELOG.md", "a link for the reader"),
}

ITSELF = "tests/codebase/test_no_hosts.py"  # it must name what it allows
BINARY = frozenset({".png", ".jpg", ".ico", ".woff2", ".parquet", ".gz"})


def hosts_in(name: str, text: str) -> list[str]:
    """`name:line host` for every outside host in `text`."""
    return [
        f"{name}:{number} {host}"
        for number, line in enumerate(text.splitlines(), start=1)
        for host in sorted({*URL.findall(line), *BARE.findall(line)})
        if is_outside(host, name)
    ]


def is_outside(host: str, name: str) -> bool:
    if THIS_MACHINE.fullmatch(host) or RESERVED.fullmatch(host) or ("." not in host and ":" not in host):
        return False
    place, _ = ALLOWED.get(host, ("", ""))
    return place != "*" and place != name


def files_of(root: Path) -> list[str]:
    """Every file that is, or would be, in the repository; a lock file of packages is looked at on its own."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    )
    return [
        name
        for name in listed.stdout.splitlines()
        if name != ITSELF
        and Path(name).name != "package-lock.json"
        and Path(name).suffix not in BINARY
        and (root / name).is_file()
    ]


def test_d71_no_outside_host_is_named(root: Path) -> None:
    files = files_of(root)
    assert "pyproject.toml" in files
    assert [hit for name in files for hit in hosts_in(name, (root / name).read_text())] == []


def test_lock_file_names_no_source(root: Path) -> None:
    """Packages come from whatever registry the machine is set up for: `omit-lockfile-registry-resolved` in .npmrc."""
    assert '"resolved": "http' not in (root / "web/package-lock.json").read_text()


def test_planted_hosts_are_seen() -> None:
    outside, bare = "cdn." + "somewhere.net", "fonts." + "elsewhere.com"
    text = f"""
<script src="https://{outside}/a.js"></script>
see {bare} for more
wss://user:secret@{outside}:99/x
http://localhost:7117/ http://127.0.0.1/ http://[::1]:7117 http://gpu-01:7117 http://dash.example.com
http://www.w3.org/2000/svg self.net.io() torch.distributed.run
"""
    assert hosts_in("page.html", text) == [
        f"page.html:2 {outside}",
        f"page.html:3 {bare}",
        f"page.html:4 {outside}",
    ]
