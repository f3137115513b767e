"""Events: named moments in a worker's life, delivered to callbacks as keyword arguments.

The names are fixed and declared here once. A listener that raises is logged; the job and other
listeners are not affected. A coroutine listener is run to its end in the background.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

from windlass.errors import ConfigError

Listener = Callable[..., Any]
L = TypeVar("L", bound=Listener)

EVENTS: dict[str, str] = {
    "pool:create": "pool",
    "pool:listen:connecting": "pool",
    "pool:listen:success": "pool, client",
    "pool:listen:error": "pool, error, client",
    "pool:release": "pool",
    "pool:gracefulShutdown": "pool, message",
    "pool:gracefulShutdown:error": "pool, error",
    "worker:create": "worker, tasks",
    "worker:release": "worker",
    "worker:stop": "worker, error",
    "worker:getJob:start": "worker",
    "worker:getJob:error": "worker, error",
    "worker:getJob:empty": "worker",
    "worker:fatalError": "worker, error, job_error",
    "job:start": "worker, job",
    "job:success": "worker, job",
    "job:error": "worker, job, error",
    "job:failed": "worker, job, error",
    "job:complete": "worker, job, error",
    "chain:start": "worker, chain, job",
    "chain:complete": "worker, chain, job",
    "chain:failed": "worker, chain, job, error",
    "cron:started": "worker, schedules",
    "cron:backfill": "worker, schedule, done, total",
    "cron:scheduled": "worker, schedule, instants, backfilled",
    "cron:error": "worker, schedule, error",
    "gracefulShutdown": "signal",
    "stop": "",
}
"""Each event and the keyword arguments its listeners get."""

_logger = logging.getLogger("windlass")


class Events:
    """An emitter. Pass your own to `App(events=…)` to hear what happens before `run` returns."""

    def __init__(self) -> None:
        self._listeners: dict[str, list[Listener]] = {}
        self._tasks: set[asyncio.Future[Any]] = set()

    @overload
    def on(self, name: str, listener: Listener) -> Listener: ...

    @overload
    def on(self, name: str) -> Callable[[L], L]: ...

    def on(self, name: str, listener: Any = None) -> Any:
        """Call `listener(**details)` at each event of that name; returns the listener.

        Without a listener it is a decorator: `@events.on("job:start")`.
        """
        if name not in EVENTS:
            raise ConfigError(f"no event is called {name!r}; there are: {', '.join(EVENTS)}")
        if listener is None:
            return functools.partial(self.on, name)
        self._listeners.setdefault(name, []).append(listener)
        return listener

    def off(self, name: str, listener: Listener) -> None:
        """Stop calling `listener`; nothing happens if it was not there."""
        listeners = self._listeners.get(name, [])
        if listener in listeners:
            listeners.remove(listener)

    def wants(self, name: str) -> bool:
        """Whether there is a listener, so that callers need not build details without one."""
        return bool(self._listeners.get(name))

    def listeners(self, name: str) -> Sequence[Listener]:
        """The listeners, now and later: for the hot path, where `wants` costs too much."""
        return self._listeners.setdefault(name, [])

    def emit(self, name: str, **details: Any) -> None:
        for listener in tuple(self._listeners.get(name, ())):
            try:
                answer = listener(**details)
                if inspect.isawaitable(answer):
                    future = asyncio.ensure_future(answer)
                    self._tasks.add(future)
                    future.add_done_callback(lambda done: self._done(name, done))
            except KeyboardInterrupt:
                raise
            except BaseException:  # the listener's own failure: no slot and no loop ends by it
                _logger.exception("a listener of %s raised", name)

    def _done(self, name: str, future: asyncio.Future[Any]) -> None:
        self._tasks.discard(future)
        if not future.cancelled() and future.exception() is not None:
            _logger.error("a listener of %s raised", name, exc_info=future.exception())
