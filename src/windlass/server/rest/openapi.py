"""The OpenAPI document, made from the table of routes and the types that read and write JSON.

msgspec says what it accepts and makes as JSON Schema, so the document cannot say otherwise than the
server does. Types that belong to all of Windlass carry no texts for callers of REST: these are in
`descriptions.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin

import msgspec

from windlass.server.identity import Power
from windlass.server.rest.adding import KEY, REPLAYED
from windlass.server.rest.admission import TENANT
from windlass.server.rest.answers import encode
from windlass.server.rest.call import Call
from windlass.server.rest.descriptions import EXAMPLES, FIELDS, HEADERS, PARAMETERS, POWERS, TAGS
from windlass.server.rest.problems import MEDIA_TYPE, Kind, Problem
from windlass.server.rest.reading import Either
from windlass.server.rest.routes import Answer, Nothing, Open, Route, Routes
from windlass.version import __version__

_ALWAYS = (
    Kind.INVALID,
    Kind.UNAUTHENTICATED,
    Kind.FORBIDDEN,
    Kind.TOO_MANY,
    Kind.INTERNAL,
    Kind.UNKNOWN_OUTCOME,
    Kind.UNAVAILABLE,
)
_WITH_BODY = (Kind.TOO_LARGE, Kind.MEDIA)
_REF = "#/components/schemas/{name}"
_JSON = "application/json"
_OTHER_NAMES = {"Chain_Any_": "Chain"}
"""Of generic types."""

Schema = dict[str, Any]


class Document(msgspec.Struct):
    """An OpenAPI document."""

    openapi: str
    info: dict[str, Any]
    paths: dict[str, Any]
    components: dict[str, Any]


def route(others: Sequence[Route]) -> Route:
    """The route of the document, which is made when it is first asked for."""
    routes = Routes("document")

    @cache
    def written() -> bytes:
        return encode(document((*others, *routes.all)))

    @routes.get("/v1/openapi.json", Open.ALWAYS, answers={200: Answer(Document, "The document.")})
    async def get_openapi_document(call: Call[Nothing, None]) -> bytes:
        """Get this document."""
        return written()

    return routes.all[0]


def document(routes: Sequence[Route]) -> Schema:
    """The whole document, as JSON values."""
    types = Types(routes)
    paths: dict[str, Schema] = {}
    for each in routes:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each, types)
    tags = dict.fromkeys(each.tag for each in routes)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Windlass",
            "version": __version__,
            "description": "Background jobs for programs in any language.",
        },
        "security": [{"token": []}],
        "tags": [{"name": tag, "description": TAGS[tag]} for tag in tags],
        "paths": paths,
        "components": {
            "schemas": types.components,
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token of `windlass token create`, or a JWT of the server's"
                    " issuer. While there is neither, programs on the server's own machine need"
                    " none.",
                }
            },
        },
    }


def _operation(route: Route, types: Types) -> Schema:
    summary, _, description = (route.serve.__doc__ or "").strip().partition("\n")
    told = [_unwrapped(description)] if description else []
    is_open = isinstance(route.power, Open)
    told += [] if isinstance(route.power, Open) else [POWERS[route.power]]
    operation: Schema = {
        "operationId": route.id,
        "tags": [route.tag],
        "summary": summary,
        "description": "\n\n".join(told),
        "parameters": _parameters(route, types),
        "responses": _responses(route, types),
    }
    if route.power is Open.ALWAYS:
        operation["security"] = []
    elif is_open:
        operation["security"] = [{}, {"token": []}]
    if route.body is not None and route.body is not Nothing:
        operation["requestBody"] = types.body(route)
    return operation


def _unwrapped(text: str) -> str:
    """A docstring's paragraphs without its line breaks."""
    paragraphs = re.split(r"\n\s*\n", text.strip())
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _parameters(route: Route, types: Types) -> list[Schema]:
    found: list[Schema] = [
        {"name": name, "in": "path", "required": True, **PARAMETERS[route.tag, name]}
        for name in route.parameters
    ]
    schema = types.components_of(route.query)
    for name, one in schema["properties"].items():
        found.append(
            {
                "name": name,
                "in": "query",
                "required": name in schema.get("required", ()),
                "description": one["description"],
                "schema": {key: value for key, value in one.items() if key != "description"},
            }
        )
    if isinstance(route.power, Power):
        found.append({"name": TENANT, "in": "header", **HEADERS[TENANT]})
    found += [{"name": name, "in": "header", **HEADERS[name]} for name in route.headers]
    return found


