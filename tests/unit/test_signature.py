"""How a payload becomes a call."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Optional, TypedDict

import msgspec
import pytest

from windlass import Context
from windlass.errors import PayloadError, TaskError
from windlass.tasks.signature import PayloadStyle, TypedStyle

if TYPE_CHECKING:
    from somewhere import Unknown  # type: ignore[import-not-found]

CTX = object.__new__(Context)


def bind(function: Any, payload: str) -> Any:
    args, kwargs = TypedStyle("t", function).bind(payload, CTX)
    return function(*args, **kwargs)


@dataclasses.dataclass
class Point:
    x: int
    y: int = 2


class Model:
    def __init__(self, number: int) -> None:
        self.number = number

    @classmethod
    def model_validate(cls, value: Any) -> Model:
        return cls(int(value["number"]))


def test_keys_are_arguments_and_types_are_checked() -> None:
    def f(a: int, b: str = "b", *, when: datetime | None = None) -> Any:
        return a, b, when

    assert bind(f, '{"a": 1}') == (1, "b", None)
    assert bind(f, '{"a": 1, "b": "x", "when": "2026-01-01T00:00:00Z"}') == (
        1,
        "x",
        datetime(2026, 1, 1, tzinfo=UTC),
    )
    for bad in ("{}", '{"a": "1"}', '{"a": 1, "c": 2}', '{"a": 1.5}', "7", '"x"', "[1]", "null"):
        with pytest.raises(PayloadError, match="payload does not fit task 't'"):
            TypedStyle("t", f).check(bad)


def test_rich_types() -> None:
    def f(point: Point, model: Model, tags: set[str], raw: dict[str, Any]) -> Any:
        return point, model.number, tags, raw

    payload = '{"point": {"x": 1}, "model": {"number": "5"}, "tags": ["a"], "raw": {"k": [1]}}'
    assert bind(f, payload) == (Point(1, 2), 5, {"a"}, {"k": [1]})
    with pytest.raises(PayloadError):
        bind(f, payload.replace('"number"', '"n"'))


def test_a_context_anywhere() -> None:
    def first(ctx: Context, n: int) -> Any:
        return ctx, n

    def last(n: int, *, helpers: Context) -> Any:
        return helpers, n

    def by_position(ctx: Context, n: int, /, m: int) -> Any:
        return ctx, n, m

    assert bind(first, '{"n": 1}') == (CTX, 1)
    assert bind(last, '{"n": 1}') == (CTX, 1)
    assert bind(by_position, '{"n": 1, "m": 2}') == (CTX, 1, 2)


def _or_none(n: int, ctx: Context | None = None) -> Any:
    return n, ctx


def _optional(n: int, ctx: Optional[Context]) -> Any:  # noqa: UP045 - the spelling is the test
    return n, ctx


def _annotated(n: int, ctx: Annotated[Context, "what the job can say"]) -> Any:
    return n, ctx


def _both(n: int, *, ctx: Annotated[Context | None, "either"] = None) -> Any:
    return n, ctx


@pytest.mark.parametrize("function", [_or_none, _optional, _annotated, _both])
def test_a_context_is_filled_in_however_its_annotation_is_spelt(function: Any) -> None:
    args, kwargs = TypedStyle("t", function).bind('{"n": 1}', CTX)
    assert function(*args, **kwargs) == (1, CTX)


def test_a_class_whose_name_ends_in_context_is_an_ordinary_argument() -> None:
    class RequestContext(TypedDict):  # local: its annotation is a name nobody can look up
        user: int

    def function(context: RequestContext) -> Any:
        return context

    args, kwargs = TypedStyle("t", function).bind('{"context": {"user": 1}}', CTX)
    assert function(*args, **kwargs) == {"user": 1}


def test_open_arguments() -> None:
    def f(a: int, **rest: Any) -> Any:
        return a, rest

    assert bind(f, '{"a": 1, "b": 2, "c": null}') == (1, {"b": 2, "c": None})


def test_an_array_goes_whole_to_the_one_argument() -> None:
    def f(items: list[int]) -> Any:
        return items

    def g(ctx: Context, items: list[int]) -> Any:
        return ctx, items

    assert bind(f, "[1, 2]") == [1, 2]
    assert bind(f, '{"items": [1, 2]}') == [1, 2]
    assert bind(g, "[1]") == (CTX, [1])
    with pytest.raises(PayloadError):
        bind(f, '["x"]')


def test_mutable_defaults_are_not_shared() -> None:
    def f(items: list[int] = [1], more: dict[str, int] = {}) -> Any:  # noqa: B006
        items.append(2)
        return items, more

    style = TypedStyle("t", f)
    assert f(**style.bind("{}", CTX)[1]) == ([1, 2], {})
    assert style.bind("{}", CTX)[1] == {"items": [1], "more": {}}


def test_names_only_the_type_checker_knows() -> None:
    def f(ctx: Context, thing: Unknown, n: int) -> Any:
        return ctx, thing, n

    assert bind(f, '{"thing": {"any": 1}, "n": 2}') == (CTX, {"any": 1}, 2)
    with pytest.raises(PayloadError):
        bind(f, '{"thing": 1, "n": "x"}')


def test_no_annotations_at_all() -> None:
    def f(a, b=3):  # type: ignore[no-untyped-def]
        return a, b

    assert bind(f, '{"a": [1]}') == ([1], 3)


def test_the_payload_of_a_call() -> None:
    def f(ctx: Context, a: int, b: int = 0) -> None: ...

    style = TypedStyle("t", f)
    assert style.arguments((1,), {"b": 2}) == {"a": 1, "b": 2}
    assert style.arguments((), {"a": 1}) == {"a": 1}
    with pytest.raises(PayloadError, match="too many positional"):
        style.arguments((1, 2, 3), {})
    with pytest.raises(PayloadError, match="multiple values for argument 'a'"):
        style.arguments((1,), {"a": 2})


def test_functions_that_cannot_be_tasks() -> None:
    def starred(*items: int) -> None: ...

    class NoSchema:
        pass

    def odd(value: msgspec.Struct | Point | dict[str, int]) -> None: ...

    with pytest.raises(TaskError, match="take a list instead"):
        TypedStyle("t", starred)
    with pytest.raises(TaskError, match="cannot be a payload"):
        TypedStyle("t", odd)
    with pytest.raises(TaskError, match="not a function Windlass can call"):
        TypedStyle("t", type)

    def three(a: int, b: int, c: int) -> None: ...

    with pytest.raises(TaskError, match=r"must take \(payload, helpers\), not 3 arguments"):
        PayloadStyle("t", three)


def test_the_payload_style_takes_fewer_arguments() -> None:
    assert PayloadStyle("t", lambda: 0).bind("[1]", CTX) == ((), {})
    assert PayloadStyle("t", lambda payload: 0).bind("[1]", CTX) == (([1],), {})
    assert PayloadStyle("t", lambda payload, helpers: 0).bind("1", CTX) == ((1, CTX), {})
    assert PayloadStyle("t", lambda *args: 0).bind("1", CTX) == ((1, CTX), {})
    assert PayloadStyle("t", lambda payload, h, x=1: 0).bind("1", CTX) == ((1, CTX), {})
    PayloadStyle("t", lambda: 0).check("anything")
