"""Which physical GPU a rank has: `CUDA_VISIBLE_DEVICES` as CUDA reads it, over the driver's own list.

The driver numbers cards by bus; CUDA numbers what is visible. Only UUIDs mean the same to both.
"""

import re
from collections.abc import Mapping, Sequence

from trackside.monitor.samplers.nvml import Device

_LEADING_INT = re.compile(r"[+-]?\d+")
_OLD_SLICE = re.compile(r"MIG-(GPU-[^/]+)/(\d+)/(\d+)")


def visible_devices(environ: Mapping[str, str], devices: Sequence[Device]) -> list[Device] | None:
    """Return what CUDA would show a process, in CUDA's order.

    Returns:
        An empty list for none; None when the order cannot be told: cards of different models are numbered fastest
        first unless `CUDA_DEVICE_ORDER=PCI_BUS_ID`, and only CUDA itself knows which it takes for faster.
    """
    listed = environ.get("CUDA_VISIBLE_DEVICES")
    cards = _cards(devices)
    if listed is None:
        chosen = _numbered(environ, cards)
    else:
        words = [word.strip() for word in listed.split(",")]
        is_by_uuid = words[0].startswith(("GPU-", "MIG-"))
        chosen = _by_uuid(words, devices, cards) if is_by_uuid else _by_number(words, environ, cards)
    return None if chosen is None else _beside_a_slice(chosen)


def assigned_device(environ: Mapping[str, str], local_rank: int | None, devices: Sequence[Device]) -> Device | None:
    """Return the device of a rank: the `local_rank`-th of the visible ones, or the only one there is.

    Returns:
        None when there is none, or when it cannot be told.
    """
    visible = visible_devices(environ, devices)
    if not visible:
        return None
    if len(visible) == 1:
        return visible[0]
    position = local_rank or 0
    return visible[position] if position < len(visible) else None


def _cards(devices: Sequence[Device]) -> list[Device]:
    """One device a physical card: CUDA shows the first slice of a GPU in MIG mode under the card's number."""
    first: dict[int, Device] = {}
    for device in devices:
        first.setdefault(device.index, device)
    return list(first.values())


def _numbered(environ: Mapping[str, str], cards: list[Device]) -> list[Device] | None:
    models = {(card.name or "").partition(" MIG ")[0] for card in cards}
    return cards if environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" or len(models) <= 1 else None


def _beside_a_slice(chosen: list[Device]) -> list[Device]:
    """CUDA shows a process one slice at most, the first, and no whole card beside it."""
    first = next((device for device in chosen if device.is_slice), None)
    return chosen if first is None else [first]


def _by_number(words: list[str], environ: Mapping[str, str], cards: list[Device]) -> list[Device] | None:
    if words == ["0"] and len(cards) == 1:
        return cards
    numbers = _numbers(words)
    if not numbers:
        return []
    ordered = _numbered(environ, cards)
    if ordered is None:
        return None
    chosen: list[Device] = []
    for number in numbers:
        if number >= len(ordered):  # CUDA stops at the first it does not know
            break
        chosen.append(ordered[number])
    return chosen


def _numbers(words: list[str]) -> list[int]:
    numbers: list[int] = []
    for word in words:
        found = _LEADING_INT.match(word)
        number = int(found.group()) if found else -1
        if number < 0:
            break
        if number in numbers:  # a number given twice hides everything
            return []
        numbers.append(number)
    return numbers


def _by_uuid(words: list[str], devices: Sequence[Device], cards: list[Device]) -> list[Device]:
    chosen: list[Device] = []
    for word in words:
        matches = _matching(word, devices, cards)
        if len(matches) != 1:  # unknown, or a prefix of several
            break
        if matches[0] in chosen:
            return []
        chosen.append(matches[0])
    return chosen


def _matching(word: str, devices: Sequence[Device], cards: list[Device]) -> list[Device]:
    old = _OLD_SLICE.fullmatch(word)
    if old:
        ids = int(old[2]), int(old[3])
        return [d for d in devices if d.mig and d.slice_ids == ids and (d.parent_uuid or "").startswith(old[1])]
    if word.startswith("MIG-"):
        return [d for d in devices if d.mig and (d.uuid or "").startswith(word)]
    if word.startswith("GPU-"):
        return [d for d in cards if (d.parent_uuid or "").startswith(word)]
    return []
