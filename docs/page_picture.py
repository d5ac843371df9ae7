"""Draws the picture of a replay's page: a recorded session is replayed, and its page is photographed by a browser.

`python docs/page_picture.py` writes docs/pictures/replay.png, a browser at hand; `python docs/page_picture.py FILE.png`
writes another file.
"""

import io
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from autoprune.apps.replay import ReplayArgs, replay_session
from autoprune.apps.replay.detail import session_details
from autoprune.apps.replay.page import page
from autoprune.apps.replay.verdict import advice, run_command, standings
from autoprune.economics import LISTS

ROOT = Path(__file__).parent.parent
SESSION = ROOT / "fixtures" / "sessions" / "edit_loop_openai.jsonl"
PICTURE = ROOT / "docs" / "pictures" / "replay.png"
STRATEGIES = ("none", "tool_output_cleanup", "low_water", "cache_aware", "cache_aware @ 60k", "clairvoyant")
COMMAND = "autoprune replay edit_loop_openai.jsonl --prices anthropic --safe-zone 40k --html report.html"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
WIDTH, GAP = 1200, 24  # pixels
PARTS = (".answer", ".advice", ".compared", ".scroll", "#session-0 .charts")  # of the page, one below the other


def report() -> str:
    """Return the page of the session."""
    args = ReplayArgs(STRATEGIES, (LISTS["anthropic"],), safe_zone=40 * 1024)
    data = SESSION.read_bytes()
    found = replay_session(SESSION.name, data, args)
    run = run_command(args.safe_zone)
    words = advice(standings(found.figures, "anthropic", run))
    details = list(session_details(SESSION.name, data, args))
    return page([found], details, prices="anthropic", command=COMMAND, advice=words, run=run)


def photographs(html: str) -> list[Image.Image]:
    """Return pictures of the parts of a page."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=browser)
        tab = chromium.new_page(viewport={"width": WIDTH, "height": 900}, color_scheme="light")
        tab.set_content(html)
        tab.locator("#session-0 > summary").click()
        tab.locator("#session-0 .timeline").wait_for()  # the script has decoded the session
        tab.locator("h1").hover()
        taken = [tab.locator(part).first.screenshot() for part in PARTS]
        chromium.close()
    return [Image.open(io.BytesIO(each)).convert("RGB") for each in taken]


def draw(path: Path) -> None:
    """Draw the picture into a file."""
    parts = photographs(report())
    whole = Image.new("RGB", (max(each.width for each in parts), sum(each.height + GAP for each in parts)), "white")
    top = 0
    for each in parts:
        whole.paste(each, (0, top))
        top += each.height + GAP
    whole.save(path, optimize=True)


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE)
