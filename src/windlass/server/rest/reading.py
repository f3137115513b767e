"""From bytes to values: bodies and queries are read strictly, and a refusal names the field.

A body is read while it arrives, and no further than its limit. Types are checked by msgspec: an
unknown field, a number in quotes or a date without a zone is refused, and nothing is stored.
"""

from __future__ import annotations

import re
import urllib.parse
from typing import Any, TypeVar

import msgspec
from litestar import Request

from windlass.server.rest.problems import Gone, Kind, Refused

T = TypeVar("T")

MIB = 1024 * 1024
MOST_PARAMETERS = 100
_PLACE = re.compile(r" - at `\$(.*?)`$")
_NAMED = re.compile(r"(?:unknown|required) field `(.*?)`")


class Either(msgspec.Struct, frozen=True):
    """A body that is `one` thing, or `many` of them below the name `of`."""

    one: type[msgspec.Struct]
    many: type[msgspec.Struct]
    of: str


async def read_body(request: Request[Any, Any, Any], limit: int) -> bytes:
    """The body, `limit` bytes at most. What it is said to be is checked before it is read."""
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length[:20]) > limit:
        raise _too_large(limit)
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise Gone
        assert message["type"] == "http.request"
        chunk = message["body"]
        size += len(chunk)
        if size > limit:
            raise _too_large(limit)
        chunks.append(chunk)
        if not message.get("more_body", False):
            break
    raw = b"".join(chunks)
    if raw:
        require_json(request)
    return raw


def require_json(request: Request[Any, Any, Any]) -> None:
    """Refuse what is not said to be JSON: a form of a web page is none."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refused(
            Kind.MEDIA,
            "send JSON, with the header Content-Type: application/json",
            field="Content-Type",
        )


def _too_large(limit: int) -> Refused:
    return Refused(
        Kind.TOO_LARGE,
        f"the body is larger than {limit // MIB} MiB; send less in one call",
        headers={"Connection": "close"},
    )


def decode_body(raw: bytes, kind: type[T] | Either) -> T | Any:
    """The body as a value of its type; an empty one is an empty object."""
    try:
        if isinstance(kind, Either):
            return _either(raw, kind)
        return msgspec.json.decode(raw or b"{}", type=kind)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise not_valid(error) from None


def _either(raw: bytes, kind: Either) -> Any:
    parts = msgspec.json.decode(raw or b"{}", type=dict[str, msgspec.Raw])
    if kind.of in parts:
        return msgspec.json.decode(raw, type=kind.many)
    if len(raw) > MIB:
        raise _too_large(MIB)
    return msgspec.json.decode(raw or b"{}", type=kind.one)


def decode_query(query: bytes, kind: type[T]) -> T:
    """The parameters of a query. A list takes a parameter several times, others take it once."""
    lists = {
        field.encode_name
        for field in msgspec.structs.fields(kind)  # type: ignore[arg-type]
        if "list" in str(field.type)
    }
    found: dict[str, Any] = {}
    try:
        pairs = urllib.parse.parse_qsl(
            query.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MOST_PARAMETERS,
        )
    except ValueError as error:
        raise Refused(Kind.INVALID, f"the query cannot be read: {error}") from None
    for name, value in pairs:
        if name in lists:
            found.setdefault(name, []).append(value)
        elif name in found:
            raise Refused(Kind.INVALID, "the parameter is given more than once", field=name)
        else:
            found[name] = value
    try:
        return msgspec.convert(found, kind, strict=False)
    except msgspec.MsgspecError as error:
        raise not_valid(error, "parameter") from None


def not_valid(error: Exception, of: str = "field") -> Refused:
    """What msgspec says, with the field to blame."""
    if isinstance(error, RecursionError):
        return Refused(Kind.INVALID, "the JSON is nested too deeply")
    words = str(error)
    if not isinstance(error, msgspec.ValidationError):
        return Refused(Kind.INVALID, f"the body is not JSON: {words}"[:500])
    place = _PLACE.search(words)
    where = place[1].lstrip(".") if place else ""
    text = words[: place.start()] if place else words
    if named := _NAMED.search(text):
        where = f"{where}.{named[1]}" if where else named[1]
        known = "missing" if "missing" in text else "unknown"
        text = f"the {of} {named[1]!r} is {known}"
    return Refused(Kind.INVALID, text[:500], field=where[:200] or None)
