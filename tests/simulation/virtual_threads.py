"""Threads in virtual time: one runs at a time, and goes on only when the event loop lets it.

A virtual thread is a greenlet. It runs on the event loop's own thread until it waits (`sleep`,
`wait_for`), and sees no running loop meanwhile, so that code which asks where it runs takes it for
a thread. What is interleaved is therefore decided by virtual time alone.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Executor, Future
from typing import Any, Protocol, TypeVar, TypeVarTuple

from greenlet import GreenletExit, getcurrent, greenlet

from windlass.testing.virtual import VirtualLoop

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


_MOST_TURNS = 200_000
"""Turns of the event loop that no run needs, unless it does something again and again."""


class Process(Protocol):
    """What threads and tasks belong to, and end with."""

    is_dead: bool
    tasks: list[asyncio.Task[Any]]
    threads: list[VirtualThread]


PROCESS: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)
"""The process that this code runs in."""


class SimulationLoop(VirtualLoop):
    """A virtual loop that waits for nothing real, and knows which process each task is of."""

    def __init__(self, limit: float) -> None:
        super().__init__(limit)
        self.greenlet = getcurrent()
        self._turns = 0
        self._selector.select = self._jump  # type: ignore[attr-defined]
        self.all_tasks: list[asyncio.Task[Any]] = []
        self.all_threads: list[VirtualThread] = []
        self.set_task_factory(self._make_task)

    def _jump(self, timeout: float | None = None) -> Sequence[Any]:
        self._turns += 1
        if self._turns > _MOST_TURNS:
            self._turns = 0
            self.give_up(f"the event loop has turned {_MOST_TURNS} times")
        if timeout is None:
            self.give_up("nothing is ready, and nothing ever will be")
        elif timeout > 0:
            self.jump_to_next_timer()
        return ()

    def _write_to_self(self) -> None:
        """There is no other thread that could have called."""

    def _make_task(
        self, loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any
    ) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coroutine, loop=loop, **options)
        self.all_tasks.append(task)
        variables: contextvars.Context | None = options.get("context")
        process = PROCESS.get() if variables is None else variables.get(PROCESS)
        if process is not None:
            process.tasks.append(task)
        return task

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        assert isinstance(executor, VirtualExecutor), "a real thread would end the determinism"
        return asyncio.wrap_future(executor.submit(func, *args), loop=self)


class VirtualThread:
    """Runs one function; `done` hears its answer."""

    def __init__(self, function: Callable[[], Any], done: Callable[[Any, Any], None]) -> None:
        loop, process = _here()
        self.loop: SimulationLoop = loop
        self.process: Process | None = process
        self._function = function
        self._done = done
        self._is_ended = False
        self._greenlet = greenlet(self._run, loop.greenlet)
        loop.all_threads.append(self)
        if self.process is not None:
            self.process.threads.append(self)
        loop.call_soon(self.resume)

    def _run(self) -> None:
        try:
            answer, error = self._function(), None
        except GreenletExit:
            return
        except BaseException as raised:
            answer, error = None, raised
        if not self._is_dead:
            self._done(answer, error)

    @property
    def _is_dead(self) -> bool:
        return self.process is not None and self.process.is_dead

    def resume(self) -> None:
        if self._is_dead or self._is_ended or self._greenlet.dead:
            return
        _current.append(self)
        asyncio._set_running_loop(None)
        try:
            self._greenlet.switch()
        finally:
            asyncio._set_running_loop(self.loop)
            _current.pop()

    def pause(self) -> None:
        self.loop.greenlet.switch()

    def end(self) -> None:
        """Unwind a thread that was left waiting, so that nothing of it outlives the run."""
        if not self._greenlet.dead and not self._is_ended:
            self._is_ended = True
            _current.append(self)
            try:
                if self._greenlet:  # it has begun
                    self._greenlet.throw(GreenletExit)
                self._done(None, RuntimeError("the run is over"))
            finally:
                _current.pop()


_current: list[VirtualThread] = []


def _here() -> tuple[SimulationLoop, Process | None]:
    """The loop and the process that this code belongs to, in a virtual thread or on the loop."""
    if _current:
        return _current[-1].loop, _current[-1].process
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimulationLoop)
    return loop, PROCESS.get()


def current() -> VirtualThread:
    return _current[-1]


def sleep(seconds: float) -> None:
    """Wait, in a virtual thread."""
    if seconds > 0:
        thread = current()
        thread.loop.call_later(seconds, thread.resume)
        thread.pause()


def wait_for(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run it on the event loop and wait for its answer, in a virtual thread."""
    thread = current()
    task: list[asyncio.Task[T]] = []

    def start() -> None:
        task.append(thread.loop.create_task(coroutine))
        task[0].add_done_callback(end)

    def end(done: asyncio.Task[T]) -> None:
        if not done.cancelled():
            done.exception()  # heard, though the thread may not go on at once
        thread.resume()

    thread.loop.call_soon(start)
    thread.pause()
    return task[0].result()


class VirtualExecutor(Executor):
    """Stands in for ThreadPoolExecutor."""

    _threads: Sequence[Any] = ()

    def __init__(self, max_workers: int, thread_name_prefix: str = "") -> None:
        self._free = max_workers
        self._waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future: Future[T] = Future()
        self._waiting.append((future, lambda: fn(*args, **kwargs)))
        self._start()
        return future

    def _start(self) -> None:
        while self._free and self._waiting:
            future, call = self._waiting.popleft()
            if not future.set_running_or_notify_cancel():
                continue
            self._free -= 1
            VirtualThread(call, self._ender(future))

    def _ender(self, future: Future[Any]) -> Callable[[Any, Any], None]:
        def end(answer: Any, error: BaseException | None) -> None:
            self._free += 1
            if error is None:
                future.set_result(answer)
            else:
                future.set_exception(error)
            self._start()

        return end

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if cancel_futures:
            for future, _ in self._waiting:
                future.cancel()
