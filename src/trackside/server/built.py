"""The built page: a folder of static files. Without anything of a server: every report holds them."""

from pathlib import Path

STATIC = Path(__file__).parent / "static"
INDEX = "index.html"
NOT_BUILT = b"""<!doctype html><html lang="en"><meta charset="utf-8"><title>Trackside</title>
<h1>The page is not built</h1>
<p>This is a working tree without a built page. Run <code>python hatch_build.py</code> (it needs npm) and open this again.
The numbers are here already: <a href="api/v1/run">api/v1/run</a>.</p></html>
"""


def read_files(folder: Path = STATIC) -> dict[str, bytes]:
    """Every file of the built page by its path below `folder`; without a built page, a page that says so."""
    if not (folder / INDEX).is_file():
        return {INDEX: NOT_BUILT}
    files = (file for file in sorted(folder.rglob("*")) if file.is_file() and not file.name.startswith("."))
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}
