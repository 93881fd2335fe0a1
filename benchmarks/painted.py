"""From `log()` to painted in the page: eight real ranks, a real Chromium, one clock.

Every rank logs its step number five times a second; the page shows the metric's latest value in its card. Measured is the
time from the first rank's call to the animation frame after the card's text has changed.
"""

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright
from record import Figure, save

RANKS, HZ, SECONDS = 8, 5, 20
CHROMIUM = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]

SCRIPT = f"""
import json, os, time, trackside
mon = trackside.Monitor()
due = (time.time() // 2 + 4) * 2
stamps = {{}}
for step in range(1, {HZ * SECONDS} + 1):
    time.sleep(max(0, due - time.time()))
    stamps[step] = time.time()
    mon.log({{"probe": step}}, step=step)
    due += 1 / {HZ}
with open(f"stamps-{{os.environ['RANK']}}.json", "w") as file:
    json.dump(stamps, file)
mon.finish()
"""

OBSERVE = """() => {
    window.seen = {};
    const note = () => {
        for (const card of document.querySelectorAll('[aria-label]')) {
            if (!card.textContent.startsWith('probe')) continue;
            const found = card.textContent.match(/^probe\\s*([0-9.]+)/);
            if (!found) continue;
            const step = String(Math.round(parseFloat(found[1])));
            if (!(step in window.seen)) {
                window.seen[step] = 0;
                requestAnimationFrame(() => requestAnimationFrame(() => {
                    window.seen[step] = performance.timeOrigin + performance.now();
                }));
            }
        }
    };
    new MutationObserver(note).observe(document.body, { subtree: true, childList: true, characterData: true });
}"""


def watch(url: str, seconds: float) -> dict[int, float]:
    """When each step was painted, in UTC epoch seconds."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=CHROMIUM)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(url)
        page.evaluate(OBSERVE)
        page.wait_for_timeout(seconds * 1000)
        seen = page.evaluate("() => window.seen")
        browser.close()
    return {int(step): at / 1000 for step, at in seen.items() if at}


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="trackside-painted-") as folder:
        script = Path(folder) / "train.py"
        script.write_text(SCRIPT)
        command = [sys.executable, "-m", "trackside", "run", "--nproc-per-node", str(RANKS), "--port", "0", str(script)]
        job = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True, env={**os.environ})
        url = ""
        for line in job.stderr or ():
            if found := re.search(r"http://localhost:\d+", line):
                url = found.group()
                break
        seen = watch(url, SECONDS + 12)
        job.communicate(timeout=60)
        stamps = [json.loads(path.read_text()) for path in Path(folder).glob("stamps-*.json")]
    first = {int(step): min(stamp[step] for stamp in stamps) for step in stamps[0]}
    settled = min(seen, default=0) + 2 * HZ
    delays = sorted((at - first[step]) * 1000 for step, at in seen.items() if step in first and step >= settled)
    if not delays:
        save(
            "painted", "From log() to painted", [Figure("`log()` to painted", None, "ms", 100, note="nothing was seen")]
        )
        return
    save(
        "painted",
        "From log() to painted",
        [
            Figure(
                "`log()` to painted in the page, 8 ranks, median",
                statistics.median(delays),
                "ms",
                100,
                peer="900 ms (trackio)",
                note=f"{len(delays)} steps at {HZ} Hz, Chromium, to the second animation frame after the text changed",
            ),
            Figure("the same, 99th percentile", delays[int(len(delays) * 0.99)], "ms", 300),
        ],
        raw={"delays_ms": delays, "at": time.time()},
    )


if __name__ == "__main__":
    main()
