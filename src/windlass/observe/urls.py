"""URLs as they may be shown: in logs, errors and answers, never with a password."""

from __future__ import annotations

import re

HIDDEN = "***"

_USER_INFO = re.compile(r"^([a-z][a-z0-9+.-]*://)(.*)@", re.IGNORECASE | re.DOTALL)
_PARAMETER = re.compile(r"((?:^|[?&\s])(?:ssl)?password\s*=\s*)('(?:[^'\\]|\\.)*'|[^&\s]+)", re.I)


def without_password(url: str) -> str:
    """The URL with each password in it replaced; one without is returned as it is.

    What stands before the last @ counts as user and password, also where a / or @ of the password
    was not escaped: rather too much is hidden than too little.
    """
    shown = _PARAMETER.sub(lambda found: f"{found[1]}{HIDDEN}", url)
    return _USER_INFO.sub(_hide_user_info, shown)


def _hide_user_info(found: re.Match[str]) -> str:
    user, colon, _ = found[2].partition(":")
    return f"{found[1]}{user}:{HIDDEN}@" if colon else found[0]


def without_secrets(text: str, url: str) -> str:
    """A text about a URL in which nothing is quoted that may be a part of its password."""
    if without_password(url) == url:
        return text
    return re.sub(r'"[^"]*"', f'"{HIDDEN}"', text)
