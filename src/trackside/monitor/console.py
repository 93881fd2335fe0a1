"""The monitor's lines on the terminal: short, aligned, always to stderr."""

import sys
import unicodedata
from collections.abc import Iterable, Mapping


def format_duration(seconds: float) -> str:
    """`420ms`, `1.5s`, `12s`, `4m 32s`, `3h 12m`."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60}s"
    return f"{whole // 3600}h {whole % 3600 // 60}m"


def format_value(value: float) -> str:
    """0 as `0`, small ones as `1.00e-04`, below 100 with four decimals, else two."""
    if value == 0:
        return "0"
    if value != value or value in (float("inf"), float("-inf")):
        return "NaN" if value != value else ("Infinity" if value > 0 else "-Infinity")
    if abs(value) < 0.001:
        return f"{value:.2e}"
    return f"{value:.4f}" if abs(value) < 100 else f"{value:.2f}"


def format_bytes(count: float) -> str:
    """Base 1024, one decimal from GB on."""
    for unit in ("B", "KB", "MB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} GB" if count < 1024 else f"{count / 1024:.1f} TB"


def order_metrics(names: Iterable[str]) -> list[str]:
    """`loss` first, then by name."""
    return sorted(names, key=lambda name: (name != "loss", name))


LONGEST_NAME = 80


def short(name: str) -> str:
    """A metric's name for a line, cut when it would fill the line alone."""
    text = clean(name)
    return text if len(text) <= LONGEST_NAME else text[: LONGEST_NAME - 1] + "…"


def epoch_line(
    number: int,
    total: int | None,
    metrics: Mapping[str, float],
    seconds: float | None,
    eta_seconds: float | None,
    device: str = "",
) -> str:
    """`  epoch   1/100  loss=1.5264  [49ms  ETA 4.8s]`; what is unknown is left out."""
    count = f"{number:>{len(str(total))}}/{total}" if total else str(number)
    values = "".join(f"  {short(name)}={format_value(metrics[name])}" for name in order_metrics(metrics))
    times = [format_duration(seconds)] if seconds is not None else []
    times += [f"ETA {format_duration(eta_seconds)}"] if eta_seconds is not None else []
    bracket = f"  [{'  '.join(times)}]" if times else ""
    return f"  epoch {count}{values}{bracket}{device}"


def device_part(index: int, used: int | None, total: int | None, util: float | None) -> str:
    """`  VRAM[cuda0]: 2.1 GB / 16.0 GB  gpu[cuda0] 82%`; only what is known."""
    memory = f"  VRAM[cuda{index}]: {format_bytes(used)} / {format_bytes(total)}" if used is not None and total else ""
    return memory + (f"  gpu[cuda{index}] {util * 100:.0f}%" if util is not None else "")


def end_line(seconds: float, loss: float | None) -> str:
    """`  training complete in 2.8s  | loss: 0.0012`."""
    tail = "" if loss is None else f"  | loss: {format_value(loss)}"
    return f"  training complete in {format_duration(seconds)}{tail}"


def page_hint(directory: str) -> str:
    """How to see a run for which no page was asked."""
    mark = "" if directory.replace("/", "").replace("-", "").replace("_", "").replace(".", "").isalnum() else "'"
    return (
        f"  page       trackside view {mark}{directory}{mark}  (with mon.serve() in the script, a page from the start)"
    )


def clean(text: str) -> str:
    """Text on one line, without control or format characters: nothing a rank sends steers the terminal."""
    if text.isprintable():
        return text
    return "".join("\N{REPLACEMENT CHARACTER}" if _steers(unicodedata.category(c)) else c for c in text)


def _steers(category: str) -> bool:
    return category[0] == "C" or category in ("Zl", "Zp")


def say(line: str) -> None:
    """Print one line to stderr; a closed stderr is no matter."""
    try:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        return
