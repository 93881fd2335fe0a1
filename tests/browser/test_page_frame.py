"""The frame of the page: what is seen without a click on a phone and a laptop, what is said when things stand still or have gone."""

import math
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.browser import made
from tests.browser.axe import violations
from tests.browser.fleet import Fleet, wait_for
from tests.conftest import Witness
from trackside.wire import messages

GB = 1 << 30
TABS = ("overview", "ranks", "resources", "model", "epochs", "config", "events")
PHONE = {"width": 375, "height": 812}
LAPTOP = {"width": 1440, "height": 900}
CUT = """() => [...document.querySelectorAll('header *, section[aria-label="Vital signs"] *')].filter((one) =>
    getComputedStyle(one).overflow !== 'visible' && getComputedStyle(one).clipPath === 'none' && one.scrollWidth > one.clientWidth + 1)
    .map((one) => one.outerHTML.slice(0, 200))"""
MOVING = "document.getAnimations().length"
FOCUSED = "(document.activeElement?.getAttribute('aria-label') ?? '') + document.activeElement?.textContent"
SAYING = """() => {
    window.spoken = [];
    for (const region of document.querySelectorAll('[aria-live=polite], [role=status], [role=alert], [role=log]'))
        new MutationObserver(() => window.spoken.push(region.textContent))
            .observe(region, {childList: true, characterData: true, subtree: true});
}"""


@pytest.fixture
def eight(tmp_path: Path) -> Iterator[Fleet]:
    """Eight ranks on two hosts; whoever says nothing for six seconds is lost."""
    hosts = ("gpu-01",) * 4 + ("gpu-02",) * 4
    started = Fleet(tmp_path, hosts=hosts, TRACKSIDE_LATE_AFTER="3", TRACKSIDE_LOST_AFTER="6")
    yield started
    started.close()


def sample(rank: int, util: float, *, gpu: bool = True) -> messages.ResourceSample:
    card = messages.GpuSample(
        index=rank, uuid=f"GPU-{rank}", name="H100", util=util, memory_used=61 * GB, memory_total=80 * GB
    )
    host = messages.HostSample(cpu=util, memory_used=4 * GB, memory_total=16 * GB)
    mine = messages.RankSample(cpu=0.1, memory=GB, gpu=card if gpu else None)
    return messages.ResourceSample(
        time=time.time(), interval_seconds=2.0, host=host if rank % 4 == 0 else None, rank=mine
    )


def train(fleet: Fleet) -> None:
    """A run that is well on its way, its time left known."""
    everyone = range(len(fleet.ranks))
    fleet.send(0, messages.SetPlan(steps=3000, epochs=10, name="resnet-cifar"))
    fleet.watch(made.graph(timed=False))
    fleet.log({"train/loss": [2.0 * math.exp(-step / 30) for step in range(100)]}, ranks=(0,))
    for rank in everyone:
        fleet.send(rank, sample(rank, 0.91))
        fleet.send(rank, messages.EpochReport(epoch=0, metrics={"loss": 1.0}, batches=100, seconds=9.0))
    fleet.steps(40, 60, {})
    for step in range(100, 104):
        fleet.totals = {
            rank: {"step": step, "batches": step, "samples": 32 * step, "phase": "forward"} for rank in everyone
        }
        wait_for(lambda step=step: fleet.read("api/v1/run")["step"] == step, f"step {step}")
    wait_for(lambda: fleet.read("api/v1/run")["eta_seconds"], "a time left")


def kill(fleet: Fleet, rank: int, signal: str) -> None:
    fleet.silence(rank)
    fleet.tell(messages.WorkerExited(rank=rank, generation=0, time=time.time(), signal=signal))


def goes_on(fleet: Fleet) -> None:
    """Nothing happens to it."""


def fails(fleet: Fleet) -> None:
    """Rank 5 is killed, and the launcher asks the others to end."""
    kill(fleet, 5, "SIGKILL")
    wait_for(lambda: fleet.read("api/v1/ranks")[5]["state"] == "failed", "that rank 5 has failed")
    for rank in (0, 1, 2, 3, 4, 6, 7):
        kill(fleet, rank, "SIGTERM")
    fleet.end(1)


def is_terminated(fleet: Fleet) -> None:
    for rank in range(8):
        kill(fleet, rank, "SIGTERM")
    fleet.tell(messages.JobEnded(time=time.time(), exit_code=-15, signal="SIGTERM"))
    fleet.tell(messages.Goodbye(time=time.time()))


