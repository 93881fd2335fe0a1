"""Trains a small model in a fixed order, logs every step unless `--bare`, and prints what the model became."""

import argparse
import hashlib
import time

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=300)
parser.add_argument("--hz", type=float, default=200)
parser.add_argument("--bare", action="store_true")
parser.add_argument("--exit", type=int, default=0)
options = parser.parse_args()

mon = None
if not options.bare:
    import trackside

    mon = trackside.Monitor(steps=options.steps, name="faulty")

torch.manual_seed(7)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
due = time.monotonic()
for step in range(options.steps):
    x = torch.randn(32, 8)
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if mon is not None:
        mon.log({"loss": loss}, step=step)
    due += 1 / options.hz
    time.sleep(max(0.0, due - time.monotonic()))
weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
print("weights", hashlib.sha256(weights).hexdigest(), flush=True)
if mon is not None:
    mon.finish()
raise SystemExit(options.exit)
