"""What a browser keeps: the token it signed in with, a random visit, and the theme.

The server keeps no sessions, so that any of several answers any request: the cookie holds the token
itself, out of reach of scripts, and is sent to this site alone. It counts for pages and for nothing
else: REST takes tokens from the header Authorization only, so no other site can make a browser use
one there. The visit is what forms are tied to (`forms.py`).
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from typing import Any

from litestar.datastructures import Cookie

TOKEN, VISIT, THEME = "windlass_token", "windlass_visit", "windlass_theme"
THEMES = ("auto", "light", "dark")

_VISIT = re.compile(r"[A-Za-z0-9_-]{43}")
_TOKEN = re.compile(r"[A-Za-z0-9_.-]{1,3800}")
"""Tokens of Windlass and JWTs, as far as a cookie holds them."""
_YEAR = 365 * 86_400


class Cookies:
    """The cookies of one request, and how new ones are written."""

    def __init__(self, scope: Mapping[str, Any]) -> None:
        self._is_secure = scope.get("scheme") == "https"
        self._found: dict[str, str] = {}
        for name, value in scope["headers"]:
            if name.lower() == b"cookie":
                for part in value.decode("latin-1").split(";"):
                    key, _, text = part.strip().partition("=")
                    self._found.setdefault(key, text)

    @property
    def token(self) -> str | None:
        return self._found.get(self._name(TOKEN)) or None

    @property
    def visit(self) -> str | None:
        text = self._found.get(self._name(VISIT), "")
        return text if _VISIT.fullmatch(text) else None

    @property
    def theme(self) -> str:
        text = self._found.get(THEME, "")
        return text if text in THEMES else "auto"

    def signed_in(self, token: str) -> Cookie:
        """Keeps a token until the browser ends."""
        return self._secret(TOKEN, token)

    def signed_out(self) -> Cookie:
        return self._secret(TOKEN, "", max_age=0)

    def with_visit(self, visit: str) -> Cookie:
        return self._secret(VISIT, visit)

    def with_theme(self, theme: str) -> Cookie:
        return Cookie(THEME, value=theme, path="/", samesite="lax", max_age=_YEAR)

    def _secret(self, name: str, value: str, max_age: int | None = None) -> Cookie:
        return Cookie(
            self._name(name),
            value=value,
            path="/",
            httponly=True,
            samesite="strict",
            secure=self._is_secure,
            max_age=max_age,
        )

    def _name(self, name: str) -> str:
        """Over TLS a name that the browser lets only this host set, and only over TLS."""
        return f"__Host-{name}" if self._is_secure else name


def fits(token: str) -> bool:
    """Whether a cookie can hold it."""
    return _TOKEN.fullmatch(token) is not None


def make_visit() -> str:
    return secrets.token_urlsafe(32)
