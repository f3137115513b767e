"""What a page answers with, and the headers of every answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import urlencode

import msgspec
from litestar.datastructures import Cookie

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
"""The browser runs our files and shows our images; nothing inline, nothing from elsewhere."""

HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
NOT_STORED = {"Cache-Control": "no-store", "Vary": "Cookie"}
KEPT = {"Cache-Control": "public, max-age=31536000, immutable"}
"""Of assets, whose addresses change with what is in them."""


class Page(msgspec.Struct, frozen=True):
    """A page of this template, with these values."""

    template: str
    values: Mapping[str, Any] = {}
    status: int = 200


class See(msgspec.Struct, frozen=True):
    """Another address of this site, which the browser gets next; with cookies to set."""

    address: str
    cookies: tuple[Cookie, ...] = ()


class Raw(msgspec.Struct, frozen=True):
    """Bytes of another kind: an asset, or JSON for a script of ours."""

    body: bytes
    kind: str
    is_kept: bool = False


class Events(msgspec.Struct, frozen=True):
    """Server-sent events, until the reader leaves."""

    pieces: AsyncIterator[bytes]


Answer = Page | See | Raw | Events


def address(path: str, **words: Any) -> str:
    """An address of this site; words that are None or empty are left out, a list stands for several
    of one name."""
    given = {name: value for name, value in words.items() if value not in (None, "", [], ())}
    return f"{path}?{urlencode(given, doseq=True)}" if given else path


def is_local(text: str) -> bool:
    """Whether a text can only be an address of this site: browsers take `//x` and `/\\x` for other
    sites, and pass over tabs and line breaks."""
    is_path = text.startswith("/") and not text.startswith(("//", "/\\"))
    return is_path and text.isascii() and text.isprintable() and "\\" not in text
