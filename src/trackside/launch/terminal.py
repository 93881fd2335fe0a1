"""The launcher's own lines on the terminal: two columns, one entry at a time, never inside a rank's line."""

import os
import threading

from trackside.run.lines import hang

_WORD_WIDTH = 9
"""Of the longest word, `dashboard`."""


class Terminal:
    """Writes whole lines to standard error.

    Threads: any.
    Blocks: while the terminal takes nothing.
    """

    def __init__(self, descriptor: int = 2) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._broken = False

    def line(self, text: str) -> None:
        """Write one line; on a terminal that is narrower, a sentence goes on under its beginning.

        Control characters, which could rewrite the screen, are shown as `?`.
        """
        safe = "".join(character if character.isprintable() or character == "\t" else "?" for character in text)
        rest = "".join(f"{part}\n" for part in hang(safe, self._columns())).encode("utf-8", errors="replace")
        with self._lock:
            while rest and not self._broken:
                try:
                    rest = rest[os.write(self._descriptor, rest) :]
                except BlockingIOError:
                    continue
                except OSError:  # the reader has gone
                    self._broken = True

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._descriptor).columns
        except OSError:  # a file, a pipe, or a terminal that has gone
            return 0

    def entry(self, word: str, text: str) -> None:
        """Write `  word       text`, aligned with the other entries."""
        self.line(f"  {word:<{_WORD_WIDTH}}  {text}")


def duration_text(seconds: float) -> str:
    """Return a duration as `420ms`, `1.5s`, `12s`, `4m 32s`, `3h 12m`."""
    if seconds < 0.9995:
        return f"{round(seconds * 1000)}ms"
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60}s"
    return f"{whole // 3600}h {whole % 3600 // 60}m"
