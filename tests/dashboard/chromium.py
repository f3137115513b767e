"""A real browser: Debian's Chromium, driven by its driver, and what it must never do."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from selenium import webdriver
from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from tests.cli.program import wait_until

T = TypeVar("T")

AXE = Path(__file__).parent / "node_modules" / "axe-core" / "axe.min.js"
WIDE, PHONE = 1280, 390

_ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--hide-scrollbars",
    "--force-prefers-reduced-motion",
)
_WATCH = """
window.__reported = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.__reported.push(`${event.violatedDirective}: ${event.blockedURI}`));
for (const name of ["alert", "confirm", "prompt"])
  window[name] = (text) => { window.__reported.push(`${name}: ${text}`); };
"""
"""Runs in every page before anything of it does: what the policy stops, and what a script of
another's would call, is written down."""

_OVERLAPS = (Path(__file__).parent / "overlaps.js").read_text("utf-8")


def require(what: str, is_there: bool) -> None:
    """Skip a test that needs what this machine does not have; where it must have it, fail."""
    if not is_there:
        words = f"{what} is not on this machine; .ci/run installs it"
        if os.environ.get("CI"):
            pytest.fail(words)
        pytest.skip(words)


class Chromium:
    """One browser with one window. `at` is the address of the site it looks at."""

    def __init__(self) -> None:
        programs = [shutil.which(name) for name in ("chromium", "chromedriver")]
        require("Chromium with its driver", all(programs))
        options = webdriver.ChromeOptions()
        options.binary_location = str(programs[0])
        for argument in _ARGUMENTS:
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(str(programs[1])))
        self.command("Page.addScriptToEvaluateOnNewDocument", source=_WATCH)
        self.at = ""

    def close(self) -> None:
        self.driver.quit()

    def command(self, name: str, **words: Any) -> Any:
        """One of the browser's own protocol."""
        return self.driver.execute_cdp_cmd(name, words)

    # ── looking ──

    def resize(self, width: int, height: int = 900) -> None:
        self.command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width == PHONE,
        )

    def prefer(self, theme: str) -> None:
        """What the user has chosen for the whole machine."""
        feature = {"name": "prefers-color-scheme", "value": theme}
        self.command("Emulation.setEmulatedMedia", features=[feature])

    def open(self, path: str) -> None:
        self.driver.get(f"{self.at}{path}")

    @property
    def path(self) -> str:
        return self.driver.current_url.removeprefix(self.at)

    def run(self, script: str, *given: Any) -> Any:
        return self.driver.execute_script(script, *given)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector: str) -> WebElement:
        return self.wait(f"one {selector}", lambda: next(iter(self.all(selector)), None))

    def texts(self, selector: str) -> list[str]:
        script = "return [...document.querySelectorAll(arguments[0])].map(e => e.innerText)"
        return [str(text) for text in self.run(script, selector)]

    @property
    def text(self) -> str:
        return str(self.run("return document.querySelector('main').innerText"))

    def wait(self, what: str, look: Callable[[], T | None]) -> T:
        """Look until the answer is true; a page may be put in anew while it is looked at."""

        def patiently() -> T | None:
            try:
                return look()
            except (StaleElementReferenceException, NoSuchElementException):
                return None

        return wait_until(f"{what} on {self.path}", patiently)

    def wait_for(self, text: str) -> None:
        self.wait(repr(text), lambda: text in self.text)

    def press(self, name: str) -> None:
        """The first button or link of this name in the page."""
        found = self.wait(
            f"a button {name!r}",
            lambda: next(
                (one for one in self.all("main button, main a") if one.text.strip() == name), None
            ),
        )
        self.run("arguments[0].scrollIntoView({block: 'center'})", found)
        found.click()

    # ── what it must never do ──

    def require_quiet(self) -> None:
        """The console is empty, the policy stopped nothing, and no hostile script ran."""
        assert self.run("return window.__reported || []") == []
        said = [line["message"] for line in self.driver.get_log("browser")]  # type: ignore[no-untyped-call]
        assert said == [], said

    def hush(self) -> None:
        """Forget what the console said."""
        self.driver.get_log("browser")  # type: ignore[no-untyped-call]

    def require_tidy(self) -> None:
        """No text overlaps another or is cut, and the page is no wider than the window."""
        found = self.run(_OVERLAPS)
        assert found == [], f"{self.path}: {json.dumps(found, indent=1)}"

    def require_accessible(self) -> None:
        """axe-core finds no serious or critical fault."""
        require("axe-core", AXE.is_file())
        self.command("Page.setBypassCSP", enabled=True)
        self.run(AXE.read_text("utf-8"))
        told = self.driver.execute_async_script(
            "const done = arguments[0]; axe.run(document, {resultTypes: ['violations']}).then(done)"
        )
        faults = [
            (fault["id"], fault["impact"], [node["html"][:200] for node in fault["nodes"][:3]])
            for fault in told["violations"]
            if fault["impact"] in ("serious", "critical")
        ]
        assert faults == [], f"{self.path}: {json.dumps(faults, indent=1)}"
