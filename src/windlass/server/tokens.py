"""Tokens: random text for the caller, its digest for the database.

A token has 256 random bits, so its digest cannot be turned back by trying, and needs no salt.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets

PREFIX = "wl_"
_BYTES = 32
_TOKEN = re.compile(r"wl_[A-Za-z0-9_-]{43,128}")


def make_token() -> str:
    return PREFIX + secrets.token_urlsafe(_BYTES)


def is_token(text: str) -> bool:
    """Whether it looks like one; anything else need not be looked for."""
    return _TOKEN.fullmatch(text) is not None


def digest_of(token: str) -> str:
    """What the database knows a token by."""
    return hashlib.sha256(token.encode()).hexdigest()


def is_same(digest: str, other: str) -> bool:
    """In a time that does not tell how much of them is alike."""
    return hmac.compare_digest(digest, other)
