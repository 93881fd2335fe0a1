"""What `watch()` costs a training: steps of two equal models in turn, one of them watched, in CPU time of the thread."""

import random
import statistics
import time

import torch
from record import Figure, save
from torch import nn

from trackside.monitor.model.watching import ModelWatch
from trackside.wire import codec

SECONDS = 25.0
WARM_UP = 12
LARGE = 10_000


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        q, k, v = self.qkv(self.ln1(x)).chunk(3, -1)
        x = x + self.proj(nn.functional.scaled_dot_product_attention(q, k, v))
        return x + self.mlp(self.ln2(x))


def transformer() -> tuple[nn.Module, torch.Tensor]:
    """12 layers, 111 modules."""
    return nn.Sequential(*(Block(64) for _ in range(12)), nn.LayerNorm(64)), torch.randn(2, 32, 64)


def convolutions() -> tuple[nn.Module, torch.Tensor]:
    """16 layers with normalisation and in-place activations, 49 modules."""
    layers: list[nn.Module] = [nn.Conv2d(3, 32, 3, padding=1)]
    for _ in range(16):
        layers += [nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers), torch.randn(2, 3, 16, 16)


def tiny() -> tuple[nn.Module, torch.Tensor]:
    """A step of well under a millisecond."""
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)), torch.randn(32, 64)


def step(model: nn.Module, given: torch.Tensor, optimizer: torch.optim.Optimizer) -> float:
    """Seconds of CPU time of one step."""
    began = time.thread_time()
    loss = model(given).float().pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return time.thread_time() - began


def compare(make) -> dict[str, float]:
    """Steps of two equal models in turn, the second one watched."""
    plain, given = make()
    watched_model, _ = make()
    pair = [(model, torch.optim.SGD(model.parameters(), 1e-4)) for model in (plain, watched_model)]
    watch = ModelWatch(watched_model)
    watch.start()
    for model, optimizer in pair * WARM_UP:
        step(model, given, optimizer)
    times: tuple[list[float], list[float], list[float]] = ([], [], [])
    """Of the plain model, of the watched one, and of its steps in which a pass was measured or its times taken in."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        for which in random.sample((0, 1), 2):
            was_pending = bool(watch._pending)
            seconds = step(pair[which][0], given, pair[which][1])
            is_measured = which == 1 and (was_pending or bool(watch._pending))
            times[2 if is_measured else which].append(seconds)
        if len(times[0]) % 50 == 0:
            watch.due(time.monotonic())
    passes = watch._means.passes
    watch.close()
    return {"measured": passes, **overhead(*times)}


def overhead(plain: list[float], watched: list[float], measured: list[float]) -> dict[str, float]:
    """In per cent of the plain model's time: what every step pays, and what the measured ones pay on top.

    Means of all steps would mostly say what else the machine did.
    """
    base, usual = quick(plain), quick(watched)
    steps = len(watched) + len(measured)
    every = (usual - base) / base * 100
    some = sum(seconds - usual for seconds in measured) / (steps * base) * 100
    half = len(plain) // 2
    noise = abs(quick(plain[:half]) - quick(plain[half:])) / base * 100
    return {"steps": steps, "plain_ms": base * 1000, "every": every, "some": some, "noise": noise}


def quick(seconds: list[float]) -> float:
    """The quarter of steps that was disturbed least."""
    return statistics.quantiles(seconds, n=4)[0]


def large() -> dict[str, float]:
    """A model of ten thousand modules: what is done once."""
    model = nn.Sequential(*(nn.Sequential(*(nn.Linear(2, 2) for _ in range(99))) for _ in range(100)))
    given = torch.randn(1, 2)
    model(given)
    began = time.thread_time()
    plain = model(given)
    plain_s = time.thread_time() - began
    began = time.thread_time()
    watch = ModelWatch(model)
    watch.start()
    describe_s = time.thread_time() - began
    began = time.thread_time()
    recorded = model(given)
    record_s = time.thread_time() - began - plain_s
    if not torch.equal(plain, recorded):
        raise SystemExit("watching changed the result")
    frames = [codec.encode(message, 1) for message in watch.due(time.monotonic())]
    return {"describe_s": describe_s, "record_s": record_s, "bytes": max(map(len, frames))}


def main() -> None:
    torch.set_num_threads(1)
    random.seed(0)
    torch.manual_seed(0)
    once = large()
    found = {make.__name__: compare(make) for make in (transformer, convolutions, tiny)}
    figures = [
        Figure(
            f"training slowed by `watch()`: {name}, a step of {run['plain_ms']:.3g} ms",
            run["every"] + run["some"],
            "%",
            budget=1,
            note=(
                f"CPU time of {run['steps']:,} steps each in turn; {run['every']:.2f} % in every step, {run['some']:.2f} % for "
                f"{run['measured']} measured passes; halves of the plain run differ by {run['noise']:.2f} %"
            ),
        )
        for name, run in found.items()
        if name != "tiny"
    ]
    figures.append(
        Figure(
            f"a pass that is not looked at, in a step of {found['tiny']['plain_ms']:.3g} ms",
            found["tiny"]["every"] / 100 * found["tiny"]["plain_ms"] * 1000,
            "µs",
            note=f"one hook on the model; halves of the plain run differ by {found['tiny']['noise']:.2f} %",
        )
    )
    figures += [
        Figure(f"`watch()` on a model of {LARGE:,} modules", once["describe_s"] * 1000, "ms", note="CPU time, once"),
        Figure("its first forward recorded, beyond the forward itself", once["record_s"] * 1000, "ms", note="once"),
        Figure("its graph on the wire", once["bytes"] / 1000, "KB", note="2,000 modules shown, the others folded"),
    ]
    save("model_watch", "Watching a model", figures, {"overhead": found, "large": once})


if __name__ == "__main__":
    main()
