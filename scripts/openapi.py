"""Writes the description of the HTTP interface to `docs/reference/openapi.json`; a test fails when it is stale."""

import json
import sys
from pathlib import Path

from trackside.server.openapi import describe_api

TARGET = Path(__file__).resolve().parent.parent / "docs" / "reference" / "openapi.json"


def generate() -> str:
    """The whole file."""
    return json.dumps(describe_api(), indent=2, ensure_ascii=False) + "\n"


def main() -> int:
    """Write the file."""
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(generate(), encoding="utf-8")
    print(f"wrote {TARGET}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