def _responses(route: Route, types: Types) -> Schema:
    found: Schema = {}
    for status, answer in route.answers.items():
        response: Schema = {
            "description": answer.words,
            "content": {answer.media_type: {"schema": types.schema(answer.type)}},
        }
        if KEY in route.headers:
            response["headers"] = {REPLAYED: HEADERS[REPLAYED]}
        found[str(status)] = response
    for status, kinds in _problems(route).items():
        found[str(status)] = {
            "description": "; or: ".join(kind.title for kind in kinds),
            "content": {MEDIA_TYPE: {"schema": types.schema(Problem)}},
        }
    return found


def _problems(route: Route) -> dict[int, list[Kind]]:
    """What the route can refuse with, by status."""
    kinds = {*route.problems}
    if route.power is not Open.ALWAYS:
        kinds.update(_ALWAYS)
    if route.body is not None:
        kinds.update(_WITH_BODY)
    found: dict[int, list[Kind]] = {}
    for kind in Kind:
        if kind in kinds:
            found.setdefault(kind.status, []).append(kind)
    return found


class Types:
    """The schemas of all types that the routes read and write."""

    def __init__(self, routes: Sequence[Route]) -> None:
        kinds = dict.fromkeys(
            kind for route in routes for part in _types(route) for kind in _alternatives(part)
        )
        kinds[Problem] = None
        schemas, components = msgspec.json.schema_components(list(kinds), ref_template=_REF)
        self._schemas = dict(zip(kinds, map(_renamed, schemas), strict=True))
        self.components: dict[str, Schema] = {
            _OTHER_NAMES.get(name, name): _described(_OTHER_NAMES.get(name, name), _renamed(schema))
            for name, schema in components.items()
        }

    def schema(self, kind: Any) -> Schema:
        found = [self._schemas[one] for one in _alternatives(kind)]
        return found[0] if len(found) == 1 else {"oneOf": found}

    def components_of(self, kind: type[msgspec.Struct]) -> Schema:
        return self.components[kind.__name__]

    def body(self, route: Route) -> Schema:
        kinds = list(_bodies(route))
        found = [self._schemas[one] for one in kinds]
        needed = any(self.components_of(one).get("required") for one in kinds)
        return {
            "required": needed,
            "content": {
                _JSON: {
                    "schema": found[0] if len(found) == 1 else {"oneOf": found},
                    "examples": {name: {"value": it} for name, it in EXAMPLES[route.id].items()},
                }
            },
        }


def _types(route: Route) -> Iterable[Any]:
    yield route.query
    yield from _bodies(route)
    for answer in route.answers.values():
        yield answer.type


def _bodies(route: Route) -> Iterable[type[msgspec.Struct]]:
    match route.body:
        case None:
            pass
        case Either(one, many):
            yield from (one, many)
        case kind:
            yield kind


def _alternatives(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if isinstance(kind, UnionType) or get_origin(kind) is Union else (kind,)


def _renamed(schema: Any) -> Any:
    """The same schema, with names for generic types that a reader expects."""
    match schema:
        case dict():
            return {name: _renamed(value) for name, value in schema.items()}
        case list():
            return [_renamed(value) for value in schema]
        case str() if schema.startswith("#/"):
            head, _, name = schema.rpartition("/")
            return f"{head}/{_OTHER_NAMES.get(name, name)}"
        case _:
            return schema


def _described(name: str, schema: Schema) -> Schema:
    """A component whose texts are clean, and whose fields all have one."""
    if "description" in schema:
        schema["description"] = _unwrapped(schema["description"])
    if name in _OTHER_NAMES.values():
        schema["title"] = name
    for field, one in schema.get("properties", {}).items():
        if "description" not in one:
            one["description"] = FIELDS.get(name, {}).get(field) or FIELDS["*"][field]
        if field.endswith("_at"):
            _give_format(one)
    return schema


def _give_format(schema: Schema) -> None:
    """Instants are dates, also where their type does not say so because it takes no input."""
    for one in (schema, *schema.get("anyOf", ())):
        if one.get("type") == "string":
            one["format"] = "date-time"
