"""A command's options: what is wrong with them is said in one line, not under a page of usage."""

import argparse
import sys
from typing import NoReturn

from trackside.errors import UsageError


class Stop(Exception):  # noqa: N818 - it is no error
    """The command has done what was asked (`--help`)."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Parser(argparse.ArgumentParser):
    """Argparse, raising `UsageError` instead of printing and exiting."""

    def __init__(self, command: str, description: str) -> None:
        super().__init__(prog=f"trackside {command}", description=f"{description[0].upper()}{description[1:]}.")

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}\n  see: {self.prog} --help")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        if message:
            print(message, end="", file=sys.stderr)
        raise Stop(status)
