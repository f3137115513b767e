"""What a page sends back. It is taken only from a page of this site.

Three things must agree: where the browser says that the form comes from (`Origin`, or
`Sec-Fetch-Site`), the visit's cookie, which is sent by pages of this site alone, and a token in the
form that is made from that cookie and stands on our pages only.
"""

from __future__ import annotations

import hashlib
import hmac
import urllib.parse
from collections.abc import Mapping
from typing import Any

from litestar import Request

from windlass.server.refusals import Forbidden, Refusal

_FIELD = "csrf"
MOST_BYTES = 256 * 1024
MOST_FIELDS = 2_000


class BadForm(Refusal):
    """Raised when what was sent is no form of ours."""

    status = 400
    code = "INVALID_ARGUMENT"


class Left(Exception):
    """Raised when the browser left before all had arrived."""


def form_token(visit: str) -> str:
    """What the forms of a visit carry."""
    return hmac.new(visit.encode(), b"windlass form", hashlib.sha256).hexdigest()


def require_same_site(headers: Mapping[str, str]) -> None:
    """Forbidden unless the browser says that a page of this site has sent it."""
    origin = headers.get("origin")
    if origin is not None:
        host = urllib.parse.urlsplit(origin).netloc if "://" in origin else ""
        is_ours = bool(host) and host.lower() == headers.get("host", "").lower()
    else:
        is_ours = headers.get("sec-fetch-site") == "same-origin"
    if not is_ours:
        raise Forbidden(
            "this did not come from a page of the dashboard, so nothing was changed; open the page"
            " here and try again"
        )


def require_token(form: Form, visit: str | None) -> None:
    """Forbidden unless the form stands on a page that was made for this visit."""
    given = form.one(_FIELD) or ""
    if visit is None or not hmac.compare_digest(given.encode(), form_token(visit).encode()):
        raise Forbidden(
            "this page is from before you signed in, or cookies are off, so nothing was changed;"
            " load the page again and repeat it"
        )


async def read_form(request: Request[Any, Any, Any]) -> Form:
    """The form in the body, read no further than its limit."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise BadForm("forms are sent as application/x-www-form-urlencoded")
    chunks: list[bytes] = []
    size, more = 0, True
    while more:
        message = await request.receive()
        if message["type"] != "http.request":
            raise Left
        chunks.append(message["body"])
        size += len(message["body"])
        if size > MOST_BYTES:
            raise BadForm("the form is too large; choose fewer jobs at a time")
        more = message.get("more_body", False)
    return parse(b"".join(chunks))


def parse(raw: bytes) -> Form:
    """A query, or a form: both are written alike."""
    try:
        pairs = urllib.parse.parse_qsl(
            raw.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MOST_FIELDS,
        )
    except ValueError as error:
        raise BadForm(f"this cannot be read: {error}") from None
    return Form(pairs)


class Form:
    """Names and values, as they were sent. Blank values are as if they were not there."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self._pairs = [(name, value) for name, value in pairs if value.strip()]

    def one(self, name: str) -> str | None:
        """The first value of a name."""
        return next((value for key, value in self._pairs if key == name), None)

    def all(self, name: str) -> list[str]:
        return [value for key, value in self._pairs if key == name]

    def number(self, name: str) -> int | None:
        """A whole number below 2**63; BadForm if it is something else."""
        text = self.one(name)
        if text is None:
            return None
        text = text.strip()
        if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text) < 2**63):
            raise BadForm(f"{name} must be a whole number, not {text[:40]!r}")
        return int(text)

    def numbers(self, name: str) -> list[int]:
        found = []
        for text in self.all(name):
            number = Form([(name, text)]).number(name)
            assert number is not None
            found.append(number)
        return found
