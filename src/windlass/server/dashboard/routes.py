"""The table of pages. A page is declared once, beside the function that serves it: its address, and
the power that a caller needs for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

import msgspec

from windlass.server.dashboard.answers import Answer
from windlass.server.identity import Power

if TYPE_CHECKING:
    from windlass.server.dashboard.visit import Visit

Serve = Callable[["Visit"], Awaitable[Answer]]
S = TypeVar("S", bound=Serve)


class Open(Enum):
    """Instead of a power: what needs no token."""

    TO_ALL = "to all"


class Route(msgspec.Struct, frozen=True):
    """One method of one address; `changes` where it changes jobs, which a dashboard that was
    started with --read-only refuses."""

    method: str
    path: str
    power: Power | Open
    serve: Serve

    @property
    def changes(self) -> bool:
        return self.power is Power.OPERATE and self.method == "POST"


class Routes:
    """The pages of one subject."""

    def __init__(self) -> None:
        self.all: list[Route] = []

    def get(self, path: str, power: Power | Open) -> Callable[[S], S]:
        return self._add("GET", path, power)

    def post(self, path: str, power: Power | Open) -> Callable[[S], S]:
        return self._add("POST", path, power)

    def _add(self, method: str, path: str, power: Power | Open) -> Callable[[S], S]:
        def declare(serve: S) -> S:
            self.all.append(Route(method, path, power, serve))
            return serve

        return declare
