"""Scripts, styles and images: files of the package, at addresses that change with what is in them,
so that browsers keep them for good."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from typing import NamedTuple

_KINDS = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
}
_NAMES = (
    "dashboard.css",
    "dashboard.js",
    "charts.js",
    "icon.svg",
    "vendor/htmx.min.js",
    "vendor/idiomorph-ext.min.js",
    "vendor/uPlot.iife.min.js",
    "vendor/uPlot.min.css",
)
PATH = "/assets"


class Asset(NamedTuple):
    body: bytes
    kind: str
    digest: str


@cache
def assets() -> dict[str, Asset]:
    """By the last part of their names."""
    folder = files("windlass.server.dashboard") / "static"
    found = {}
    for name in _NAMES:
        body = folder.joinpath(*name.split("/")).read_bytes()
        short = name.rpartition("/")[2]
        kind = _KINDS[f".{short.rpartition('.')[2]}"]
        found[short] = Asset(body, kind, hashlib.sha256(body).hexdigest()[:12])
    return found


def asset_address(name: str) -> str:
    return f"{PATH}/{assets()[name].digest}/{name}"
