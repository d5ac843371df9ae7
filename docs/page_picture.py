"""Draws the picture of a replay's page: `autoprune replay` writes the page of the demo, and a browser photographs it.

`python docs/page_picture.py` writes docs/pictures/replay.png, a browser at hand; `python docs/page_picture.py FILE.png`
writes another file.
"""

import io
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parent.parent
SESSION = "fixtures/demo.jsonl"
PICTURE = ROOT / "docs" / "pictures" / "replay.png"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
WIDTH, GAP = 1200, 24  # pixels
PARTS = (".answer", ".advice", ".compared", ".scroll", "#session-0 .charts")  # of the page, one below the other


def report() -> str:
    """Return the page of the session."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.html"
        command = [sys.executable, "-m", "autoprune", "replay", SESSION, "--html", str(file)]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
        return file.read_text(encoding="utf-8").replace(str(file), file.name)


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
