"""A dashboard in memory, a browser that has neither scripts nor eyes, and what it reads."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from html.parser import HTMLParser
from typing import Any

import httpx

from tests.server.rest.kit import Kit, serving
from windlass.server.dashboard import make_dashboard
from windlass.testing import VirtualClock, run_virtual

HERE = "http://127.0.0.1:8090"

VOID = {"br", "hr", "img", "input", "link", "meta"}


class Element:
    """A tag, its attributes, and all text below it."""

    def __init__(self, tag: str, attributes: dict[str, str]) -> None:
        self.tag = tag
        self.attributes = attributes
        self.text = ""

    def __getitem__(self, name: str) -> str:
        return self.attributes[name]

    def get(self, name: str, default: str = "") -> str:
        return self.attributes.get(name, default)


class Read(HTMLParser):
    """A page, read as a browser reads it."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[Element] = []
        self._open: list[Element] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(Element(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> ends nothing"
        assert self._open[-1].tag == tag, f"</{tag}> ends <{self._open[-1].tag}>"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        if any("hidden" in element.attributes for element in self._open):
            return
        for element in self._open:
            element.text += data

    def all(self, tag: str) -> list[Element]:
        return [element for element in self.elements if element.tag == tag]

    @property
    def text(self) -> str:
        """What a reader sees, spaces made even."""
        return " ".join(self.all("main")[0].text.split())

    @property
    def links(self) -> list[str]:
        return [link["href"] for link in self.all("a")]

    @property
    def jobs(self) -> list[int]:
        """The ids of the rows of a table of jobs."""
        rows = [link for link in self.all("a") if link.get("class") == "row-link"]
        return [int(link.text) for link in rows]


class Browser:
    """Gets pages, keeps cookies, and sends the forms of the page that it is on."""

    def __init__(self, asgi: Any, *, address: str = "127.0.0.1", at: str = HERE) -> None:
        transport = httpx.ASGITransport(asgi, raise_app_exceptions=False, client=(address, 1))
        self.http = httpx.AsyncClient(transport=transport, base_url=at)
        self._at = at
        self.page = Read("")
        self.answer: httpx.Response

    async def get(self, path: str, status: int = 200) -> Read:
        """The page, after any that only says where it is."""
        self.answer = await self.http.get(path, follow_redirects=True)
        assert self.answer.status_code == status, (path, self.answer.status_code, self.answer.text)
        self.page = Read(self.answer.text)
        return self.page

    async def send(self, path: str, status: int = 200, **fields: Any) -> Read:
        """A form as the page that is shown would send it."""
        body = {"csrf": self.form_token, **fields}
        headers = {"Origin": self._at}
        self.answer = await self.http.post(path, data=body, headers=headers, follow_redirects=True)
        assert self.answer.status_code == status, (path, self.answer.status_code, self.answer.text)
        self.page = Read(self.answer.text)
        return self.page

    @property
    def form_token(self) -> str:
        return next(
            field["value"] for field in self.page.all("input") if field.get("name") == "csrf"
        )

    @property
    def path(self) -> str:
        """Where it is now."""
        return self.answer.url.raw_path.decode()

    async def press(self, action: str, status: int = 200) -> Read:
        """The button of the form that goes to this address, with the fields of that form."""
        form = re.search(
            rf'<form method="post" action="{re.escape(action)}".*?</form>', self.answer.text, re.S
        )
        assert form is not None, (action, self.answer.text)
        fields: dict[str, list[str]] = {}
        for field in Read(form[0]).all("input"):
            fields.setdefault(field["name"], []).append(field["value"])
        return await self.send(action, status, **fields)


class Dashboard(Kit):
    """A server with pages, and browsers that look at them."""

    pages: Any

    def browser(self, **options: Any) -> Browser:
        made = Browser(self.pages, **options)
        self._callers.append(made.http)
        return made

    async def signed_in(self, *roles: str, **more: Any) -> Browser:
        browser = self.browser()
        token = await self.token(*roles, **more)
        await browser.get("/sign-in")
        await browser.send("/sign-in", token=token)
        return browser


Check = Callable[[Dashboard], Awaitable[None]]


def shown(check: Check, *, is_read_only: bool = False, **settings: Any) -> None:
    """Run a check against a dashboard in memory, in virtual time."""

    async def body(clock: VirtualClock) -> None:
        async with serving(clock=clock, **settings) as kit:
            kit.__class__ = Dashboard
            assert isinstance(kit, Dashboard)
            kit.pages = make_dashboard(kit.service, is_read_only=is_read_only)
            await check(kit)

    run_virtual(body)


async def fail(kit: Dashboard, *ids: int, error: str = "ValueError: it broke") -> None:
    """Let jobs be failed for good."""
    await kit.app.client.permanently_fail_jobs(list(ids), error)
