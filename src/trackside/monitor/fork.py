"""Forked children: what a monitor holds of its process does not exist there, so everything becomes inert."""

import os
from typing import Protocol
from weakref import WeakSet


class Forkable(Protocol):
    """Something that must not act in a forked child."""

    def become_inert(self) -> None:
        """Called in the child, first thing; takes no lock. Raises: never."""
        ...


class ForkWatch:
    """Tells its members when they find themselves in a forked child. Threads: any may add."""

    def __init__(self) -> None:
        self._members: WeakSet[Forkable] = WeakSet()
        self._is_registered = False

    def add(self, member: Forkable) -> None:
        """Watch over a member for as long as it lives."""
        self._members.add(member)
        if not self._is_registered:
            self._is_registered = True
            os.register_at_fork(after_in_child=self._tell)

    def _tell(self) -> None:
        for member in list(self._members):
            member.become_inert()
