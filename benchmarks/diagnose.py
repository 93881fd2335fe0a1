"""How often the diagnosis is wrong, how soon it is right, and what it costs: over drawn jobs.

Healthy jobs of 2,000 steps have lognormal times, lasting differences between ranks, pauses of single ranks at random, a
checkpoint of rank 0 every hundred steps and an evaluation every five hundred. Faulty ones get one slow rank from step 150 on.
Arguments: a factor for the number of jobs (default 1).
"""

import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from record import Figure, save

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.unit.run.diagnose.simulate import PHASES, Job, Watch, slower
from trackside.run import inputs
from trackside.run.inputs import Moment
from trackside.run.machine import RunMachine
from trackside.run.state import Settings
from trackside.wire import messages

HEALTHY = {2: 60, 8: 60, 64: 16, 1024: 4}
FAULTY = {2: 12, 8: 12, 64: 4}
SIGMAS = (0.05, 0.1, 0.2, 0.3)
STEPS = 2000
LOOK_S = 1.0
"""Pause between looks at a healthy job; a running controller looks more often, with nearly the same steps in view."""
SINCE = 150


def healthy(factor: float) -> list[dict[str, Any]]:
    """What is said about jobs in which nothing is wrong."""
    out = []
    for ranks, count in HEALTHY.items():
        for seed in range(max(1, round(count * factor))):
            sigma = SIGMAS[seed % len(SIGMAS)]
            job = Job(
                ranks=ranks,
                seed=seed,
                sigma=sigma,
                memory=0.3 * (seed % 3 == 2),
                checkpoint_every=100,
                checkpoint_by=0,
                evaluate_every=500,
            )
            watch = Watch(job, pause_s=LOOK_S).watch(STEPS)
            said = [[step, one.kind, one.rank, one.text] for step, one in watch.said]
            out.append({"ranks": ranks, "seed": seed, "sigma": sigma, "said": said})
    return out


def delays(factor: float) -> list[dict[str, Any]]:
    """Steps from the onset of a fault to its verdict."""
    out = []
    for ranks, count in FAULTY.items():
        for excess in (0.15, 0.3, 1.0):
            for seed in range(max(1, round(count * factor))):
                phase = ("data", "forward", "backward")[seed % 3]
                slow = seed % ranks
                watch = Watch(Job(ranks=ranks, seed=1000 + seed, faults=[slower(slow, phase, excess, SINCE)]))
                watch.watch(SINCE + 250)
                right = [step - SINCE for step, one in watch.said if (one.rank, one.phase) == (slow, phase)]
                wrong = [one.text for _, one in watch.said if one.rank != slow]
                delay = right[0] if right else None
                out.append({"ranks": ranks, "excess": excess, "seed": seed, "delay": delay, "wrong": wrong})
    return out


def cost(ranks: int = 1024, seconds: int = 20) -> float:
    """Part of a core that the run state needs for four messages a second of each rank, looks included."""
    machine = RunMachine.begin(
        run_id="r", name="n", directory="/r", version="0", settings=Settings(), started=Moment(0.0, 0.0)
    )
    sessions = [rank.to_bytes(16, "little") for rank in range(ranks)]
    for rank, session in enumerate(sessions):
        machine.handle(inputs.SessionOpened(hello(rank, ranks, session)), Moment(0.0, 0.0))
    random = np.random.default_rng(0)
    spent = 0.0
    for tick in range(4 * seconds):
        at = Moment(tick / 4, tick / 4)
        arrived = [
            inputs.MessageArrived(session, step_times(tick, float(random.normal(0.2, 0.02)))) for session in sessions
        ]
        began = time.process_time()
        for event in arrived:
            machine.handle(event, at)
        machine.handle(inputs.Ticked(), at)
        spent += time.process_time() - began if tick >= 20 else 0.0
    return spent / (seconds - 5)


def hello(rank: int, ranks: int, session: bytes) -> messages.Hello:
    return messages.Hello(
        session=session,
        role="rank",
        run="r",
        identity=messages.Identity(rank=rank, local_rank=rank % 8, world_size=ranks),
        host=messages.HostFacts(host=f"node-{rank // 8}", machine_id=f"m{rank // 8}"),
        process=messages.ProcessFacts(pid=rank),
        sent_at=0.0,
    )


def step_times(step: int, own: float) -> messages.StepTimes:
    return messages.StepTimes(
        phases=list(PHASES),
        step=np.array([step], "<i8").tobytes(),
        count=np.array([1], "<u4").tobytes(),
        ended_at=np.array([step / 4], "<f8").tobytes(),
        wall=np.array([0.25], "<f8").tobytes(),
        own=np.array([own], "<f8").tobytes(),
        seconds=np.full(len(PHASES), own / len(PHASES), "<f8").tobytes(),
        samples=np.array([32], "<i8").tobytes(),
    )


def figures_of(share: float, late: list[dict[str, Any]], quiet: list[dict[str, Any]]) -> list[Figure]:
    """What the table shows."""
    alarms = [run for run in quiet if any(kind != "slow step" for _, kind, *_ in run["said"])]
    figures = [
        Figure(
            "healthy jobs of 2,000 steps in which a rank or the job was blamed",
            100.0 * len(alarms) / len(quiet),
            "%",
            budget=1.0,
            note=f"{len(alarms)} of {len(quiet)} jobs with 2 to 1,024 ranks, noise of 5 to 30 %",
        )
    ]
    for excess in (0.15, 0.3, 1.0):
        of = [run for run in late if run["excess"] == excess]
        found = [run["delay"] for run in of if run["delay"] is not None]
        note = f"{len(found)} of {len(of)} named within 250 steps; 2 to 64 ranks, noise of 10 %"
        figures.append(
            Figure(f"a rank {excess:.0%} slower: steps to its verdict, median", median(found or [250]), note=note)
        )
        in_time = 100.0 * sum(delay <= 20 for delay in found) / len(of)
        budget = 90.0 if excess >= 0.3 else None
        figures.append(
            Figure(f"a rank {excess:.0%} slower: named within 20 steps", in_time, "%", budget=budget, bound="least")
        )
    others = sum(bool(run["wrong"]) for run in late)
    figures.append(Figure("faulty jobs in which somebody else was blamed", 100.0 * others / len(late), "%", budget=1.0))
    note = "messages as the reader hands them on, to verdicts; CPU time"
    figures.append(
        Figure("1,024 ranks × 4 messages a second, run state", 100.0 * share, "% of a core", budget=10, note=note)
    )
    return figures


def main() -> None:
    factor = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    share, late, quiet = cost(), delays(factor), healthy(factor)
    save("diagnose", "Diagnosis", figures_of(share, late, quiet), {"healthy": quiet, "delays": late})


if __name__ == "__main__":
    main()
