"""The task handle: still an ordinary function, and the way to enqueue its jobs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, Unpack, overload

from msgspec.structs import replace

from windlass.errors import TaskError
from windlass.model.chain import Chain
from windlass.model.job import Job, JobOptions, JobSpec
from windlass.model.names import check_any_task, check_task
from windlass.tasks.options import Executor, TaskOptions
from windlass.tasks.signature import PayloadStyle, Style, TypedStyle

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Enqueuer(Protocol):
    """The app, as a task sees it."""

    async def astart(self, spec: JobSpec, connection: Any) -> Chain[Any]: ...

    def start(self, spec: JobSpec, connection: Any) -> Chain[Any]: ...

    async def aenqueue(
        self, spec: JobSpec, payloads: Iterable[Any], connection: Any
    ) -> list[Job]: ...

    def enqueue(self, spec: JobSpec, payloads: Iterable[Any], connection: Any) -> list[Job]: ...


class Task(Generic[P, R]):
    """A named function. Calling it runs it here and now; `enqueue` makes a job of the call."""

    def __init__(
        self,
        name: str,
        function: Callable[..., R],
        options: TaskOptions,
        enqueuer: Enqueuer | None,
        style: Style,
        *,
        is_own: bool = False,
    ) -> None:
        """`is_own` says that it is one of Windlass's own, whose names callers cannot take."""
        self.name = check_any_task(name) if is_own else check_task(name)
        self.function = function
        self.options = options
        self.style = style
        self._enqueuer = enqueuer
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", name)
        self.__qualname__ = getattr(function, "__qualname__", name)
        self.__module__ = getattr(function, "__module__", __name__)
        self.__wrapped__ = function

    def __repr__(self) -> str:
        return f"<task {self.name!r}>"

    def __call__(self, *args: Any, **kwargs: Any) -> R:
        return self.function(*args, **kwargs)

    @property
    def executor(self) -> Executor:
        """Where its jobs run: on the event loop, in a thread or in a process of their own."""
        if self.options.executor is not None:
            return self.options.executor
        return "async" if self.is_async else "thread"

    @property
    def is_async(self) -> bool:
        return _is_async(self.function)

    def using(self, *, connection: Any = None, **options: Unpack[JobOptions]) -> BoundTask[P, R]:
        """The same task with these options, JobSpec's fields, for what is enqueued next."""
        return BoundTask(self, JobSpec(task=self.name, **options), connection)

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job:
        """Add one job, blocking until it is stored. In async code use `aenqueue`."""
        return self.using().enqueue(*args, **kwargs)

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job:
        """Add one job."""
        return await self.using().aenqueue(*args, **kwargs)

    def enqueue_many(self, payloads: Iterable[Mapping[str, Any]]) -> list[Job]:
        """Add one job per payload, all or none, blocking until they are stored."""
        return self.using().enqueue_many(payloads)

    async def aenqueue_many(self, payloads: Iterable[Mapping[str, Any]]) -> list[Job]:
        """Add one job per payload, all or none, in one round trip."""
        return await self.using().aenqueue_many(payloads)

    def spec_of(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> JobSpec:
        """One call of the task as a job to add."""
        return JobSpec(self.name, self.payload_of(args, kwargs))

    def payload_of(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The payload of such a call."""
        if isinstance(self.style, TypedStyle):
            return self.style.arguments(args, kwargs)
        return args[0] if args else dict(kwargs)

    @overload
    def start(
        self: Task[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> Chain[T]: ...

    @overload
    def start(self, *args: P.args, **kwargs: P.kwargs) -> Chain[R]: ...

    def start(self, *args: Any, **kwargs: Any) -> Chain[Any]:
        """Start a chain with a job of this task, blocking until it is stored. In async code use
        `astart`. The chain's output is what this task returns, unless it continues with others."""
        return self.using().start(*args, **kwargs)

    @overload
    async def astart(
        self: Task[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> Chain[T]: ...

    @overload
    async def astart(self, *args: P.args, **kwargs: P.kwargs) -> Chain[R]: ...

    async def astart(self, *args: Any, **kwargs: Any) -> Chain[Any]:
        """Start a chain with a job of this task."""
        return await self.using().astart(*args, **kwargs)


class BoundTask(Generic[P, R]):
    """A task together with the options of one enqueue."""

    def __init__(self, task: Task[P, R], spec: JobSpec, connection: Any) -> None:
        self._task = task
        self._spec = spec
        self._connection = connection

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job:
        return self.enqueue_many([self._task.payload_of(args, kwargs)])[0]

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job:
        return (await self.aenqueue_many([self._task.payload_of(args, kwargs)]))[0]

    def enqueue_many(self, payloads: Iterable[Mapping[str, Any]]) -> list[Job]:
        return self._enqueuer.enqueue(self._spec, payloads, self._connection)

    async def aenqueue_many(self, payloads: Iterable[Mapping[str, Any]]) -> list[Job]:
        return await self._enqueuer.aenqueue(self._spec, payloads, self._connection)

    @overload
    def start(
        self: BoundTask[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> Chain[T]: ...

    @overload
    def start(self, *args: P.args, **kwargs: P.kwargs) -> Chain[R]: ...

    def start(self, *args: Any, **kwargs: Any) -> Chain[Any]:
        """Start a chain; `key` is the chain's."""
        return self._enqueuer.start(self.spec_of(args, kwargs), self._connection)

    @overload
    async def astart(
        self: BoundTask[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> Chain[T]: ...

    @overload
    async def astart(self, *args: P.args, **kwargs: P.kwargs) -> Chain[R]: ...

    async def astart(self, *args: Any, **kwargs: Any) -> Chain[Any]:
        return await self._enqueuer.astart(self.spec_of(args, kwargs), self._connection)

    def spec_of(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> JobSpec:
        """One call of the task as a job to add."""
        return replace(self._spec, payload=self._task.payload_of(args, kwargs))

    @property
    def _enqueuer(self) -> Enqueuer:
        if self._task._enqueuer is None:
            raise RuntimeError(f"task {self._task.name!r} belongs to no app, so it has no queue")
        return self._task._enqueuer


def make_task(
    name: str,
    function: Callable[..., R],
    options: TaskOptions,
    enqueuer: Enqueuer | None = None,
    *,
    typed: bool,
    is_own: bool = False,
) -> Task[Any, R]:
    """A task in the typed style (decorated functions) or the payload style (folders, tables);
    `is_own` where it is one of Windlass's own."""
    inner = inspect.unwrap(function)
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise TaskError(f"task {name!r} is a generator; nothing would run it, so use a function")
    if options.executor == "process" and "<locals>" in getattr(inner, "__qualname__", ""):
        raise TaskError(
            f"task {name!r} is defined inside a function, where a process cannot find it;"
            " move it to the top of its module"
        )
    style: Style = TypedStyle(name, function) if typed else PayloadStyle(name, function)
    return Task(name, function, options, enqueuer, style, is_own=is_own)


def _is_async(function: Callable[..., Any]) -> bool:
    function = inspect.unwrap(function)
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - an object whose call is a coroutine
    )
