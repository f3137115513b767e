"""The table of routes. A route is declared once, beside the function that serves it: its method,
path, power, types and answers. What Litestar serves, what the guard requires, what the OpenAPI
document says and what the tests try are all made from it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack

import msgspec

from windlass.server.identity import Power
from windlass.server.rest.problems import Kind
from windlass.server.rest.reading import MIB, Either

if TYPE_CHECKING:
    from windlass.server.rest.call import Call

BULK = 16 * MIB
"""Bytes of a body that may carry many jobs or outcomes; others are 1 MiB at most."""


class Nothing(msgspec.Struct, forbid_unknown_fields=True):
    """No parameters, or a body without fields."""


class Open(Enum):
    """Instead of a power: what needs no token."""

    ALWAYS = "always"
    ON_LOOPBACK = "on loopback"
    """From another address it needs a token, unless the setting says otherwise."""
    SCRAPED = "scraped"
    """The same, but what it tells is of all tenants: a token must be an admin's."""

    @property
    def needs(self) -> Power:
        """The power of a token, where it needs one."""
        return Power.ADMINISTER if self is Open.SCRAPED else Power.READ


class Answer(msgspec.Struct, frozen=True):
    """One way in which a route answers: its type, and when it is so."""

    type: Any
    words: str
    media_type: str = "application/json"


class Reply(msgspec.Struct, frozen=True):
    """An answer with a status of its own."""

    value: object
    status: int = 200
    headers: Mapping[str, str] = {}


class Text(msgspec.Struct, frozen=True):
    """An answer that is no JSON."""

    body: bytes
    media_type: str


class Streamed(msgspec.Struct, frozen=True):
    """An answer that is written piece by piece."""

    pieces: AsyncIterator[bytes]


Serve = Callable[["Call[Any, Any]"], Awaitable[object]]
S = TypeVar("S", bound=Serve)


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One method of one address."""

    method: str
    path: str
    power: Power | Open
    query: type[msgspec.Struct]
    body: type[msgspec.Struct] | Either | None
    limit: int
    answers: Mapping[int, Answer]
    problems: tuple[Kind, ...]
    headers: tuple[str, ...]
    """Headers that it heeds, beside those of all."""
    serve: Serve
    tag: str

    @property
    def id(self) -> str:
        """The operation's id in the OpenAPI document."""
        return self.serve.__name__

    @property
    def status(self) -> int:
        """That of an answer which names none."""
        return next(iter(self.answers))

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names in its path."""
        return tuple(part[1:-1] for part in self.path.split("/") if part.startswith("{"))


class Options(TypedDict, total=False):
    """What a route may say of itself, as the fields of Route."""

    query: type[msgspec.Struct]
    body: type[msgspec.Struct] | Either | None
    limit: int
    answers: Mapping[int, Answer]
    problems: tuple[Kind, ...]
    headers: tuple[str, ...]


class Routes:
    """The routes of one subject, in the order in which they are declared."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.all: list[Route] = []

    def get(self, path: str, power: Power | Open, **options: Unpack[Options]) -> Callable[[S], S]:
        return self._add("GET", path, power, options)

    def post(self, path: str, power: Power | Open, **options: Unpack[Options]) -> Callable[[S], S]:
        return self._add("POST", path, power, {"body": Nothing, **options})

    def delete(
        self, path: str, power: Power | Open, **options: Unpack[Options]
    ) -> Callable[[S], S]:
        return self._add("DELETE", path, power, options)

    def _add(
        self, method: str, path: str, power: Power | Open, options: Options
    ) -> Callable[[S], S]:
        chosen: Options = {
            "query": Nothing,
            "body": None,
            "limit": MIB,
            "problems": (),
            "headers": (),
            **options,
        }

        def declare(serve: S) -> S:
            route = Route(
                method=method, path=path, power=power, serve=serve, tag=self.tag, **chosen
            )
            self.all.append(route)
            return serve

        return declare
