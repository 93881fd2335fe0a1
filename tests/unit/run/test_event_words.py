"""Every class of event that the source can raise is words, and the reference says what to do about it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from trackside.controller.limits import SENTENCES

PLACE = {"raise_event": 2, "raise_by_rank": 2, "FrameRefused": 0, "_say": 1, "_refuse": 1}
"""Which argument of a call is the class."""
NAMING = ("Verdict", "Warning", "_verdict", "raise_event")
WORDS = re.compile(r"[a-z]+(?:[ -][a-z]+)*")


def kinds_of(path: Path) -> Iterator[str]:
    """The classes that a module names."""
    tree = ast.parse(path.read_text())
    constants = {
        node.targets[0].id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        wanted = "about" if name == "Notice" else "kind"
        said = [keyword.value for keyword in call.keywords if keyword.arg == wanted and "sort" not in name]
        if name in PLACE and len(call.args) > PLACE[name]:
            said.append(call.args[PLACE[name]])
        for value in said:
            meant = constants.get(value.id, value) if isinstance(value, ast.Name) else value
            for choice in (meant.body, meant.orelse) if isinstance(meant, ast.IfExp) else (meant,):
                if isinstance(choice, ast.Constant) and isinstance(choice.value, str):
                    yield choice.value


def test_every_class_of_event_is_words_and_the_reference_says_what_to_do(root: Path) -> None:
    source = root / "src/trackside"
    folders = [source / name for name in ("run", "ingest", "controller", "store", "wire", "monitor")]
    kinds = {kind for folder in folders for path in folder.rglob("*.py") for kind in kinds_of(path)}
    kinds -= {"stable"}  # how numpy sorts
    kinds |= {kind for kind, _ in SENTENCES.values()} | {"sink … behind"}
    assert len(kinds) > 40
    assert {"rank lost", "events left out", "straggler", "wrong key", "damaged file"} <= kinds
    assert [kind for kind in kinds if not WORDS.fullmatch(kind.replace(" …", ""))] == []
    rows = [
        row.split("|") for row in (root / "docs/reference/events.md").read_text().splitlines() if row.startswith("| `")
    ]
    told = {kind for row in rows for kind in re.findall(r"`([^`]+)`", row[1])} - {"kind"}
    assert told == kinds
    assert all(len(cell.strip()) > 3 for row in rows for cell in row[2:4])
