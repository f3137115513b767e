"""Virtual time: an event loop that jumps to the next timer instead of sleeping.

    async def body(clock: VirtualClock) -> None:
        app = App("memory://", clock=clock)
        ...
        await asyncio.sleep(3600)           # returns at once, an hour later
        assert clock.elapsed == 3600

    run_virtual(body)

While a thread of an executor (`run_in_executor`, `asyncio.to_thread`) is at work, time stands still
and the loop waits for it in real time. A thread that itself waits for something the loop will do
says so with `with clock.waiting():`, and time goes on meanwhile. Only executors are known to the
loop: a store with a thread of its own (SQLite) needs real time.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import selectors
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar, TypeVarTuple, cast

from windlass.clock import SYSTEM
from windlass.testing.clock import START

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_BEGIN = 1_000.0
"""What `loop.time()` says at the start; not 0, which is too easily taken for "unset"."""
_LAST_CHANCE = 1.0
"""Real seconds without any timer, thread or connection before it is called a deadlock."""
_CLEANUP = 3_600.0
"""Virtual seconds that cancelled tasks have to end in."""


class DeadlockError(AssertionError):
    """Raised when everything waits and no timer, thread or connection could end the waiting."""


class VirtualTimeoutError(AssertionError):
    """Raised when the body has not ended after `timeout` virtual seconds."""


class _Selector(selectors.DefaultSelector):
    """Asks the loop what to do where the real one would sleep."""

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return super().select(0)
        if self.loop.is_busy:
            return self.loop.wait_for_real(super().select)
        # A thread that waits for the loop gets a moment to say that it goes on.
        events = super().select(0.001 if self.loop.has_waiting_threads else 0)
        if events or self.loop.is_busy:
            return events
        if timeout is not None:
            self.loop.jump_to_next_timer()
            return []
        # An event that the loop does not count, such as a process that ends, may still arrive.
        events = super().select(_LAST_CHANCE)
        if not events:
            self.loop.give_up("nothing is ready, and nothing ever will be")
        return events


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop on virtual time. `limit` is in virtual seconds, `patience` in real ones."""

    def __init__(self, limit: float = 86_400.0, patience: float = 60.0) -> None:
        self._now = _BEGIN
        self._until = _BEGIN + limit
        self._patience = patience
        self._threads = 0
        self._waiting = 0
        self._lock = threading.Lock()
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)
        self._clock_resolution = 1e-9

    def time(self) -> float:
        return self._now

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        # Waiting at all takes a microsecond at least: a pause that is only the rounding error of
        # two floats would otherwise fire without any time passing, again and again.
        if when > self._now:
            when = max(when, self._now + 1e-6)
        return super().call_at(when, callback, *args, context=context)

    # ── what the selector asks ──

    @property
    def is_busy(self) -> bool:
        with self._lock:
            return self._threads > 0

    @property
    def has_waiting_threads(self) -> bool:
        return self._waiting > 0

    def wait_for_real(self, select: Callable[[float], T]) -> T:
        """Wait for a thread, in real time."""
        begin = SYSTEM.monotonic()
        while True:
            events = select(0.05)
            if events or not self.is_busy:
                return events
            if SYSTEM.monotonic() - begin > self._patience:
                self.give_up(f"a thread has been at work for {self._patience:g} real seconds")

    def jump_to_next_timer(self) -> None:
        next_timer = self._scheduled[0].when()  # type: ignore[attr-defined]
        if next_timer > self._until:
            limit = self._until - _BEGIN
            self._until += _CLEANUP
            raise VirtualTimeoutError(
                f"not done after {limit:g} virtual seconds\n{self._describe_tasks()}"
            )
        self._now = max(self._now, next_timer)

    def give_up(self, why: str) -> None:
        raise DeadlockError(f"{why}\n{self._describe_tasks()}")

    def _describe_tasks(self) -> str:
        lines = []
        for task in sorted(asyncio.all_tasks(self), key=lambda task: task.get_name()):
            stack = task.get_stack(limit=1)
            where = f"{stack[-1].f_code.co_filename}:{stack[-1].f_lineno}" if stack else "?"
            lines.append(f"  {task.get_name()} waits at {where}")
        return "\n".join(["these tasks wait:", *lines])

    # ── threads ──

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        if executor is None:
            executor = self._default_executor = getattr(
                self, "_default_executor", None
            ) or ThreadPoolExecutor(thread_name_prefix="virtual")
        self._add(+1)
        work = executor.submit(func, *args)
        future = asyncio.wrap_future(work, loop=self)
        # Added after wrap_future's own callback, so the result arrives before the loop is told
        # that the thread is done.
        work.add_done_callback(self._thread_done)
        return future

    def _thread_done(self, work: Future[Any]) -> None:
        try:
            self.call_soon_threadsafe(self._add, -1)
        except RuntimeError:
            pass  # the loop was closed; its count is not used any more

    def _add(self, count: int, waiting: int = 0) -> None:
        with self._lock:
            self._threads += count
            self._waiting += waiting

    @contextmanager
    def waiting(self) -> Iterator[None]:
        self._add(-1, waiting=+1)
        self.call_soon_threadsafe(lambda: None)
        try:
            yield
        finally:
            self._add(+1, waiting=-1)

    async def join_threads(self) -> None:
        self._add(+1)
        try:
            await self.shutdown_default_executor()
        finally:
            self._add(-1)