def loses_a_rank(fleet: Fleet) -> None:
    fleet.silence(5)
    wait_for(lambda: fleet.read("api/v1/ranks")[5]["state"] == "lost", "that rank 5 is lost")


def is_cut_off(fleet: Fleet) -> None:
    fleet.controller.kill()


COURSES: dict[str, tuple[Callable[[Fleet], None], str]] = {
    "running": (goes_on, "running"),
    "lost": (loses_a_rank, "running"),
    "finished": (Fleet.finish, "finished"),
    "failed": (fails, "failed"),
    "terminated": (is_terminated, "terminated"),
    "disconnected": (is_cut_off, "disconnected"),
}


def comes_to(fleet: Fleet, page: Page, course: str) -> None:
    """The page saw it run, and then what happened."""
    act, state = COURSES[course]
    page.goto(fleet.url)
    expect(page.get_by_role("group", name="Time left")).not_to_contain_text("unknown")
    act(fleet)
    expect(page.get_by_role("status", name=f"State: {state}")).to_be_visible()


@pytest.mark.parametrize("course", ["lost", "failed"])
def test_is_it_alive_does_it_learn_how_long_still_at_one_glance(
    eight: Fleet, page: Page, witness: Witness, course: str, shoot
) -> None:
    train(eight)
    comes_to(eight, page, course)
    for size in (PHONE, LAPTOP):
        page.set_viewport_size(size)  # type: ignore[arg-type]
        answers_at_one_glance(page, course, size)
        shoot(page, f"frame-{course}-{size['width']}")
    witness.errors.clear()  # refused connections are logged by the browser itself


def answers_at_one_glance(page: Page, course: str, size: dict[str, int]) -> None:
    state, name = page.get_by_role("status", name="State:"), page.get_by_role("heading", name="resnet-cifar")
    progress = page.get_by_role("group", name="Progress")
    left = page.get_by_role("group", name="Time left" if course == "lost" else "Took")
    alive = page.get_by_role("group", name=re.compile("^Ranks (alive|finished)"))
    loss = page.get_by_role("group", name="train/loss")
    expect(alive).to_contain_text("1 lost" if course == "lost" else "1 failed, 7 asked to end")
    expect(alive).to_contain_text("2 hosts")
    if course == "failed":
        expect(left.get_by_text(re.compile("^ended "))).to_be_visible()
    expect(loss).to_contain_text("falling")
    expect(progress).to_contain_text(re.compile(r"epoch\s*1\s*/ 10\s*step 103 of 3\u202f000"))
    assert page.evaluate("scrollY") == 0
    for part in (state, name, progress, left, alive, loss):
        expect(part).to_be_in_viewport(ratio=1)
    assert page.evaluate(CUT) == []
    link = page.get_by_text(re.compile("^(live|run over)"))
    tops = [part.bounding_box()["y"] for part in (state, name, progress, alive)]  # type: ignore[index]
    assert abs(link.bounding_box()["y"] - tops[0]) < 16, "state and link stand in one line"  # type: ignore[index]
    if size == PHONE:
        assert tops == sorted(tops), "what is asked first comes first"


def test_the_time_left_has_a_basis_or_is_unknown(fleet: Fleet, page: Page) -> None:
    page.goto(fleet.url)
    left, progress = page.get_by_role("group", name="Time left"), page.get_by_role("group", name="Progress")
    expect(left).to_contain_text("unknown")
    expect(progress).to_contain_text("no step yet")
    fleet.totals = {rank: {"step": 7, "batches": 7} for rank in (0, 1)}
    expect(progress).to_contain_text(re.compile(r"step\s*7\s*total not set"))
    expect(left).to_contain_text("unknown")


def test_what_a_gpu_did_before_its_rank_died_is_never_shown_as_now(eight: Fleet, page: Page) -> None:
    train(eight)
    for rank in range(4):
        eight.send(rank, sample(rank, 0.5))
    page.goto(eight.url)
    hardware = page.get_by_role("group", name="GPU")
    expect(hardware).to_contain_text("71\u202f%")
    for rank in range(4):
        kill(eight, rank, "SIGKILL")
    expect(hardware).to_contain_text("91\u202f%")  # of those that live
    expect(hardware).to_contain_text("244.0 / 320.0 GB")
    expect(hardware).not_to_contain_text("last sample")
    for rank in range(4, 8):
        kill(eight, rank, "SIGKILL")
    expect(hardware).to_contain_text(re.compile(r"last sample \d\d:\d\d:\d\d"))
    expect(hardware).to_contain_text("GB")


