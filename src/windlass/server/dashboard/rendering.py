"""Templates, and the one place where text becomes HTML.

Everything that a template writes is escaped; none of them turns that off. What escaping leaves is
made visible: characters that cannot be seen, and those that turn the direction of the text around
them, are written as `\\u202e`.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from windlass.server.dashboard import formats
from windlass.server.dashboard.answers import address
from windlass.server.dashboard.assets import asset_address

_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)


def visible(value: Any) -> Any:
    """Text as it can be shown; anything else as it is."""
    if isinstance(value, str) and not isinstance(value, Markup) and _UNSEEN.search(value):
        return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", value)
    return value


@cache
def environment() -> Environment:
    """All templates. They are compiled when they are first used."""
    made = Environment(
        loader=PackageLoader("windlass.server.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=visible,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        extensions=["jinja2.ext.loopcontrols"],
    )
    made.filters.update(formats.FILTERS)
    made.globals.update(address=address, asset=asset_address)
    return made


def render(template: str, values: dict[str, Any]) -> bytes:
    return environment().get_template(template).render(values).encode()
