"""The pictures of docs/dashboard.md: `python -m tests.dashboard.pictures [FOLDER]`.

The demo's shop runs for a while, and a browser looks at it: wide pages in light and dark colours,
and some as a phone shows them.
"""

from __future__ import annotations

import base64
import re
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.cli.program import Process, wait_until
from tests.dashboard.chromium import PHONE, WIDE, Chromium
from tests.server.served import start_windlass

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
_BUSY = 90.0
"""Seconds after which charts and tables have something to show."""
_HEIGHTS = {WIDE: 860, PHONE: 844}

SHOWN: tuple[tuple[str, str, int, str], ...] = (
    ("overview", "/", WIDE, "light"),
    ("jobs", "/jobs?state=failed", WIDE, "light"),
    ("failures", "/failures", WIDE, "light"),
    ("chain", "/chains/{chain}", WIDE, "light"),
    ("workers", "/workers", WIDE, "dark"),
    ("phone", "/", PHONE, "light"),
)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        demo = start_windlass(Path(home), "demo", "--dashboard", "--port", "0", "--no-open")
        try:
            take(folder, address_of(demo))
        finally:
            demo.send(signal.SIGINT)
            demo.wait()
            demo.end()


def address_of(demo: Process) -> str:
    demo.wait_for_line("its dashboard is at")
    found = re.search(r"http://[\d.:]+", demo.output)
    assert found is not None
    return found[0]


def take(folder: Path, address: str) -> None:
    began = time.monotonic()
    browser = Chromium()
    browser.at = address
    try:
        wait_until("a busy shop", lambda: time.monotonic() - began > _BUSY)
        chain = first(browser, "/chains?task=publish&state=open")
        for name, path, width, theme in SHOWN:
            browser.resize(width, _HEIGHTS[width])
            browser.prefer(theme)
            browser.open(path.format(chain=chain))
            browser.wait("the pulse", lambda: browser.one("#pulse").text == "live")
            if path == "/":
                browser.wait("charts", lambda: len(browser.all(".chart canvas")) == 3)
            browser.require_tidy()
            taken = browser.command("Page.captureScreenshot", format="png")
            (folder / f"dashboard-{name}.png").write_bytes(base64.b64decode(taken["data"]))
    finally:
        browser.close()


def first(browser: Chromium, path: str) -> str:
    """The number in the first row of a list."""
    browser.open(path)
    browser.wait("rows", lambda: len(browser.texts("a.row-link")) > 0)
    return browser.texts("a.row-link")[0]


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURES)