def test_samples_that_stop_are_said_to_be_old(fleet: Fleet, page: Page) -> None:
    page.clock.install()
    fleet.log({"loss": [1.0]})
    for rank in (0, 1):
        fleet.send(rank, sample(4 * rank, 0.5, gpu=False))
    page.goto(fleet.url)
    hardware = page.get_by_role("group", name="CPU")
    expect(hardware).to_contain_text("50\u202f%")
    expect(hardware).not_to_contain_text("last sample")
    page.clock.fast_forward(31_000)
    expect(hardware).to_contain_text(re.compile(r"50\u202f%.*last sample \d\d:\d\d:\d\d", re.S))
    fleet.send(0, sample(0, 0.75, gpu=False))
    expect(hardware).not_to_contain_text("last sample")


def test_a_job_that_was_asked_to_end_says_who_does_so(eight: Fleet, page: Page, witness: Witness) -> None:
    train(eight)
    comes_to(eight, page, "terminated")
    notice = page.get_by_role("note").filter(has_text="The run was terminated.")
    expect(notice).to_contain_text("The launcher was ended by SIGTERM. A scheduler does so at the time limit")
    expect(page.get_by_role("group", name="Ranks finished")).to_contain_text("8 asked to end")
    witness.errors.clear()  # refused connections are logged by the browser itself


def test_a_job_that_somebody_stopped_says_so(eight: Fleet, page: Page, witness: Witness) -> None:
    train(eight)
    page.goto(eight.url)
    expect(page.get_by_role("group", name="Time left")).not_to_contain_text("unknown")
    eight.tell(messages.JobEnded(time=time.time(), signal="SIGINT"))
    for rank in range(8):
        kill(eight, rank, "SIGINT")
    eight.tell(messages.Goodbye(time=time.time()))
    notice = page.get_by_role("note").filter(has_text="The run was stopped with Ctrl-C (SIGINT).")
    expect(notice).to_be_visible()
    expect(page.get_by_role("status", name="State: stopped")).to_be_visible()
    expect(page).to_have_title(re.compile("stopped · "))
    report = eight.controller.folder / "report.html"
    wait_for(report.exists, "the report")
    page.goto(report.as_uri())
    expect(page.get_by_role("note").filter(has_text="Report. The run was stopped ")).to_be_visible()
    witness.errors.clear()  # refused connections are logged by the browser itself


def test_a_lost_link_makes_no_claim_about_now(fleet: Fleet, page: Page, witness: Witness) -> None:
    train(fleet)
    comes_to(fleet, page, "disconnected")
    signs = page.get_by_role("region", name="Vital signs")
    expect(signs.get_by_role("group", name="Alive when last heard")).to_contain_text("2 / 2")
    expect(signs).not_to_contain_text("Ranks alive")
    expect(signs).not_to_contain_text("ends")
    rows = page.get_by_role("table", name="Standings").get_by_role("row")
    expect(rows.get_by_title("when last heard")).to_have_count(2)
    witness.errors.clear()  # refused connections are logged by the browser itself


# --- everybody can use it --------------------------------------------------------------------------------------------


def scan(page: Page, tabs: tuple[str, ...], scheme: str, size: dict[str, int]) -> list[str]:
    """What the accessibility scan finds on the tabs."""
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.set_viewport_size(size)  # type: ignore[arg-type]
    found = []
    for tab in tabs:
        page.evaluate(f"location.hash = '#path=root&tab={tab}'")
        expect(page.get_by_role("navigation", name="Parts").locator("[aria-current=page]")).to_have_text(
            re.compile(tab, re.I)
        )
        expect(page.get_by_role("main")).not_to_be_empty()
        found += [f"{tab}, {scheme}, {size['width']}: {one}" for one in violations(page)]
    return found


@pytest.mark.parametrize(
    ("course", "scheme", "size"),
    [
        ("failed", "light", PHONE),
        ("terminated", "dark", LAPTOP),
        ("disconnected", "dark", PHONE),
    ],
)
def test_everyone_can_use_it_in_every_state(
    eight: Fleet, page: Page, witness: Witness, course: str, scheme: str, size: dict[str, int]
) -> None:
    train(eight)
    comes_to(eight, page, course)
    assert scan(page, ("overview", "ranks", "events"), scheme, size) == []
    witness.errors.clear()  # refused connections are logged by the browser itself


