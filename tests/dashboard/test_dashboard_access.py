"""Who sees pages and who changes things: signing in, roles, tenants, forms of other sites."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from tests.dashboard.kit import HERE, Browser, Dashboard, fail, shown
from windlass import JobSpec
from windlass.server.dashboard.answers import is_local
from windlass.server.dashboard.pages import PAGES
from windlass.server.dashboard.routes import Open
from windlass.server.identity import Power

PATHS = [route for route in PAGES if not isinstance(route.power, Open)]


def concrete(path: str) -> str:
    return re.sub(r"\{\w+\}", "1", path)


def test_without_tokens_this_machine_is_an_admin_and_no_other() -> None:
    async def check(kit: Dashboard) -> None:
        await kit.browser().get("/jobs")
        for stranger in (
            kit.browser(address="10.1.2.3"),
            kit.browser(at="http://dashboard.example:8090"),  # a name that leads here
        ):
            await stranger.get("/jobs")
            assert stranger.path == "/sign-in?next=%2Fjobs"
        proxied = await kit.browser().http.get("/jobs", headers={"X-Forwarded-For": "10.0.0.1"})
        assert proxied.status_code == 303

    shown(check)


@pytest.mark.parametrize("route", PATHS, ids=lambda route: f"{route.method} {route.path}")
def test_with_a_token_in_the_database_no_page_is_shown_without_one(route: Any) -> None:
    async def check(kit: Dashboard) -> None:
        await kit.token("admin")
        browser = kit.browser()
        await browser.get("/sign-in")
        if route.method == "GET":
            answer = await browser.http.get(concrete(route.path))
        else:
            answer = await browser.http.post(
                concrete(route.path),
                data={"csrf": browser.form_token},
                headers={"Origin": HERE},
            )
        assert answer.status_code == 303
        assert answer.headers["location"].startswith("/sign-in")

    shown(check)


def test_signing_in_leads_back_and_signing_out_ends_it() -> None:
    async def check(kit: Dashboard) -> None:
        token = await kit.token("operator")
        browser = kit.browser()
        await browser.get("/jobs?state=failed")
        body = {"csrf": browser.form_token, "token": f" {token} ", "next": "/jobs?state=failed"}
        answer = await browser.http.post("/sign-in", data=body, headers={"Origin": HERE})
        assert answer.headers["location"] == "/jobs?state=failed"
        cookie = next(
            one for one in answer.headers.get_list("set-cookie") if "windlass_token" in one
        )
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert "Secure" not in cookie
        await browser.get("/jobs?state=failed")
        assert "Sign out" in browser.answer.text
        await browser.send("/sign-out")
        await browser.get("/jobs")
        assert browser.path.startswith("/sign-in")

    shown(check)


def test_over_tls_cookies_are_for_this_host_alone() -> None:
    async def check(kit: Dashboard) -> None:
        token = await kit.token("operator")
        browser = kit.browser(at="https://127.0.0.1:8090")
        await browser.get("/sign-in")
        body = {"csrf": browser.form_token, "token": token}
        headers = {"Origin": "https://127.0.0.1:8090"}
        answer = await browser.http.post("/sign-in", data=body, headers=headers)
        cookie = answer.headers.get_list("set-cookie")[0]
        assert cookie.startswith("__Host-windlass_token=")
        assert "Secure" in cookie
        await browser.get("/jobs")
        assert browser.path == "/jobs"

    shown(check)


@pytest.mark.parametrize(
    ("token", "status", "words"),
    [
        ("", 400, "Paste a token"),
        ("wl_" + 43 * "a", 401, "unknown"),
        ("nonsense", 401, "no token of Windlass"),
        ("wl_ä;", 400, "no token"),
        ("a" * 5000, 400, "no token"),
    ],
)
def test_what_is_no_good_token_is_refused_with_words(token: str, status: int, words: str) -> None:
    async def check(kit: Dashboard) -> None:
        browser = kit.browser()
        await browser.get("/sign-in")
        page = await browser.send("/sign-in", status, token=token)
        assert words in page.text
        assert token not in browser.answer.text or not token
        assert not [name for name in browser.http.cookies if "token" in name]

    shown(check)


def test_a_token_that_ends_leads_to_signing_in() -> None:
    async def check(kit: Dashboard) -> None:
        browser = await kit.signed_in("operator")
        await browser.get("/jobs")
        [known] = await kit.store.tokens()
        await kit.store.revoke_token(known.name)
        await asyncio.sleep(60)
        page = await browser.get("/jobs")
        assert browser.path == "/sign-in?why=ended"
        assert "no longer signed in" in page.text

    shown(check)


def test_a_token_for_some_tasks_alone_is_refused() -> None:
    async def check(kit: Dashboard) -> None:
        browser = kit.browser()
        token = await kit.token("worker", tasks=("mail",))
        await browser.get("/sign-in")
        page = await browser.send("/sign-in", 403, token=token)
        assert "some tasks alone" in page.text

    shown(check)


def test_who_may_look_sees_no_buttons_and_may_press_none() -> None:
    async def check(kit: Dashboard) -> None:
        job = await kit.app.client.add_job("mail")
        await fail(kit, job.id)
        browser = await kit.signed_in("producer")
        page = await browser.get(f"/jobs/{job.id}")
        assert {form["action"] for form in page.all("form") if form.get("method") == "post"} == {
            "/theme",
            "/sign-out",
        }
        assert "Delete" not in (await browser.get("/jobs")).text
        for route in PATHS:
            if route.power is Power.OPERATE and route.method == "POST":
                await browser.get("/jobs")
                page = await browser.send(concrete(route.path), 403)
                assert "operate" in page.text, route.path
        now = await kit.app.client.get_job(job.id)
        assert now is not None
        assert now.state == "failed"

    shown(check)


def test_read_only_lets_no_role_change_anything() -> None:
    async def check(kit: Dashboard) -> None:
        job = await kit.app.client.add_job("mail")
        browser = await kit.signed_in("admin")
        page = await browser.get(f"/jobs/{job.id}")
        assert "/cancel" not in browser.answer.text
        assert "read-only" in browser.answer.text
        for route in PATHS:
            if route.changes:
                await browser.get("/jobs")
                page = await browser.send(concrete(route.path), 403)
                assert "--read-only" in page.text, route.path
        assert any(route.changes for route in PATHS)

    shown(check, is_read_only=True)


def test_every_page_that_changes_something_needs_the_power_to() -> None:
    free = {"/sign-in", "/sign-out", "/theme"}
    for route in PAGES:
        if route.method == "POST":
            assert route.power is Power.OPERATE or route.path in free, route.path


def test_a_tenant_sees_and_changes_its_own_jobs_alone() -> None:
    async def check(kit: Dashboard) -> None:
        own = await kit.app.client.for_tenant("acme").add_job("mail")
        other = await kit.app.client.for_tenant("zeus").add_job("mail")
        browser = await kit.signed_in("operator", tenant="acme")
        assert (await browser.get("/jobs")).jobs == [own.id]
        await browser.get(f"/jobs/{other.id}", status=404)
        await browser.get("/jobs?tenant=zeus", status=403)
        await browser.get("/jobs")
        await browser.send(f"/jobs/{other.id}/cancel", status=404)
        await browser.get("/jobs")
        await browser.send("/jobs/change", verb="delete", of="ticked", id=[own.id, other.id])
        assert await kit.app.client.get_job(own.id) is None
        left = await kit.app.client.get_job(other.id)
        assert left is not None
        assert left.state == "ready"

    shown(check)


async def _try(browser: Browser, id: int, body: dict[str, str], headers: dict[str, str]) -> int:
    answer = await browser.http.post(f"/jobs/{id}/cancel", data=body, headers=headers)
    return answer.status_code


def test_a_form_of_another_site_changes_nothing() -> None:
    async def check(kit: Dashboard) -> None:
        job = await kit.app.client.add_job("mail")
        browser = kit.browser()
        await browser.get("/jobs")
        good = {"csrf": browser.form_token}
        ours = {"Origin": HERE}
        for body, headers in (
            (good, {}),
            (good, {"Origin": "null"}),
            (good, {"Origin": "https://evil.example"}),
            (good, {"Origin": "http://127.0.0.1:9999"}),
            (good, {"Sec-Fetch-Site": "cross-site"}),
            (good, {"Sec-Fetch-Site": "same-site"}),
            ({"x": "1"}, ours),
            ({"csrf": "0" * 64}, ours),
            ({"csrf": ""}, ours),
        ):
            assert await _try(browser, job.id, body, headers) == 403, (body, headers)
        stranger = kit.browser()
        await stranger.get("/jobs")
        assert await _try(browser, job.id, {"csrf": stranger.form_token}, ours) == 403
        bare = kit.browser()  # a browser without our cookie
        assert await _try(bare, job.id, good, ours) == 403
        now = await kit.app.client.get_job(job.id)
        assert now is not None
        assert now.state == "ready"
        assert await _try(browser, job.id, good, {"Sec-Fetch-Site": "same-origin"}) == 303
        assert await _try(browser, job.id, good, ours) == 303

    shown(check)


def test_what_is_no_form_is_refused() -> None:
    async def check(kit: Dashboard) -> None:
        browser = kit.browser()
        await browser.get("/jobs")
        headers = {"Origin": HERE}
        token = browser.form_token
        for body, kind in (
            (b'{"csrf": "x"}', "application/json"),
            (b"csrf=" + token.encode(), "text/plain"),
            (b"csrf=%ff", "application/x-www-form-urlencoded"),
            (b"csrf=\xff", "application/x-www-form-urlencoded"),
            (b"a=1&" * 3000, "application/x-www-form-urlencoded"),
            (b"csrf=" + b"a" * 300_000, "application/x-www-form-urlencoded"),
        ):
            answer = await browser.http.post(
                "/jobs/1/cancel", content=body, headers={**headers, "Content-Type": kind}
            )
            assert answer.status_code == 400, (kind, body[:40])

    shown(check)


def test_every_answer_forbids_the_browser_what_pages_do_not_need() -> None:
    async def check(kit: Dashboard) -> None:
        browser = kit.browser()
        assets = [
            element.get("src") or element.get("href")
            for element in (await browser.get("/jobs")).elements
            if element.tag in ("script", "link")
        ]
        assert len(assets) >= 5
        for path in ("/", "/jobs", "/jobs/1", "/sign-in", "/nothing", *assets):
            answer = await browser.http.get(path)
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert "frame-ancestors 'none'" in policy
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["referrer-policy"] == "same-origin"
            caching = answer.headers["cache-control"]
            assert ("immutable" in caching) == (path in assets), path
        old = await browser.http.get("/assets/000000000000/dashboard.css")
        assert old.status_code == 200
        assert "no-store" in old.headers["cache-control"]
        assert (await browser.http.get("/assets/0/secrets.txt")).status_code == 404
        assert (await browser.http.get("/assets/0/..%2fsite.py")).status_code == 404

    shown(check)


def test_the_theme_is_kept_and_leads_back() -> None:
    async def check(kit: Dashboard) -> None:
        browser = kit.browser()
        page = await browser.get("/jobs?state=ready")
        assert page.all("html")[0]["data-theme"] == "auto"
        page = await browser.send("/theme", theme="dark", back="/jobs?state=ready")
        assert page.all("html")[0]["data-theme"] == "dark"
        assert browser.path == "/jobs?state=ready"
        page = await browser.send("/theme", theme="<pink>", back="https://evil.example/")
        assert page.all("html")[0]["data-theme"] == "auto"
        assert browser.path == "/"

    shown(check)


@pytest.mark.parametrize(
    ("text", "local"),
    [
        ("/jobs?state=failed", True),
        ("/", True),
        ("//evil.example", False),
        ("/\\evil.example", False),
        ("/a\\b", False),
        ("https://evil.example", False),
        ("javascript:alert(1)", False),
        ("/\t/evil.example", False),
        ("/ä", False),
        ("", False),
    ],
)
def test_only_addresses_of_this_site_are_led_to(text: str, local: bool) -> None:
    assert is_local(text) is local


def test_a_database_that_is_away_is_told_and_not_as_our_failure() -> None:
    async def check(kit: Dashboard) -> None:
        from windlass.errors import OutcomeUnknownError, StoreUnavailableError

        browser = kit.browser()
        await kit.app.client.add_jobs([JobSpec("mail")])
        for error, words in (
            (StoreUnavailableError("10.0.0.7 refused"), "cannot be reached"),
            (OutcomeUnknownError("10.0.0.7 reset"), "may have happened"),
            (RuntimeError("secret"), "log says more"),
        ):

            async def broken(*, raised: Exception = error, **words: Any) -> Any:
                raise raised

            kit.store.depths = broken
            page = await browser.get("/", status=500 if isinstance(error, RuntimeError) else 503)
            assert words in page.text
            assert str(error) not in page.text

    shown(check)
