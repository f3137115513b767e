"""Whatever is in a payload, a name or an error is shown as text, and is neither HTML nor script."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from tests.dashboard.kit import Browser, Dashboard, Read, fail, shown
from windlass import JobSpec
from windlass.server.dashboard.rendering import environment, visible
from windlass.store.records import ClaimRequest, Fail, Note

HOSTILE = [
    "<script>alert('x')</script>",
    '"><img src=x onerror=alert(1)>',
    "'><svg/onload=alert(1)>",
    "</title></textarea></pre><script src=//evil.example></script>",
    "javascript:alert(1)",
    "{{ 7*7 }}{% raw %}",
    "\x1b[2J\x07\x7f\u202egnp.exe\u2066\ufeff",
    '" hx-get="/jobs/1/retry" hx-trigger="load',
    "-->]]><!--",
    "&lt;b&gt; &amp;",
]

KNOWN = {
    "a",
    "body",
    "br",
    "button",
    "code",
    "figure",
    "figcaption",
    "dd",
    "details",
    "dialog",
    "div",
    "dl",
    "dt",
    "form",
    "g",
}
KNOWN |= {"h1", "h2", "head", "header", "html", "input", "kbd", "label", "li", "link", "main"}
KNOWN |= {"meta", "nav", "ol", "option", "p", "path", "pre", "progress", "rect", "circle", "script"}
KNOWN |= {"section", "select", "span", "summary", "svg", "symbol", "table", "tbody", "td", "text"}
KNOWN |= {"th", "thead", "time", "title", "tr", "ul", "use", "noscript", "polyline", "line"}


def require_harmless(page: Read) -> None:
    """No element, attribute or address that our templates do not have."""
    for element in page.elements:
        assert element.tag in KNOWN, element.tag
        for name, value in element.attributes.items():
            assert not name.startswith("on"), (element.tag, name)
            assert name not in ("style", "srcdoc", "formaction"), (element.tag, name)
            if name in ("src", "href", "action", "hx-get"):
                assert value.startswith(("/", "#")), (element.tag, name, value)
                assert not value.startswith("//")
            if name == "hx-get":
                assert element.get("id") == "live"
            if name == "src":
                assert value.startswith("/assets/")
    assert not page.all("img")


def encode(value: object) -> str:
    return msgspec.json.encode(value).decode()


async def fill(kit: Dashboard, text: str) -> list[int]:
    """Jobs that have this text wherever a caller or a handler can put one."""
    name = text.replace("\x07", "").replace("\x1b", "")[:120]
    client = kit.app.client.for_tenant(name)
    await client.start_chain(name, {text: [text, {"deep": text}]}, key=name)
    [first] = await kit.store.claim(ClaimRequest(worker=f"w{name}", tasks=None, limit=1))
    await kit.store.settle([(first, Fail(text, final=True))])
    waiting = await client.add_job(name, text, blockers=[first.job_id], on_blocker_failure="wait")
    [one, two] = await client.add_jobs(
        [
            JobSpec(name, [text], queue=name, key=name, flags=[name], meta={"m": text}),
            JobSpec(name, {"n": text}, max_attempts=1),
        ]
    )
    leases = await kit.store.claim(ClaimRequest(worker=f"w{name}", tasks=None, limit=2))
    lease = next(lease for lease in leases if lease.job_id == one.id)
    await kit.store.note(lease, Note(progress=encode([0.5, text])))
    await kit.store.note(lease, Note(entry=encode({"log": text})))
    await kit.store.note(lease, Note(entry=encode(text)))
    other = next(lease for lease in leases if lease.job_id == two.id)
    await kit.store.settle([(other, Fail(f"{text}\n{text}", delay=1.0))])
    await client.pause(task=name)
    await client.pause(queue=name)
    return [first.job_id, waiting.id, one.id, two.id]


async def walk(browser: Browser, start: str) -> int:
    """Every page that can be reached by links; how many there are."""
    seen: set[str] = set()
    todo = [start]
    while todo:
        path = todo.pop()
        if path in seen or path.startswith(("#", "/assets")):
            continue
        seen.add(path)
        answer = await browser.http.get(path, follow_redirects=True)
        assert answer.status_code in (200, 400, 404, 409), (path, answer.status_code)
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        page = Read(answer.text)
        require_harmless(page)
        todo += page.links
    return len(seen)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text_on_every_page(text: str) -> None:
    async def check(kit: Dashboard) -> None:
        ids = await fill(kit, text)
        browser = kit.browser()
        assert await walk(browser, "/") > 10
        for id in ids:
            await browser.get(f"/jobs/{id}")
        page = await browser.get(f"/jobs/{ids[3]}")
        assert visible(text.split("\n")[0]) in page.all("main")[0].text

    shown(check)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_addresses_are_answered_without_being_repeated_as_html(text: str) -> None:
    async def check(kit: Dashboard) -> None:
        browser = kit.browser()
        for path, name in itertools.product(
            ("/jobs", "/jobs/find", "/jobs/change", "/sign-in", "/chains", "/", "/failures"),
            ("state", "task", "queue", "key", "tenant", "since", "number", "next", "done", "verb"),
        ):
            answer = await browser.http.get(path, params={name: text})
            assert answer.status_code < 500, (path, name)
            require_harmless(Read(answer.text))

    shown(check)


def test_a_payload_as_large_as_there_can_be_is_shown() -> None:
    async def check(kit: Dashboard) -> None:
        text = "<b>" * 80_000
        job = await kit.app.client.add_job("large", {"text": text})
        page = await kit.browser().get(f"/jobs/{job.id}")
        assert text in page.all("main")[0].text
        require_harmless(page)
        listed = await kit.browser().get("/jobs")
        assert len(listed.text) < 1_000

    shown(check)


def test_a_page_says_what_the_database_holds_even_where_it_is_no_json() -> None:
    async def check(kit: Dashboard) -> None:
        job = await kit.app.client.add_job("odd", {"deep": [[[[]]]], "n": 1e300, "s": "\u2028"})
        await fail(kit, job.id, error="\udcff broken".encode("utf-8", "replace").decode())
        page = await kit.browser().get(f"/jobs/{job.id}")
        assert "1e300" in page.text

    shown(check)


def test_what_cannot_be_seen_is_made_visible() -> None:
    assert visible("a\x00\x1b\u202e\ud800b") == "a\\u0000\\u001b\\u202e\\ud800b"
    assert visible("two\nlines\tand ä 🎉") == "two\nlines\tand ä 🎉"
    assert visible(7) == 7


def test_no_template_turns_escaping_off() -> None:
    made = environment()
    assert made.autoescape is True
    assert made.loader is not None
    for name in made.list_templates():
        source, _, _ = made.loader.get_source(made, name)
        for way in ("|safe", "| safe", "autoescape", "Markup", "<style", "style=", "onclick"):
            assert way not in source, (name, way)
