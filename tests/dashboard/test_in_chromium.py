"""The dashboard as people use it: a real browser, a real server, real workers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from selenium.webdriver.common.keys import Keys

from tests.cli.program import Process, wait_until
from tests.dashboard.chromium import PHONE, WIDE, Chromium
from tests.dashboard.test_hostile_text import HOSTILE
from tests.leaks import grows
from tests.server.served import Served, start_windlass
from windlass import JobSpec
from windlass.model.cron import parse_crontab
from windlass.store.figures import Figures, TaskFigures
from windlass.store.records import ClaimRequest, Fail, Note

pytestmark = pytest.mark.rig

TASKS = """
import asyncio
from pathlib import Path
from windlass import App, Context

app = App(keep=3600)


@app.task(max_attempts=1)
async def fragile():
    if not Path("mended").exists():
        raise ValueError("it is broken")


@app.task
async def slow(ctx: Context):
    for step in range(1, 1000):
        if Path("enough").exists():
            break
        ctx.progress(step / 1000, f"step {step}")
        await asyncio.sleep(0.05)


@app.task
async def quick():
    pass
"""

PAGES = ("/", "/jobs", "/failures", "/chains", "/tasks", "/schedules", "/workers")
SOME = Figures(ok=800, retry=15, failed=5, waited=20_000_000, ran=5_000_000)
SOME.waits[1] = SOME.runs[2] = 820


class Site:
    """A server with a bit of everything, the browser that looks at it, and a worker at hand."""

    def __init__(self, folder: Path, chromium: Chromium) -> None:
        self.server = Served(folder)
        self.chromium = chromium
        self.folder = folder
        (folder / "work.py").write_text(TASKS)
        self.client: Any = self.server.app.sync
        self.fill()

    def fill(self) -> None:
        client = self.client
        client.add_jobs([JobSpec("send_mail", {"to": f"user{n}@example.com"}) for n in range(120)])
        client.add_jobs(
            [JobSpec("pick", {"order": n}, queue="warehouse", key=f"pick-{n}") for n in range(9)]
        )
        client.add_jobs([JobSpec("later", delay=3600.0 * n) for n in range(1, 4)])
        broken = client.add_jobs([JobSpec("charge", {"order": n}) for n in range(7)])
        client.permanently_fail_jobs(
            [job.id for job in broken], "ConnectionError: the bank does not answer\n  Traceback: …"
        )
        first = client.start_chain("pay", {"order": 7}, key="order-7")
        parts = [client.start_chain("resize", {"file": file}) for file in ("a.png", "b.png")]
        self.chain = client.start_chain(
            "publish", {"product": 7}, blockers=[first.id, *(part.id for part in parts)]
        ).id
        [nightly] = parse_crontab("30 4 * * mon  report ?id=weekly&tz=Europe/Berlin\n")

        async def more(store: Any) -> None:
            await store.register([nightly])
            await store.note_rates([TaskFigures("send_mail", SOME), TaskFigures("pick", SOME)])
            [lease, *_] = await store.claim(
                ClaimRequest(worker="ada-1", tasks=("send_mail",), limit=3, lease=3600.0)
            )
            await store.note(lease, Note(progress='[0.4,"page 4 of 10"]', entry='{"page":4}'))

        self.server.call(more)
        self.job = broken[0].id

    def worker(self, *arguments: str) -> Process:
        # In a folder of its own, so that it has the tasks of TASKS alone.
        process = start_windlass(
            self.folder, "run", "work:app", "-c", self.server.url, "--worker-name", "w", *arguments
        )
        process.wait_for_line("is looking for jobs")
        return process

    def close(self) -> None:
        self.server.close()


@pytest.fixture(scope="module")
@grows
def chromium() -> Iterator[Chromium]:
    browser = Chromium()
    yield browser
    browser.close()


@pytest.fixture(scope="module")
@grows
def site(tmp_path_factory: pytest.TempPathFactory, chromium: Chromium) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("site"), chromium)
    chromium.at = made.server.rest
    yield made
    chromium.open("/assets/0/icon.svg")  # nothing listens to the server any more
    made.close()


@pytest.fixture
def page(site: Site) -> Iterator[Chromium]:
    """The browser as it is when it was just started, and silent when the test is over."""
    browser = site.chromium
    browser.resize(WIDE)
    browser.prefer("light")
    browser.open("/assets/0/icon.svg")
    browser.driver.delete_all_cookies()
    browser.hush()
    yield browser
    browser.require_quiet()


@pytest.fixture
def worker(site: Site) -> Iterator[Process]:
    process = site.worker()
    yield process
    process.end()


# ── pages ──


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/", ["send_mail", "the bank does not answer"]),
        ("/jobs", ["pick-8", "warehouse"]),
        ("/jobs?state=running", ["page 4 of 10"]),
        ("/failures", ["the bank does not answer", "Retry…"]),
        ("/chains", ["order-7", "publish"]),
        ("/tasks", ["warehouse", "send_mail"]),
        ("/schedules", ["Europe/Berlin", "30 4 * * mon"]),
        ("/workers", ["ada-1", "page 4 of 10"]),
    ],
)
def test_a_page_has_its_data(page: Chromium, path: str, words: list[str]) -> None:
    page.open(path)
    for word in words:
        assert word in page.text, path
    page.wait("the pulse", lambda: page.one("#pulse").text == "live")


def test_numbers_move_while_jobs_are_added_and_the_page_stays(page: Chromium, site: Site) -> None:
    page.open("/")
    page.run("window.__same = true")

    def ready() -> int:
        return int(page.texts("[data-figure=ready]")[0].lstrip("~").replace(",", ""))

    before = ready()
    jobs = site.client.add_jobs([JobSpec("moving") for _ in range(25)])
    page.wait("25 more", lambda: ready() == before + 25)
    site.client.delete_jobs([job.id for job in jobs])
    page.wait("25 fewer", lambda: ready() == before)
    assert page.run("return window.__same") is True


def test_charts_are_drawn_over_those_of_the_server(page: Chromium) -> None:
    page.open("/")
    page.wait("three charts", lambda: len(page.all(".chart canvas")) == 3)
    assert page.all(".chart svg") == []
    page.open("/?minutes=15")
    page.wait("three charts", lambda: len(page.all(".chart canvas")) == 3)


def test_a_failed_job_is_retried_and_completes(page: Chromium, site: Site, worker: Process) -> None:
    job = site.client.add_job("fragile")
    page.open(f"/jobs/{job.id}")
    page.wait_for("ValueError: it is broken")
    assert "failed" in page.texts("h1")[0]
    (site.folder / "mended").touch()
    page.press("Retry")
    page.wait("its end", lambda: "completed" in page.texts("h1")[0])


def test_a_progress_bar_moves(page: Chromium, site: Site, worker: Process) -> None:
    job = site.client.add_job("slow")
    page.open(f"/jobs/{job.id}")
    seen: list[str] = []

    def moved() -> bool:
        text = page.texts(".wide-progress .progress-text")
        if text and text[0] not in seen:
            seen.append(text[0])
        return len(seen) >= 3

    page.wait("three steps", moved)
    page.run("window.__same = true")
    (site.folder / "enough").touch()
    page.wait("its end", lambda: "completed" in page.texts("h1")[0])
    assert page.run("return window.__same") is True


def test_a_queue_and_a_task_are_paused_and_resumed(page: Chromium, site: Site) -> None:
    page.open("/tasks")
    for kind, name in (("task", "send_mail"), ("queue", "warehouse")):
        for button, state in (("Pause", "paused"), ("Resume", "active")):
            script = (
                "const field = [...document.querySelectorAll(`input[name=${arguments[0]}]`)]"
                ".find(field => field.value === arguments[1]); field.form.querySelector('button')"
                ".click(); return field.form.innerText"
            )
            assert page.run(script, kind, name).strip() == button
            page.wait(
                state,
                lambda name=name, state=state: any(  # type: ignore[misc]
                    name in row and state in row for row in page.texts("tbody tr")
                ),
            )
            paused = site.client.paused()
            assert (name in (*paused.tasks, *paused.queues)) == (state == "paused")


def test_a_chain_is_drawn_and_its_boxes_stand_apart(page: Chromium, site: Site) -> None:
    page.open(f"/chains/{site.chain}")
    boxes = page.run(
        "return [...document.querySelectorAll('.picture rect')].map(r => r.getBoundingClientRect())"
    )
    assert len(boxes) == 4
    for one, two in itertools.combinations(boxes, 2):
        assert (
            one["right"] <= two["left"]
            or two["right"] <= one["left"]
            or one["bottom"] <= two["top"]
            or two["bottom"] <= one["top"]
        )
    assert len(page.all(".picture path.line-wait")) == 3
    page.run("document.querySelector('.picture a').focus()")
    page.driver.switch_to.active_element.send_keys(Keys.ENTER)
    page.wait("the job", lambda: page.path.startswith("/jobs/"))


def test_a_search_and_its_pages_hold_while_jobs_are_added(page: Chromium, site: Site) -> None:
    page.open("/jobs?state=ready&task=send_mail")
    first = page.texts("a.row-link")
    page.press("Older")
    page.wait("the second page", lambda: "after=" in page.path)
    second = page.texts("a.row-link")
    assert not set(first) & set(second)
    figure = page.texts("[data-figure=ready]")
    page.run("window.__settled = 0; addEventListener('htmx:afterSettle', () => window.__settled++)")
    added = site.client.add_jobs([JobSpec("send_mail", {"to": "new"}) for _ in range(10)])
    page.wait("a look", lambda: page.run("return window.__settled") >= 2)
    assert page.texts("a.row-link") == second
    assert page.texts("[data-figure=ready]") == figure
    site.client.delete_jobs([job.id for job in added])


def test_what_is_ticked_or_open_stays_so_while_the_page_lives(page: Chromium, site: Site) -> None:
    page.open("/jobs?state=ready")
    page.run("document.querySelectorAll('td.tick input')[2].click()")
    chosen = page.run("return document.querySelectorAll('td.tick input')[2].value")
    page.run("window.__settled = 0; addEventListener('htmx:afterSettle', () => window.__settled++)")
    jobs = site.client.add_jobs([JobSpec("moving") for _ in range(2)])
    page.wait("new rows", lambda: str(jobs[-1].id) in page.texts("a.row-link"))
    ticked = page.run("return [...document.querySelectorAll('td.tick :checked')].map(t => t.value)")
    assert ticked == [chosen]
    site.client.delete_jobs([job.id for job in jobs])
    page.open(f"/jobs/{_failing_twice(site)}")
    page.run("document.querySelector('#attempt-1 summary').click()")
    page.run("window.__settled = 0; addEventListener('htmx:afterSettle', () => window.__settled++)")
    page.wait("two looks", lambda: page.run("return window.__settled") >= 2)
    assert page.run("return document.querySelector('#attempt-1').open") is True


def _failing_twice(site: Site) -> int:
    job = site.client.add_job("twice", delay=0.0)

    async def attempts(store: Any) -> None:
        for _ in range(2):
            [lease] = await store.claim(ClaimRequest(worker="w", tasks=("twice",), limit=1))
            await store.settle([(lease, Fail("ValueError: again\nTraceback: …"))])
            await store.promote(100)

    site.server.call(attempts)
    return int(job.id)


def test_many_jobs_are_cancelled_after_a_count(page: Chromium, site: Site) -> None:
    site.client.add_jobs([JobSpec("many") for _ in range(60)])
    page.open("/jobs?task=many")
    page.run("document.querySelector('input[value=all]').click()")
    page.press("Cancel…")
    page.wait_for("Cancel 60 jobs?")
    page.press("Cancel")
    page.wait_for("60 jobs are cancelled")
    assert "done=" not in page.path
    assert len(site.client.list_jobs(task="many", state="cancelled")) == 60


# ── how it looks ──


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [WIDE, PHONE, 820])
def test_no_page_has_overlapping_or_cut_text(
    page: Chromium, site: Site, theme: str, width: int
) -> None:
    page.prefer(theme)
    page.resize(width)
    more = (
        f"/jobs/{site.job}",
        f"/chains/{site.chain}",
        "/jobs?state=failed",
        "/jobs?task=nothing",
        "/jobs/change?verb=delete&of=all&state=failed",
        "/sign-in",
    )
    for path in (*PAGES, *more):
        page.open(path)
        if path == "/":
            page.wait("three charts", lambda: len(page.all(".chart canvas")) == 3)
        page.require_tidy()
    page.open("/jobs/99999999")
    page.require_tidy()
    page.hush()  # that it is a 404 is what the console says


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_no_serious_fault(page: Chromium, site: Site, theme: str) -> None:
    page.prefer(theme)
    for path in (
        *PAGES,
        f"/jobs/{site.job}",
        f"/chains/{site.chain}",
        "/jobs/change?verb=retry&of=all&state=failed",
        "/sign-in",
    ):
        page.open(path)
        page.require_accessible()
    page.resize(PHONE)
    for path in ("/", "/jobs"):
        page.open(path)
        page.require_accessible()
    page.command("Page.setBypassCSP", enabled=False)
    page.open("/sign-in")


def test_the_theme_is_the_users_until_another_is_chosen(page: Chromium) -> None:
    def background() -> str:
        return str(page.run("return getComputedStyle(document.documentElement).backgroundColor"))

    page.open("/jobs")
    light = background()
    page.prefer("dark")
    dark = background()
    assert light != dark
    page.prefer("light")
    for theme, color in (("dark", dark), ("light", light), ("auto", light)):
        page.one("form[action='/theme'] button").click()
        page.wait(theme, lambda theme=theme: page.one("html").get_attribute("data-theme") == theme)  # type: ignore[misc]
        assert background() == color
        assert page.path == "/jobs"


def test_it_is_used_by_keyboard(page: Chromium) -> None:
    page.open("/")

    def type(*keys: str) -> None:
        for key in keys:
            page.driver.switch_to.active_element.send_keys(key)

    type("g", "j")
    page.wait("the jobs", lambda: page.path == "/jobs")
    type("j", "j", "x")
    rows = page.texts("a.row-link")
    ticked = page.run("return [...document.querySelectorAll('td.tick :checked')].map(t => t.value)")
    assert ticked == [rows[1]]
    type("k")
    assert page.driver.switch_to.active_element.text == rows[0]
    type("?")
    page.wait("the keys", lambda: page.one("#keys").is_displayed())
    type(Keys.ESCAPE)
    page.wait("no keys", lambda: not page.one("#keys").is_displayed())
    type("/")
    focused = page.driver.switch_to.active_element
    assert focused.tag_name == "input"
    focused.send_keys("gj?")  # letters in a field are letters
    assert focused.get_attribute("value") == "gj?"
    page.open("/jobs")
    page.driver.switch_to.active_element.send_keys(Keys.TAB)
    assert page.run("return document.activeElement.className") == "skip"


def test_pages_are_read_and_jobs_changed_without_scripts(page: Chromium, site: Site) -> None:
    job = site.client.add_job("scriptless")
    page.command("Emulation.setScriptExecutionDisabled", value=True)
    try:
        page.open("/")
        assert len(page.driver.find_elements("css selector", ".chart svg")) == 3
        page.open("/jobs?task=scriptless")
        main = page.driver.find_element("tag name", "main")
        assert "scriptless" in main.text
        page.open(f"/jobs/{job.id}")
        page.driver.find_element("css selector", "form[action$='/cancel'] button").click()
        wait_until(
            "the notice",
            lambda: "is cancelled" in page.driver.find_element("tag name", "main").text,
        )
    finally:
        page.command("Emulation.setScriptExecutionDisabled", value=False)
    page.open("/jobs")


# ── what it must withstand ──


def test_hostile_text_runs_nothing(page: Chromium, site: Site) -> None:
    client = site.client.for_tenant("hostile")
    paths = ["/", "/jobs", "/failures", "/chains", "/tasks", "/workers", "/schedules"]
    for text in (*HOSTILE, "<img src=x onerror=alert(1)>" * 9_000):
        name = text[:100].replace("\x07", "").replace("\x1b", "")
        job = client.add_job(
            name, {text: text} if len(text) < 1_000 else text, queue=name, key=name, flags=[name]
        )
        chain = client.start_chain(name, [text])
        client.pause(queue=name)

        async def run(store: Any, name: str = name, text: str = text) -> None:
            leases = await store.claim(ClaimRequest(worker=f"w{name}", tasks=(name,), limit=2))
            for lease in leases:
                entry = msgspec.json.encode([0.5, text[:1000]]).decode()
                await store.note(lease, Note(progress=entry))
                await store.note(lease, Note(entry=entry))
                await store.settle([(lease, Fail(text[:16_000], final=True))])

        site.server.call(run)
        paths += [f"/jobs/{job.id}", f"/chains/{chain.id}"]
    for path in paths:
        page.open(path)
        planted = "main img, main iframe, main script, main [onerror], main [onload], main [style]"
        allowed = ".uplot, .uplot *"
        found = page.run(
            "return [...document.querySelectorAll(arguments[0])]"
            ".filter(e => !e.matches(arguments[1])).map(e => e.outerHTML.slice(0, 200))",
            planted,
            allowed,
        )
        assert found == [], path
        page.require_quiet()
    client.delete_jobs([job.id for job in client.list_jobs(limit=1_000)])


# ── signing in ──


def test_a_browser_signs_in_and_out(
    chromium: Chromium, site: Site, tmp_path: Path, page: Chromium
) -> None:
    server = Served(tmp_path)
    try:
        token = server.token("operator")
        job = server.app.sync.add_job("mail")
        chromium.at = server.rest
        chromium.open(f"/jobs/{job.id}")
        assert chromium.path.startswith("/sign-in")
        chromium.one("#token").send_keys("wl_wrong" + Keys.ENTER)
        chromium.wait_for("no token of Windlass")
        chromium.one("#token").send_keys(token + Keys.ENTER)
        chromium.wait("the overview", lambda: "/sign-in" not in chromium.path)
        chromium.open(f"/jobs/{job.id}")
        chromium.press("Cancel")
        chromium.wait_for("is cancelled")
        assert chromium.run("return document.cookie") == ""
        chromium.one("form[action='/sign-out'] button").click()
        chromium.wait("the door", lambda: chromium.path == "/sign-in")
        chromium.hush()  # that a token is wrong, the console says too
    finally:
        chromium.at = site.server.rest
        chromium.open("/assets/0/icon.svg")
        chromium.hush()
        server.close()


def test_a_server_that_goes_and_comes_back_is_told(
    chromium: Chromium, site: Site, tmp_path: Path
) -> None:
    server = Served(tmp_path)
    try:
        chromium.at = server.rest
        chromium.open("/jobs")
        chromium.wait("the pulse", lambda: chromium.one("#pulse").text == "live")
        server.stop()
        chromium.wait("no pulse", lambda: chromium.one("#pulse").text == "lost")
        chromium.wait_for("The connection to the server is lost")
        server.start_again()
        chromium.wait("the pulse", lambda: chromium.one("#pulse").text == "live")
    finally:
        chromium.at = site.server.rest
        chromium.open("/assets/0/icon.svg")
        chromium.hush()
        server.close()
