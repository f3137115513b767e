"""How a payload becomes a call: the function's own annotations are the schema.

Two styles exist. *Typed*: the payload's keys are the function's arguments, checked both when a
job is enqueued and when it runs; an array payload goes whole to the function's one argument.
*Payload*: `task(payload, helpers)`, as in a tasks folder; the payload goes in as it is.
"""

from __future__ import annotations

import inspect
import re
import sys
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import asdict

from windlass.errors import PayloadError, TaskError
from windlass.model import payload as payloads
from windlass.model.cron.schedule import CRON
from windlass.tasks.context import Context

Call = tuple[tuple[Any, ...], dict[str, Any]]
_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class PayloadStyle:
    """`function(payload, helpers)`; a function may take fewer arguments."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self._count = 2
        parameters = _parameters(name, function)
        if not any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters):
            positional = [p for p in parameters if p.kind in _BY_POSITION]
            needed = [p for p in positional if p.default is inspect.Parameter.empty]
            if len(needed) > 2:
                raise TaskError(
                    f"task {name!r} must take (payload, helpers), not {len(needed)} arguments"
                )
            self._count = min(2, len(positional))
        self.wants_context = self._count == 2

    def check(self, payload: str) -> None:
        """Any payload will do."""

    def bind(self, payload: str, context: Context) -> Call:
        if self._count == 0:
            return (), {}
        value = payloads.decode(payload)
        return ((value, context) if self._count == 2 else (value,)), {}


class TypedStyle:
    """The payload's keys are the arguments."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self._name = name
        self._context: str | None = None
        parameters = _parameters(name, function)
        self._names = [parameter.name for parameter in parameters]
        hints = _hints(function)
        fields: list[Any] = []
        self._positional: list[str] = []
        self._open = False
        for parameter in parameters:
            hint = hints.get(parameter.name, Any)
            if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
                self._positional.append(parameter.name)
            if _is_context(hint):
                self._context = parameter.name
                continue
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                self._open = True
                continue
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                raise TaskError(
                    f"task {name!r} takes *{parameter.name}, but arguments come from the"
                    " payload's keys; take a list instead"
                )
            fields.append(_field(parameter, hint))
        self.wants_context = self._context is not None
        self._fields = [field[0] for field in fields]
        self._plain = self._context is None and not self._positional and not self._open
        self._decoder = self._make_decoder(name, fields)
        self._whole = (
            msgspec.json.Decoder(fields[0][1], dec_hook=payloads.decode_foreign)
            if len(fields) == 1
            else None
        )

    def _make_decoder(self, name: str, fields: list[Any]) -> msgspec.json.Decoder[Any]:
        try:
            struct = msgspec.defstruct(
                "Arguments", fields, forbid_unknown_fields=not self._open, kw_only=True
            )
            return msgspec.json.Decoder(struct, dec_hook=payloads.decode_foreign)
        except (TypeError, ValueError, NameError) as error:
            raise TaskError(
                f"the arguments of task {name!r} cannot be a payload: {error}"
            ) from None

    def arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The payload of a call `task.enqueue(*args, **kwargs)`."""
        if not args:
            return dict(kwargs)
        try:
            names = [name for name in self._names if name != self._context]
            if len(args) > len(names):
                raise TypeError("too many positional arguments")
            given = dict(zip(names, args, strict=False))
            if twice := given.keys() & kwargs.keys():
                raise TypeError(f"multiple values for argument {min(twice)!r}")
        except TypeError as error:
            raise PayloadError(f"task {self._name!r}: {error}", field="payload") from None
        return {**given, **kwargs}

    def check(self, payload: str) -> None:
        """Refuse a payload this function could not be called with."""
        self._decode(payload)

    def _decode(self, payload: str) -> Any:
        try:
            if self._whole is not None and payload.startswith("["):
                return self._whole.decode(payload)
            return self._decoder.decode(payload)
        except Exception as error:  # a model's own checks may raise anything: it does not fit
            plain = self._without_cron(payload)
            if plain is not None:
                return self._decode(plain)
            raise PayloadError(
                f"payload does not fit task {self._name!r}: {error}", field="payload"
            ) from None

    def _without_cron(self, payload: str) -> str | None:
        """What a schedule says of itself is no argument unless the function asks for it."""
        if CRON in self._fields or f'"{CRON}"' not in payload:
            return None
        value = payloads.decode(payload)
        if not isinstance(value, dict) or CRON not in value:
            return None
        del value[CRON]
        return payloads.encode(value, limit=sys.maxsize)

    def bind(self, payload: str, context: Context) -> Call:
        if self._plain:
            try:
                return (), asdict(self._decoder.decode(payload))
            except Exception:  # noqa: S110 - what is wrong with it is found out below
                pass
        value = self._decode(payload)
        if payload.startswith("["):
            arguments = {self._fields[0]: value}
        else:
            arguments = asdict(value)
            if self._open:
                extra = payloads.decode(payload)
                arguments.update({k: v for k, v in extra.items() if k not in arguments})
        if self._plain:
            return (), arguments
        if self._context is not None:
            arguments[self._context] = context
        return tuple(arguments.pop(name) for name in self._positional), arguments


Style = PayloadStyle | TypedStyle


def _parameters(name: str, function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        raise TaskError(f"task {name!r} is not a function Windlass can call") from None


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError):
        # A name that exists for the type checker only: such arguments are taken as they come,
        # except that a Context is recognised by its spelling.
        raw = getattr(function, "__annotations__", {})
        return {
            name: Context if _spells_context(hint) else _resolve(hint, function)
            for name, hint in raw.items()
        }


def _resolve(hint: Any, function: Callable[..., Any]) -> Any:
    if not isinstance(hint, str):
        return hint
    scope = getattr(function, "__globals__", {})
    try:
        return eval(hint, scope)  # noqa: S307 - the function's own annotation
    except (NameError, TypeError, AttributeError, SyntaxError):
        return Any


def _spells_context(hint: Any) -> bool:
    words = re.findall(r"\w+", hint) if isinstance(hint, str) else []
    return "Context" in words or "SyncContext" in words


def _is_context(hint: Any) -> bool:
    """Context itself, or `Context | None`, or `Annotated[Context, …]`."""
    if isinstance(hint, type):
        return issubclass(hint, Context)
    return any(map(_is_context, typing.get_args(hint)))


def _field(parameter: inspect.Parameter, hint: Any) -> Any:
    if parameter.default is inspect.Parameter.empty:
        return (parameter.name, hint)
    default = parameter.default
    if isinstance(default, list | dict | set):
        return (parameter.name, hint, msgspec.field(default_factory=lambda: type(default)(default)))
    return (parameter.name, hint, default)
