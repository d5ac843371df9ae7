"""Draws the picture of the proxy's page: a recorded session goes through a proxy, and its page is photographed.

`python docs/proxy_picture.py` writes docs/pictures/proxy.png, a browser at hand; with a name behind it, it
writes that file.
"""

import json
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
from playwright.sync_api import sync_playwright

from autoprune.apps.proxy import Running, Settings, running

ROOT = Path(__file__).parent.parent
SESSION = ROOT / "fixtures" / "sessions" / "edit_loop_openai.jsonl"
PICTURE = ROOT / "docs" / "pictures" / "proxy.png"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
WIDTH, HEIGHT = 1200, 834  # pixels


class Upstream(BaseHTTPRequestHandler):
    """Answers every request with an empty answer."""

    def do_POST(self) -> None:
        """Answer."""
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def upstream() -> Iterator[str]:
    """Yield the address of a server that answers while the context lasts."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Upstream) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def drive(proxy: Running, client: str, model: str, most: int | None = None) -> None:
    """Send the recorded session through a proxy, request by request."""
    messages = [json.loads(line) for line in SESSION.read_text(encoding="utf-8").splitlines()][:most]
    for at, message in enumerate(messages):
        if message["role"] == "assistant":
            body = {"model": model, "messages": messages[:at]}
            headers = {"user-agent": client, "x-session-id": client}
            httpx.post(f"{proxy.url}/v1/chat/completions", json=body, headers=headers).raise_for_status()


def draw(path: Path) -> None:
    """Draw the picture into a file."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    with upstream() as url, running(Settings(url, "30k")) as proxy, sync_playwright() as driver:
        drive(proxy, "opencode/1.18.33", "gpt-5.1")
        drive(proxy, "mini/2.4.6", "claude-sonnet-4-5", 24)
        chromium = driver.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        tab = chromium.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        tab.goto(proxy.page)
        tab.locator("#rows > li").first.wait_for()
        tab.screenshot(path=path)
        chromium.close()


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE)