@pytest.mark.long
@pytest.mark.parametrize("course", list(COURSES))
def test_everyone_can_use_every_tab_in_every_state(eight: Fleet, page: Page, witness: Witness, course: str) -> None:
    train(eight)
    comes_to(eight, page, course)
    for scheme in ("light", "dark"):
        for size in (PHONE, LAPTOP):
            assert scan(page, TABS, scheme, size) == []
    witness.errors.clear()  # refused connections are logged by the browser itself


def test_everyone_can_use_every_tab_while_nothing_has_come(tmp_path: Path, page: Page) -> None:
    fleet = Fleet(tmp_path, hosts=())
    try:
        page.goto(fleet.url)
        expect(page.get_by_role("status", name="State: waiting")).to_be_visible()
        assert scan(page, TABS, "dark", PHONE) == []
        assert scan(page, ("overview",), "light", LAPTOP) == []
        page.goto("about:blank")  # a page that still listens would see the controller go
    finally:
        fleet.close()


def test_who_wants_no_motion_sees_none(browser: Browser, fleet: Fleet, witness: Witness) -> None:
    fleet.log({"loss": [1.0]})
    moving = {}
    for wish in ("no-preference", "reduce"):
        context = browser.new_context(reduced_motion=wish)  # type: ignore[arg-type]
        context.on("page", witness.watch)
        page = context.new_page()
        page.goto(fleet.url)
        expect(page.get_by_role("status", name="State: running")).to_be_visible()
        moving[wish] = page.evaluate(MOVING)
        context.close()
    assert moving["no-preference"] > 0
    assert moving["reduce"] == 0


def test_the_focus_stays_where_it_is_while_everything_changes(eight: Fleet, page: Page) -> None:
    train(eight)
    page.goto(eight.url)
    standings = page.get_by_role("table", name="Standings")
    row = standings.get_by_role("link", name="rank3")
    for focused in (
        row,
        page.get_by_role("button", name=re.compile("^Theme")),
        page.get_by_role("navigation", name="Parts").get_by_role("link", name="Events"),
        page.get_by_role("article").first.get_by_role("img"),
    ):
        focused.focus()
        before = page.evaluate(FOCUSED)
        slowest = 3 + eight.totals[0]["step"] % 4  # another rank leads now
        step = eight.totals[0]["step"] + 10
        eight.totals = {
            rank: {
                "step": step,
                "batches": step,
                "step_seconds": 0.3,
                "own_step_seconds": 0.2 if rank == slowest else 0.1,
            }
            for rank in range(8)
        }
        expect(page.get_by_role("group", name="Progress")).to_contain_text(f"step {step}")
        first = re.compile(f"rank{slowest}")  # while a row has the focus, all stay where they are
        expect(standings.get_by_role("row").nth(1)).to_contain_text(first if focused is not row else re.compile("rank"))
        expect(focused).to_be_focused()
        assert page.evaluate(FOCUSED) == before or "rank" not in before


def test_a_warning_is_read_out_once_and_figures_never(eight: Fleet, page: Page) -> None:
    train(eight)
    page.goto(eight.url)
    expect(page.get_by_role("group", name="Time left")).not_to_contain_text("unknown")
    page.evaluate(SAYING)
    eight.silence(5)
    strip = page.get_by_role("complementary", name="Newest warning")
    expect(strip).to_contain_text("rank5 lost")
    for step in range(200, 205):
        eight.totals = {rank: {"step": step, "batches": step} for rank in range(8)}
        expect(page.get_by_role("group", name="Progress")).to_contain_text(f"step {step}")
    said = page.evaluate("window.spoken")
    assert sum("gpu-02 rank5 lost" in one for one in said) == 1
    assert len(set(said)) == len(said)
    strip.get_by_role("button", name="Dismiss").focus()
    page.keyboard.press("Enter")
    expect(strip).to_have_count(0)
    expect(page.get_by_role("navigation", name="Parts").get_by_role("link", name="Overview")).to_be_focused()


# --- what the controller says is said on the page --------------------------------------------------------------------


