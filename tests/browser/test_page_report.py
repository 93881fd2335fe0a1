"""The report of a job that went wrong tells what its page told, and both say at one glance who died, how and what to do."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser import made
from tests.browser.fleet import Fleet, wait_for
from tests.conftest import Witness
from trackside.wire import messages

GB = 1 << 30
SLOW_S = 0.15
DRAWN = """[...document.querySelectorAll("article canvas")].map(
    (canvas) => canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.some((byte) => byte > 0))"""
FIGURE = r"\d+ms"  # of the heat map: the report's is coarser
SIGHTS = {
    "overview": [("region", "Vital signs"), ("region", "Why"), ("region", "Standings"), ("article", "loss")],
    "ranks": [("region", "Heat map"), ("region", "Ranks")],
    "resources": [("article", "node-a"), ("article", "node-b"), ("article", "GPU utilisation")],
    "model": [("region", "Model")],
    "epochs": [("region", "Epochs")],
    "config": [("region", "Metadata"), ("region", "Environment")],
    "events": [("region", "Events")],
}


@pytest.fixture
def four(tmp_path: Path) -> Iterator[Fleet]:
    """Four ranks on two hosts; whoever says nothing for six seconds is lost."""
    started = Fleet(
        tmp_path,
        hosts=("node-a", "node-a", "node-b", "node-b"),
        TRACKSIDE_LATE_AFTER="3",
        TRACKSIDE_LOST_AFTER="6",
    )
    yield started
    started.close()


def gpu(index: int, *, ours: bool) -> messages.GpuSample:
    limits = ["power cap"] if index == 0 else []
    return messages.GpuSample(
        index=index, uuid=f"GPU-{index}", name="H100", util=0.4, util_peak=0.8, memory_used=index * GB,
        memory_peak=index * GB, memory_total=80 * GB, temperature=61.0, power=300.0, power_limit=700.0,
        clock_limits=limits, ours=ours,
    )  # fmt: skip


def hardware() -> messages.ResourceSample:
    host = messages.HostSample(
        cpu=0.5, cpu_count=8.0, cpu_limit_source="cgroup v2", memory_used=4 * GB, memory_total=16 * GB,
        memory_limit_source="cgroup v2", network_sent=1e6, network_received=2e6, disk_read=0.0, disk_written=5e6,
        disk_used=GB, disk_total=9 * GB, gpus=[gpu(0, ours=True), gpu(1, ours=False)],
    )  # fmt: skip
    rank = messages.RankSample(cpu=0.1, memory=GB, gpu=gpu(0, ours=True))
    return messages.ResourceSample(time=time.time(), interval_seconds=2.0, host=host, rank=rank)


def everything_goes_wrong(fleet: Fleet) -> None:
    """Rank 2 is slow, rank 0 drops values, one speaks of trouble, rank 3 falls silent, and then rank 1 is killed and the others with it."""
    fleet.totals = {
        rank: {"step_seconds": 0.3, "own_step_seconds": 0.107 + (SLOW_S if rank == 2 else 0.0)} for rank in range(4)
    }
    fleet.totals[0]["dropped_points"] = 1234
    fleet.send(0, messages.SetMetadata(text='{"optimizer": {"lr": 0.1}}'))
    fleet.log({"loss": [1.0, 0.5, float("nan"), 0.25]})
    fleet.watch(made.graph(timed=False))
    for rank in range(4):
        fleet.send(rank, hardware())
        fleet.send(rank, messages.EpochReport(epoch=0, metrics={"loss": 1.0}, batches=4, seconds=1.0))
    fleet.send(0, messages.UserEvent(time=time.time(), title="loader", text="shard 7 is missing", level="warn"))
    fleet.steps(0, 60, {2: SLOW_S})
    wait_for(lambda: (fleet.read("api/v1/run")["diagnosis"] or {}).get("verdicts"), "a verdict")
    fleet.silence(3)
    wait_for(lambda: fleet.read("api/v1/ranks")[3]["state"] == "lost", "that rank 3 is lost")
    fleet.tell(messages.WorkerExited(rank=1, generation=0, time=time.time(), signal="SIGKILL"))
    wait_for(lambda: fleet.read("api/v1/ranks")[1]["state"] == "failed", "that rank 1 has failed")
    for rank in (0, 2):
        fleet.tell(messages.WorkerExited(rank=rank, generation=0, time=time.time(), signal="SIGTERM"))


def seen(page: Page, tab: str) -> list[str]:
    """What the parts of a tab say, in words, once all of them are drawn."""
    before, words = None, _seen(page, tab)
    while words != before:
        page.wait_for_timeout(400)
        before, words = words, _seen(page, tab)
    return words


def _seen(page: Page, tab: str) -> list[str]:
    page.get_by_role("navigation", name="Parts").get_by_role("link", name=re.compile(f"^{tab}", re.I)).click()
    parts = [sight(page, role, name) for role, name in SIGHTS[tab]]
    for part in parts:
        expect(part).not_to_be_empty()
    words = [
        re.sub(rf"{FIGURE}(, usual {FIGURE})?", "…", part.inner_text()) if name == "Heat map" else part.inner_text()
        for part, (_, name) in zip(parts, SIGHTS[tab], strict=True)
    ]
    return [*words, *map(labels, parts)]


def sight(page: Page, role: str, name: str) -> Locator:
    return page.get_by_role(role, name=name, exact=True) if name else page.get_by_role(role)  # type: ignore[arg-type]


def labels(part: Locator) -> str:
    """What pictures say of themselves."""
    return "\n".join(part.get_by_role("img").evaluate_all("all => all.map((one) => one.getAttribute('aria-label'))"))


def test_the_report_of_a_failed_job_tells_what_its_page_told(four: Fleet, page: Page, witness: Witness, shoot) -> None:
    page.goto(four.url)
    everything_goes_wrong(four)
    four.end(1)
    expect(page.get_by_role("status", name="State: failed")).to_be_visible()
    wait_for((four.controller.folder / "report.html").exists, "the report")
    notice = page.get_by_role("note").filter(has_text="The run failed.")
    expect(notice).to_contain_text(re.compile(r"Rank 1 on node-a was killed by SIGKILL.*, at \d\d:\d\d:\d\d "))
    expect(notice).to_contain_text("memory of node-a")
    told = notice.inner_text().split(" The report and all data")[0]
    live = {tab: seen(page, tab) for tab in SIGHTS}
    assert "dropped 1,234 values" in live["events"][0]
    assert "loss is NaN at step 2" in live["events"][0]
    assert "1 failed, 2 asked to end, 1 lost" in live["overview"][0]
    shoot(page, "failed-events")
    witness.errors.clear()  # refused connections are logged by the browser itself

    page.goto((four.controller.folder / "report.html").as_uri())
    shoot(page, "failed-report")
    assert page.get_by_role("note").filter(has_text="The run failed.").inner_text().startswith(told)
    report = page.get_by_role("note").filter(has_text="Report.")
    expect(report).to_contain_text(re.compile(r"The run failed \d{4}-.* after .*Everything shown is inside this file"))
    for tab, texts in live.items():
        wait_for(lambda tab=tab, texts=texts: seen(page, tab) == texts, f"what the page said of {tab}")

    ranks = page.get_by_role("table", name="Ranks")
    page.get_by_role("navigation", name="Parts").get_by_role("link", name="Ranks").click()
    expect(ranks.get_by_role("row").filter(has_text="rank1")).to_contain_text(
        re.compile("failed.*SIGKILL.*first", re.S)
    )
    expect(ranks.get_by_role("row").filter(has_text="rank3")).to_contain_text("lost")
    expect(ranks.get_by_role("row").filter(has_text="rank2")).to_contain_text("data starvation")
    page.get_by_role("note").get_by_role("link", name="Show rank 1").click()
    expect(page).to_have_url(re.compile("rank1&tab=ranks$"))
    page.get_by_role("note").get_by_role("link", name="What came before").click()
    expect(page.get_by_role("region", name="Events")).to_contain_text("SIGKILL")


def test_resources_have_what_is_used_of_what_there_is(fleet: Fleet, page: Page, shoot) -> None:
    fleet.send(0, hardware())
    page.goto(fleet.url + "#path=root&tab=resources")
    host = page.get_by_role("article", name="node-a")
    expect(host).to_contain_text("CPU50\u202f% *")
    expect(host).to_contain_text("4.0 / 16.0 GB *")
    expect(host).to_contain_text("* limit of the container, cgroup v2")
    expect(host).to_contain_text(
        re.compile(r"received\s*2 MB/s\s*sent\s*977 KB/s\s*disk read\s*0 B/s\s*disk written\s*5 MB/s")
    )
    expect(host.get_by_role("region", name="GPUs")).to_contain_text("2 × H100")
    mine, other = host.get_by_role("listitem").all()
    expect(mine).to_contain_text(re.compile(r"gpu 0\s*rank0"))
    expect(mine).to_contain_text("40\u202f%, peak 80\u202f%")
    expect(mine).to_contain_text(re.compile(r"61 °C\s*300 / 700 W\s*▲ clocks limited: power cap"))
    expect(other).to_contain_text("not ours")
    for width in (375, 640, 760, 1440, 2000, 3840):
        page.set_viewport_size({"width": width, "height": 900})
        busy, memory = mine.get_by_text("40\u202f%, peak 80").bounding_box(), mine.get_by_text("VRAM").bounding_box()
        assert busy
        assert memory
        assert busy["x"] + busy["width"] <= memory["x"] or busy["y"] + busy["height"] <= memory["y"], width
        held = mine.get_by_text("clocks limited").bounding_box()
        used = mine.get_by_text(re.compile(r"/ .* GB$")).bounding_box()
        assert held
        assert used
        is_beside = used["x"] + used["width"] <= held["x"]
        assert is_beside or held["y"] + held["height"] <= used["y"] or used["y"] + used["height"] <= held["y"], width
    fleet.send(0, hardware())
    for name in ("GPU utilisation", "GPU memory", "CPU", "Memory", "Network received", "Disk written", "GPU power"):
        curves = page.get_by_role("article", name=name, exact=True)
        curves.scroll_into_view_if_needed()
        expect(curves.get_by_role("img")).to_be_visible()
    shoot(page, "resources")


def test_a_printer_gets_what_was_out_of_view_too(fleet: Fleet, page: Page) -> None:
    page.add_init_script(f"addEventListener('afterprint', () => {{ window.drawn = {DRAWN}; }})")
    page.set_viewport_size({"width": 1440, "height": 300})
    fleet.send(0, hardware())
    page.goto(fleet.url + "#path=root&tab=resources")
    expect(page.get_by_role("article", name="node-a")).to_be_visible()
    charts = page.get_by_role("article").filter(has_text=re.compile("by (host|rank)")).count()
    assert len(page.evaluate(DRAWN)) < charts
    page.pdf()
    assert page.evaluate("window.drawn") == [True] * charts


def test_two_ranks_have_an_odd_one_too(tmp_path: Path, page: Page) -> None:
    page.goto(
        made.report(tmp_path, heated=made.heat(2, slow=1, columns=50), who=made.ranks(2, slow=None))
        + "#path=root&tab=ranks"
    )
    heat = page.get_by_role("region", name="Heat map")
    expect(heat).not_to_contain_text("differs most")  # it was slow in the second half only
    always = made.heat(2, slow=1, columns=50)
    always.own[1] = [0.31] * 50
    page.goto("about:blank")
    page.goto(made.report(tmp_path, heated=always, who=made.ranks(2, slow=None)) + "#path=root&tab=ranks")
    expect(heat).to_contain_text("rank 1 differs most: 310ms, the other 151ms")