class VirtualClock:
    """The clock of a virtual loop; give it to `App(clock=…)` or to a store.

    An app that gets it keeps its leases on the loop instead of in a thread, so its leases live in
    virtual time too.
    """

    is_virtual = True

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._offset = 0

    @property
    def elapsed(self) -> float:
        """Virtual seconds since the start, exact to the microsecond."""
        return round(self._loop.time() - _BEGIN, 6)

    def now(self) -> int:
        """The wall clock, in microseconds since 1970 (UTC); it starts at 2026-01-01."""
        return START + round((self._loop.time() - _BEGIN) * 1e6) + self._offset

    def monotonic(self) -> float:
        """Seconds that never go back: the loop's time."""
        return self._loop.time()

    def jump(self, seconds: float) -> None:
        """Set only the wall clock forward or (negative) back, as a time server may."""
        self._offset += round(seconds * 1e6)

    def waiting(self) -> Any:
        """`with clock.waiting():` in an executor's thread lets time go on while it blocks."""
        return self._loop.waiting()


Body = Callable[[], Coroutine[Any, Any, T]] | Callable[[VirtualClock], Coroutine[Any, Any, T]]


def run_virtual(body: Body[T], *, timeout: float = 86_400.0, patience: float = 60.0) -> T:
    """Run `body` (a coroutine function of the clock, or of nothing) on virtual time.

    `timeout` is in virtual seconds: VirtualTimeoutError when the body is not done by then.
    DeadlockError when everything waits for ever, or a thread works for `patience` real seconds.
    What the body left running is cancelled.
    """
    loop = VirtualLoop(timeout, patience)
    clock = VirtualClock(loop)
    takes_clock = bool(inspect.signature(body).parameters)
    main: Callable[[], Coroutine[Any, Any, T]]
    main = cast(Any, functools.partial(cast(Any, body), clock) if takes_clock else body)
    try:
        asyncio.set_event_loop(loop)
        return loop.run_until_complete(loop.create_task(main(), name="body"))
    finally:
        try:
            _cancel_rest(loop)
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.join_threads())
        finally:
            asyncio.set_event_loop(None)
            loop.close()


def _cancel_rest(loop: VirtualLoop) -> None:
    rest = asyncio.all_tasks(loop)
    for task in rest:
        task.cancel()
    if rest:
        loop.run_until_complete(asyncio.gather(*rest, return_exceptions=True))
