"""Writes what the code knows best into `docs/reference/*.md`: signatures, options, addresses, fields.

A page is written by hand; a block between `<!-- generated: NAME -->` and `<!-- end -->` belongs to this script. Run
`python scripts/reference.py` after a change of a docstring, an option or a document; a test fails when a block is stale
(`--check` does the same).
"""

import argparse
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

import msgspec
from wire_types import field_notes, structs, typescript

import trackside
from trackside.cli import COMMANDS
from trackside.server.openapi import describe_api

REFERENCE = Path(__file__).resolve().parent.parent / "docs" / "reference"
BLOCK = re.compile(r"(?<=<!-- generated: )([\w ]+)( -->\n).*?(?=<!-- end -->)", re.DOTALL)
WIDTH = 100
NOT_FOR_USERS = frozenset({"end", "become_inert"})
"""Methods of `Monitor` that its runtime calls."""
SECTIONS = ("Args", "Returns", "Raises", "Yields", "Blocks", "Threads", "Source")


# --- Python -----------------------------------------------------------------------------------------------------------


def monitor_page() -> Iterator[str]:
    """The class, then each public method in the order of the source."""
    yield python(f"Monitor{signature(trackside.Monitor.__init__)}")
    yield prose(trackside.Monitor)
    for name, method in vars(trackside.Monitor).items():
        if not name.startswith("_") and callable(method) and name not in NOT_FOR_USERS:
            yield f"### {name}\n\n"
            yield python(f"mon.{name}{signature(method)}")
            yield prose(method)


def functions_page() -> Iterator[str]:
    """The module's own functions."""
    for name in sorted(trackside.__all__):
        function = getattr(trackside, name)
        if inspect.isfunction(function):
            yield f"### trackside.{name}\n\n"
            yield python(f"trackside.{name}{signature(function)}")
            yield prose(function)


def errors_page() -> Iterator[str]:
    """The tree of exceptions."""
    errors = importlib.import_module("trackside.errors")
    yield from ("| class | is | says |\n", "|---|---|---|\n")
    for cls in vars(errors).values():
        if isinstance(cls, type) and cls.__module__ == errors.__name__:
            bases = ", ".join(f"`{base.__name__}`" for base in cls.__bases__)
            yield f"| `{cls.__name__}` | {bases} | {one_line(inspect.getdoc(cls))} |\n"


def python(text: str) -> str:
    """A line of Python, broken at its parameters when it is too long to read."""
    if len(text) > WIDTH:
        head, _, rest = text.partition("(")
        inside, _, result = rest.rpartition(")")
        text = f"{head}(\n    " + re.sub(r", (?=\*,|\w+:)", ",\n    ", inside) + f",\n){result}"
    return f"```python\n{text}\n```\n\n"


def signature(function: Any) -> str:
    """Parameters with types and defaults, as a reader writes them; `self` is left out."""
    parts: list[str] = []
    found = inspect.signature(function)
    for name, parameter in found.parameters.items():
        if name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        parts.append(f"{name}: {type_name(parameter.annotation)}{default}")
    result = type_name(found.return_annotation)
    return f"({', '.join(parts)})" + ("" if result == "None" else f" -> {result}")


def type_name(annotation: Any) -> str:
    """An annotation without the modules its names come from."""
    text = "None" if annotation is None else inspect.formatannotation(annotation)
    return re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Z])", "", text).replace("~", "")


def prose(thing: Any) -> str:
    """A docstring as Markdown: its sections become lists."""
    lines, section = [], ""
    for line in (inspect.getdoc(thing) or "").splitlines():
        heading, _, rest = line.partition(":")
        if heading in SECTIONS and not rest.strip():
            section = heading
            lines.append(f"{heading}:\n")
        elif section and line.startswith("    ") and not line.startswith("     "):
            names, colon, text = line.strip().partition(": ")
            quoted = ", ".join(f"`{name}`" for name in names.split(", "))
            lines.append(f"- {quoted}: {text}" if colon else f"- {names}")
        else:
            lines.append(line.strip() if section and line else line)
    return "\n".join(lines).strip() + "\n\n"


def one_line(text: str | None) -> str:
    """A text in one line, safe in a table."""
    return " ".join((text or "").split()).replace("|", "\\|")


# --- commands ---------------------------------------------------------------------------------------------------------


class FoundError(Exception):
    """Carries the parser out of the command that was about to use it."""


def parser_of(command: str) -> argparse.ArgumentParser:
    """The parser a command would parse its arguments with."""

    def stop(self: argparse.ArgumentParser, *_: object) -> NoReturn:
        raise FoundError(self)

    module = importlib.import_module(f"trackside.cli.{command}")
    with mock.patch.object(argparse.ArgumentParser, "parse_args", stop):
        try:
            module.main(["--help"])
        except FoundError as found:
            (parser,) = found.args
            if isinstance(parser, argparse.ArgumentParser):
                return parser
    raise TypeError(f"trackside {command} parsed nothing")