def test_a_chart_that_cannot_be_had_says_why_in_the_controllers_words(
    fleet: Fleet, page: Page, witness: Witness
) -> None:
    def refuse(route: Route) -> None:
        text = (
            "the disk of the run folder has not answered for 5 s, look at its mount; what is in memory is still shown."
        )
        route.fulfill(status=503, json={"error": {"code": "disk_silent", "message": text}})

    fleet.log({"loss": [3.0, 2.0, 1.0]})
    page.route("**/api/v1/series*", refuse)
    page.goto(fleet.url + "#path=root&x=epoch")
    chart = page.get_by_role("article", name="loss", exact=True)
    expect(chart).to_contain_text("The disk of the run folder has not answered for 5 s, look at its mount")
    expect(chart).to_contain_text("asked for again by itself")
    expect(chart).not_to_contain_text("disk_silent")
    page.unroute("**/api/v1/series*")
    expect(chart).not_to_contain_text("disk")
    witness.errors.clear()  # refused answers are logged by the browser itself


# --- on paper --------------------------------------------------------------------------------------------------------

SHEET = {"width": 703, "height": 1032}
SHRUNK = """() => [...document.querySelectorAll('article canvas')].map((one) =>
    one.getBoundingClientRect().width * devicePixelRatio / one.width)"""
INK = """() => [...document.querySelectorAll('article canvas')].map((one) => {
    const {data} = one.getContext('2d').getImageData(0, 0, one.width, one.height), colors = new Set();
    for (let at = 0; at < data.length; at += 4) if (data[at + 3] === 255) colors.add(data.slice(at, at + 3).join());
    return [...colors];
})"""
LIGHT_LINE, DARK_LINE = "11,111,179", "93,180,242"
CROPPED = """() => [...document.querySelectorAll('body *')].filter((one) => one.checkVisibility() &&
    getComputedStyle(one).overflow !== 'visible' && getComputedStyle(one).clipPath === 'none' && !one.closest('svg, [role=img]') &&
    (one.scrollWidth > one.clientWidth + 1 || one.scrollHeight > one.clientHeight + 2)
    ).map((one) => one.outerHTML.slice(0, 200))"""


def test_paper_has_what_is_wrong_first_and_charts_that_can_be_read(eight: Fleet, page: Page, witness: Witness) -> None:
    page.emulate_media(color_scheme="dark")
    page.add_init_script(f"addEventListener('afterprint', () => {{ window.ink = ({INK})(); }})")
    train(eight)
    comes_to(eight, page, "failed")
    page.set_viewport_size(SHEET)  # type: ignore[arg-type]
    page.emulate_media(media="print", color_scheme="dark")
    names = ("note", "Why", "Standings", "train/loss")
    parts = [
        page.get_by_role("note").filter(has_text="The run failed."),
        page.get_by_role("region", name="Why"),
        page.get_by_role("region", name="Standings"),
        page.get_by_role("article", name="train/loss"),
    ]
    tops = [part.bounding_box()["y"] for part in parts]  # type: ignore[index]
    assert tops == sorted(tops), dict(zip(names, tops, strict=True))
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)"
    scales = page.evaluate(SHRUNK)
    assert scales
    assert all(0.9 < scale < 1.15 for scale in scales), "words are as large as they were drawn"
    for tab in TABS:
        page.evaluate(f"location.hash = '#path=root&tab={tab}'")
        expect(page.get_by_role("main")).not_to_be_empty()
        assert page.evaluate(CROPPED) == [], tab
    page.evaluate("location.hash = '#path=root'")
    page.emulate_media(media="screen", color_scheme="dark")
    expect(page.get_by_role("article", name="train/loss").get_by_role("img")).to_be_visible()
    assert page.pdf()[:5] == b"%PDF-"
    assert page.evaluate("window.ink")
    for colors in page.evaluate("window.ink"):
        assert LIGHT_LINE in colors
        assert DARK_LINE not in colors
    expect(page.get_by_role("article", name="train/loss").get_by_role("img")).to_be_visible()
    assert DARK_LINE in page.evaluate(f"({INK})()[0]"), "the screen has its own colours again"
    witness.errors.clear()  # refused connections are logged by the browser itself


def test_ranks_that_have_finished_are_not_missed(fleet: Fleet, page: Page) -> None:
    train(fleet)
    page.goto(fleet.url)
    alive = page.get_by_role("group", name="Ranks alive")
    expect(alive).to_contain_text("2 / 2")
    fleet.silence(1)
    fleet.send(1, messages.Goodbye(time=time.time()))
    expect(alive).to_contain_text("1 / 2")
    expect(alive).to_contain_text("1 finished")
    expect(alive.get_by_role("link")).to_have_count(0)
