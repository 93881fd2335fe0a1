"""Text between processes of ours, whatever the locale: always UTF-8."""

from collections.abc import Sequence


def encode_arguments(words: Sequence[str]) -> list[bytes]:
    """Arguments for a command of ours as UTF-8, which it reads them as; bytes of a path that are none stay as they are."""
    return [_encoded(word) for word in words]


def utf8_text(text: str) -> str:
    """An argument, path or variable as it was meant, also where the locale knows ASCII only."""
    return _encoded(text).decode("utf-8", "replace")


def _encoded(word: str) -> bytes:
    try:
        return word.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return word.encode("utf-8", "replace")