def command_page(command: str) -> Iterator[str]:
    """Options of one command; of `run` only those that are not torchrun's."""
    parser = parser_of(command)
    groups = [group for group in parser._action_groups if group.title == "trackside"] if command == "run" else []  # noqa: SLF001
    actions = [action for group in groups for action in group._group_actions] if groups else parser._actions  # noqa: SLF001
    yield from ("| argument | meaning |\n", "|---|---|\n")
    for action in actions:
        if "--help" not in action.option_strings and action.help != argparse.SUPPRESS:
            yield f"| `{spelling(action)}` | {one_line(action.help)} |\n"


def spelling(action: argparse.Action) -> str:
    """How an argument is typed: its options, then its value or choices."""
    value = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    if action.choices:
        value = "\\|".join(map(str, action.choices))
    if not action.option_strings:
        return f"[{value}]" if action.nargs == "?" else value
    names = ", ".join(action.option_strings)
    return names if action.nargs == 0 else f"{names} {value}"


# --- HTTP -------------------------------------------------------------------------------------------------------------


def routes_page() -> Iterator[str]:
    """Every address with what it answers and takes."""
    yield from ("| address | answers | JSON | query |\n", "|---|---|---|---|\n")
    for path, item in describe_api()["paths"].items():
        found = item["get"]
        (content,) = found["responses"]["200"]["content"].items()
        query = ", ".join(f"`{each['name']}`" for each in found.get("parameters", []) if each["in"] == "query")
        yield f"| `{path}` | {one_line(found['summary'])} | {schema_name(*content)} | {query} |\n"


def schema_name(media: str, content: dict[str, Any]) -> str:
    """A link to the document, or what else it is."""
    if media != "application/json":
        return media
    schema = content["schema"]
    name = schema.get("items", schema).get("$ref", "").rpartition("/")[2]
    return (f"[{name}](#{name.lower()})" + (" list" if "items" in schema else "")) if name else "JSON"


def parameters_page() -> Iterator[str]:
    """What the query parameters mean."""
    described = {
        parameter["name"]: parameter
        for item in describe_api()["paths"].values()
        for parameter in item["get"].get("parameters", [])
    }
    yield from ("| parameter | meaning | default |\n", "|---|---|---|\n")
    for name, parameter in described.items():
        default = parameter["schema"].get("default")
        yield f"| `{name}` | {one_line(parameter.get('description'))} | {'' if default is None else f'`{default}`'} |\n"


def documents_page() -> Iterator[str]:
    """The fields of every JSON answer."""
    for cls in structs():
        yield f"### {cls.__name__}\n\n{inspect.getdoc(cls)}\n\n| field | type | |\n|---|---|---|\n"
        info = msgspec.inspect.type_info(cls)
        notes = field_notes(cls)
        for field in getattr(info, "fields", ()):
            kind = typescript(field.type).replace("|", "\\|")
            yield f"| `{field.encode_name}` | `{kind}` | {one_line(notes.get(field.name))} |\n"
        yield "\n"


# --- pages ------------------------------------------------------------------------------------------------------------

BLOCKS: dict[str, Callable[[], Iterator[str]]] = {
    "monitor": monitor_page,
    "functions": functions_page,
    "errors": errors_page,
    "routes": routes_page,
    "parameters": parameters_page,
    "documents": documents_page,
    **{f"command {name}": partial(command_page, name) for name in COMMANDS},
}


def refreshed(text: str) -> str:
    """A page with its blocks as they should be."""
    return BLOCK.sub(lambda found: found[1] + found[2] + "\n" + "".join(BLOCKS[found[1]]()).strip() + "\n\n", text)


def main() -> int:
    """Write the pages; with `--check` only say which are stale."""
    pages = {path: path.read_text(encoding="utf-8") for path in sorted(REFERENCE.glob("*.md"))}
    wanted = {path: refreshed(text) for path, text in pages.items()}
    stale = [path for path, text in pages.items() if wanted[path] != text]
    used = {name for text in pages.values() for name, _ in BLOCK.findall(text)}
    missing = sorted(BLOCKS.keys() - used)
    if missing:
        print(f"no page has the block {', '.join(missing)}")
    if "--check" in sys.argv[1:]:
        for path in stale:
            print(f"docs/reference/{path.name} is stale; run python scripts/reference.py")
        return 1 if stale or missing else 0
    for path in stale:
        path.write_text(wanted[path], encoding="utf-8")
        print(f"wrote {path}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
