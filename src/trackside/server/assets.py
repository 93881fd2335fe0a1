"""The built page as it is served."""

import gzip
import hashlib
import mimetypes
import re
from dataclasses import dataclass
from pathlib import Path

from trackside.server.built import INDEX, STATIC, read_files
from trackside.server.security import ADD_SLASH

_SCRIPT = re.compile(rb"<script\b")
HASHED = re.compile(r"[-.][A-Za-z0-9_-]{8,}\.[a-z0-9]+$")
"""Names that hold a hash of their content, as Vite writes them: they may be kept for ever."""
mimetypes.add_type("text/javascript", ".js")
mimetypes.add_type("image/svg+xml", ".svg")
mimetypes.add_type("font/woff2", ".woff2")


@dataclass(frozen=True, slots=True)
class Asset:
    """One file of the page."""

    content: bytes
    compressed: bytes | None
    """In gzip, where that is smaller."""
    media_type: str
    etag: str
    immutable: bool
    """Whether its name changes with its content."""


def read_assets(folder: Path = STATIC) -> dict[str, Asset]:
    """The same files, ready to be served."""
    files = read_files(folder)
    files[INDEX] = _SCRIPT.sub(
        rb"<script>%s</script>\g<0>" % ADD_SLASH.encode().replace(b"\\", rb"\\"), files[INDEX], count=1
    )
    return {name: _asset(name, content) for name, content in files.items()}


def _asset(name: str, content: bytes) -> Asset:
    media_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
    compressed = gzip.compress(content, compresslevel=9, mtime=0) if len(content) > 512 else content
    return Asset(
        content=content,
        compressed=compressed if len(compressed) < len(content) else None,
        media_type=f"{media_type}; charset=utf-8" if media_type.startswith("text/") else media_type,
        etag=f'"{hashlib.sha256(content).hexdigest()[:20]}"',
        immutable=name.startswith("assets/") and HASHED.search(name) is not None,
    )
