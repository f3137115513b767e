"""REST and pages on one port."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

import windlass
from tests.dashboard.kit import Browser
from tests.server.conftest import Serve
from tests.server.rest.kit import problem, served
from windlass.server.dashboard.assets import assets
from windlass.server.web import make_web


def test_addresses_of_pages_are_pages_and_others_are_rest() -> None:
    async def check(kit: Any) -> None:
        browser = Browser(make_web(kit.service))
        async with browser.http as http:
            await browser.get("/")
            await browser.get("/jobs")
            assert (await http.get("/v1/jobs")).json() == {"jobs": [], "next": None}
            assert (await http.get("/healthz")).json() == {"status": "ok"}
            problem(await http.get("/nothing"), 404)
            assert (await http.get("/jobs/nothing")).headers["content-type"].startswith("text/html")

    served(check)


def test_the_cookie_of_a_page_is_no_token_of_rest() -> None:
    async def check(kit: Any) -> None:
        token = await kit.token("admin")
        browser = Browser(make_web(kit.service))
        async with browser.http as http:
            http.cookies.set("windlass_token", token, domain="127.0.0.1")
            await browser.get("/jobs")
            assert browser.path == "/jobs"
            problem(await http.get("/v1/jobs"), 401)

    served(check)


@pytest.mark.parametrize(("choice", "home", "status"), [("off", 404, 404), ("read-only", 200, 403)])
def test_the_dashboard_can_be_left_out_or_be_read_only(choice: str, home: int, status: int) -> None:
    async def check(kit: Any) -> None:
        browser = Browser(make_web(kit.service))
        async with browser.http as http:
            answer = await http.get("/")
            assert answer.status_code == home
            if home == 200:
                await browser.get("/jobs")
                await browser.send("/jobs/1/retry", status=status)

    served(check, dashboard=choice)


def test_a_server_shows_its_dashboard(serve: Serve) -> None:
    server = serve()
    assert f"the dashboard is at {server.rest}/" in server.process.output
    with httpx.Client(base_url=server.rest, trust_env=False) as http:
        assert "Overview" in http.get("/").text
        with http.stream("GET", "/events") as events:
            assert next(events.iter_text()).startswith("retry:")
    assert server.stop() == 0


def test_every_file_of_a_page_is_in_the_package_with_its_licence() -> None:
    folder = Path(windlass.__file__).parent / "server" / "dashboard" / "static"
    kept = {path.name for path in folder.rglob("*") if path.is_file()}
    assert set(assets()) == {name for name in kept if not name.endswith(".LICENSE")}
    for path in (folder / "vendor").glob("*.js"):
        licence = folder / "vendor" / f"{path.name.split('.')[0].removesuffix('-ext')}.LICENSE"
        assert "permission" in licence.read_text("utf-8").lower(), path.name
