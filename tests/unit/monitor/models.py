"""Models of the kinds people train, small, with what to feed them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence
from torch.utils.checkpoint import checkpoint

torch.set_num_threads(1)


class Residual(nn.Module):
    """Two convolutions, a sum, in-place activations, one of which is called twice."""

    def __init__(self, inside: int, outside: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.down = None
        if stride != 1 or inside != outside:
            self.down = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))

    def forward(self, x):
        kept = x if self.down is None else self.down(x)
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.bn2(self.conv2(x))
        x += kept
        return self.relu(x)


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True))
        self.layer1 = nn.Sequential(Residual(4, 4), Residual(4, 4))
        self.layer2 = Residual(4, 8, 2)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(8, 5)

    def forward(self, x):
        return self.fc(torch.flatten(self.pool(self.layer2(self.layer1(self.stem(x)))), 1))


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.qkv, self.proj, self.heads = nn.Linear(width, 3 * width), nn.Linear(width, width), heads

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in self.qkv(x).split(width, dim=2))
        x = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(x.transpose(1, 2).reshape(batch, length, width))


class Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.ln1, self.attention, self.ln2 = nn.LayerNorm(width), Attention(width, heads), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, hidden_states):
        x = hidden_states + self.attention(self.ln1(hidden_states))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    """The output layer shares the embedding's weight; layers are called by keyword."""

    def __init__(self, width: int = 8, heads: int = 2, depth: int = 2, words: int = 11) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(words, width), nn.Embedding(16, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
        for layer in self.layers:
            x = layer(hidden_states=x)
        return self.head(self.norm(x))


class Tagger(nn.Module):
    """An LSTM over packed sequences."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.lstm, self.head = nn.Embedding(11, 6), nn.LSTM(6, 7, batch_first=True), nn.Linear(7, 3)

    def forward(self, ids):
        packed = pack_padded_sequence(self.embed(ids), [4, 3, 2], batch_first=True)
        out, _ = self.lstm(packed)
        assert isinstance(out, PackedSequence)
        return self.head(pad_packed_sequence(out, batch_first=True)[0])


@dataclass
class Answer:
    logits: torch.Tensor
    extra: dict[str, Any]


class Pair(NamedTuple):
    left: torch.Tensor
    right: torch.Tensor


class Split(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, parts):
        return Pair(self.a(parts["x"]), self.b(parts["y"][0]))


class Branching(nn.Module):
    """Control flow, dicts, named tuples and a dataclass; `unused` never runs."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.split, self.unused = nn.Linear(6, 6), Split(), nn.Linear(6, 6)
        self.head = nn.ModuleDict({"even": nn.Linear(6, 2), "odd": nn.Linear(6, 2)})

    def forward(self, batch):
        x = self.first(batch["x"])
        pair = self.split({"x": x, "y": [torch.tanh(x)]})
        name = "even" if batch["number"] % 2 == 0 else "odd"
        x = pair.left * pair.right
        while float(x.detach().abs().max()) > 1e6:
            x = self.unused(x)
        return Answer(self.head[name](x), {"parts": pair})


class Shared(nn.Module):
    """One module under two names, called three times."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Linear(4, 4)
        self.two = self.one
        self.out = nn.Linear(4, 2)

    def forward(self, x):
        return self.out(self.one(torch.relu(self.two(torch.relu(self.one(x))))))


class Frozen(nn.Module):
    """A frozen part whose output reaches a trained one detached."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), nn.Linear(4, 2)
        self.body.requires_grad_(False)

    def forward(self, x):
        return self.head(self.body(x).detach())


class Checkpointed(nn.Module):
    def __init__(self, *, reentrant: bool) -> None:
        super().__init__()
        self.reentrant = reentrant
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 2)
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Dropout(0.5), nn.Linear(4, 4))

    def forward(self, x):
        x = self.first(x)
        return self.last(checkpoint(self.inner, x, use_reentrant=self.reentrant))


class Lazy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.fc = nn.LazyConv2d(4, 3), nn.LazyLinear(2)

    def forward(self, x):
        return self.fc(torch.flatten(self.conv(x), 1))


class Hostile(nn.Module):
    """Says nothing of itself without raising."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 2)

    def forward(self, x):
        return self.inner(x)

    def extra_repr(self):
        raise RuntimeError("no")

    def __repr__(self):
        raise RuntimeError("no")

    def __getattr__(self, name):
        if name.startswith("_") or name == "inner":
            return super().__getattr__(name)
        raise RuntimeError("no")

    @property
    def device(self):
        raise RuntimeError("no")


class Saving(nn.Module):
    """Calls something in the middle of its forward."""

    calls: ClassVar[list[Callable[[nn.Module], None]]] = []

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 2)

    def forward(self, x):
        for call in self.calls:
            call(self)
        return self.inner(x)

    @classmethod
    @contextmanager
    def calling(cls, call: Callable[[nn.Module], None]) -> Iterator[None]:
        cls.calls.append(call)
        yield
        cls.calls.remove(call)


class Encoder(nn.Module):
    """torch's own transformer, which has another path for evaluation."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.embed, self.body = nn.Embedding(11, 8), nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(8, 3)

    def forward(self, ids):
        return self.head(self.body(self.embed(ids)))


def _picture() -> torch.Tensor:
    return torch.randn(2, 3, 8, 8)


def _ids() -> torch.Tensor:
    return torch.randint(0, 11, (3, 4))


def _rows() -> torch.Tensor:
    return torch.randn(3, 4)


ZOO: dict[str, tuple[Callable[[], nn.Module], Callable[[], Any]]] = {
    "resnet": (ResNet, _picture),
    "gpt": (GPT, _ids),
    "lstm": (Tagger, _ids),
    "branching": (Branching, lambda: {"x": torch.randn(3, 6), "number": 3}),
    "shared": (Shared, _rows),
    "frozen": (Frozen, _rows),
    "checkpointed": (lambda: Checkpointed(reentrant=False), _rows),
    "reentrant": (lambda: Checkpointed(reentrant=True), _rows),
    "hostile": (Hostile, _rows),
    "encoder": (Encoder, _ids),
    "single": (lambda: nn.Linear(4, 2), _rows),
    "normed": (lambda: nn.utils.parametrizations.weight_norm(nn.Linear(4, 2)), _rows),
}


def make(name: str) -> tuple[nn.Module, Any]:
    """A model and its input, the same each time."""
    torch.manual_seed(0)
    model, given = ZOO[name]
    return model(), given()


def loss_of(output: Any) -> torch.Tensor:
    output = getattr(output, "logits", output)
    return output.float().pow(2).mean()
