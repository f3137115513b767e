"""Enqueue middleware: what a program does around the adding of each job.

`async def m(spec, call_next)` is called for every job that is added in Python: it may change the
spec (headers go into `meta`), and `await call_next(spec)` answers with the job, or the chain, once
it is stored. The first middleware is outermost.

Jobs that are added by one call are stored by one call, whatever their middleware does: each spec
goes on its own way up to `call_next`, in a copy of the context variables; when all have arrived the
next layer is given all of them, and afterwards each goes its way back. If one fails, nothing is
stored, and the others fail with its error. An object with a method
`together(specs, call_next)` is called once for all of them instead.

Where the caller is no coroutine (a connection of the caller's in blocking code, and what a handler
goes on with or starts) the same runs at once. There nothing can be waited for.
"""

from __future__ import annotations

import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from contextvars import copy_context
from typing import Any, Protocol, TypeVar

from windlass.errors import ConfigError
from windlass.model.job import JobSpec
from windlass.model.names import brief

Specs = Sequence[JobSpec]
Store = Callable[[Specs], Awaitable[Sequence[Any]]]
"""Stores what these specs ask for by one call, and answers with what was stored, in their order."""
CallNext = Callable[[JobSpec], Awaitable[Any]]


class Together(Protocol):
    """Middleware that is called once for all jobs of a call."""

    async def together(self, specs: Specs, call_next: Store, /) -> Any: ...


OneByOne = Callable[[JobSpec, CallNext], Awaitable[Any]]
EnqueueMiddleware = OneByOne | Together

R = TypeVar("R")


async def through(layers: Sequence[EnqueueMiddleware], specs: Specs, store: Store) -> Sequence[Any]:
    """Store these jobs through all layers; what was stored."""
    if not layers:
        return await store(specs)
    first, *rest = layers

    async def further(passed: Specs) -> Sequence[Any]:
        return await through(rest, passed, store)

    if not callable(first):
        return await _all_at_once(first, specs, further)
    if len(specs) == 1:
        return await _alone(first, specs[0], further)
    return await _each_its_way(first, specs, further)


def at_once(coroutine: Coroutine[Any, Any, R]) -> R:
    """Run it here and now; ConfigError if it waits for something."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        found: R = done.value
        return found
    except RuntimeError as error:
        if str(error) != _NO_LOOP:
            raise
        raise _cannot_wait() from error
    coroutine.close()
    raise _cannot_wait()


_NO_LOOP = "no running event loop"
"""What asyncio says to whatever would wait where no event loop runs."""


def _cannot_wait() -> ConfigError:
    return ConfigError(
        "an enqueue middleware waits for something, but here nothing can be waited for: what a"
        " handler goes on with or starts, and what blocking code adds on a connection of its own,"
        " is prepared at once. Only change the spec there, or do not wait"
    )


async def _all_at_once(layer: Together, specs: Specs, call_next: Store) -> Sequence[Any]:
    stored: list[Sequence[Any]] = []

    async def further(passed: Specs) -> Sequence[Any]:
        if stored or len(passed) != len(specs):
            raise ConfigError("together() passes all specs on, once, in their order")
        stored.append(await call_next(passed))
        return stored[0]

    await layer.together(specs, further)
    if not stored:
        raise _not_passed_on(layer)
    return stored[0]


async def _alone(middleware: OneByOne, spec: JobSpec, call_next: Store) -> Sequence[Any]:
    stored: list[Sequence[Any]] = []

    async def further(passed: JobSpec) -> Any:
        if stored:
            raise _called_twice(middleware)
        stored.append(await call_next([_checked(passed)]))
        return stored[0][0]

    await middleware(spec, further)
    if not stored:
        raise _not_passed_on(middleware)
    return stored[0]


async def _each_its_way(middleware: OneByOne, specs: Specs, call_next: Store) -> Sequence[Any]:
    ways: list[_Way] = []
    try:
        for spec in specs:
            ways.append(_Way(middleware, spec))
            await ways[-1].go(None)
            if ways[-1].passed is None:
                raise _not_passed_on(middleware)
        stored = await call_next([way.passed for way in ways if way.passed is not None])
        for way, found in zip(ways, stored, strict=True):
            await way.go(found)
            if not way.is_over:
                raise _called_twice(middleware)
    except BaseException as error:
        for way in ways:
            await way.fail(error)
        raise
    return stored


class _Arrived:
    """What a way yields when it has come to `call_next`; it goes on with what was stored."""


_ARRIVED = _Arrived()


@types.coroutine
def _arrive() -> Generator[Any, Any, Any]:
    return (yield _ARRIVED)


class _Way:
    """One spec's way through one middleware."""

    def __init__(self, middleware: OneByOne, spec: JobSpec) -> None:
        self.passed: JobSpec | None = None
        """What it gave to `call_next`."""
        self.is_over = False
        self._variables = copy_context()
        self._coroutine = self._run(middleware, spec)

    async def _run(self, middleware: OneByOne, spec: JobSpec) -> None:
        await middleware(spec, self._call_next)

    async def _call_next(self, spec: JobSpec) -> Any:
        self.passed = _checked(spec)
        return await _arrive()

    async def go(self, value: Any) -> None:
        """On to `call_next`, or with what was stored to the end."""
        await self._steps(self._coroutine.send, value)

    async def fail(self, error: BaseException) -> None:
        """Another has failed, so nothing was stored; what this one raises then is not told."""
        if self.is_over:
            return
        try:
            await self._steps(self._coroutine.throw, error)
        except BaseException:
            self.is_over = True
        self._coroutine.close()

    @types.coroutine
    def _steps(self, step: Callable[..., Any], value: Any) -> Generator[Any, Any, None]:
        """What it waits for on its way is waited for; the answer comes at its next arrival."""
        while True:
            try:
                wanted = self._variables.run(step, value)
            except StopIteration:
                self.is_over = True
                return
            except BaseException:
                self.is_over = True
                raise
            if wanted is _ARRIVED:
                return
            try:
                value = yield wanted
                step = self._coroutine.send
            except BaseException as error:
                step, value = self._coroutine.throw, error


def _checked(spec: object) -> JobSpec:
    if not isinstance(spec, JobSpec):
        raise ConfigError(f"call_next takes a JobSpec, not {brief(spec)}")
    return spec


def _called_twice(middleware: Any) -> ConfigError:
    return ConfigError(f"{_name_of(middleware)} called call_next twice; call it once")


def _not_passed_on(middleware: Any) -> ConfigError:
    return ConfigError(
        f"{_name_of(middleware)} did not call call_next, so its job would be lost; call it once,"
        " or raise what the caller shall be told"
    )


def _name_of(middleware: Any) -> str:
    name = getattr(middleware, "__qualname__", None) or type(middleware).__qualname__
    return f"the enqueue middleware {name}"
