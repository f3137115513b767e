"""Runs handlers in processes of their own, for CPU work and for what must be killable.

Processes are spawned, never forked, and reused; one that was killed is replaced when next needed.
Each job occupies a process and a thread that waits for it.
"""

from __future__ import annotations

import asyncio
import functools
import multiprocessing
import queue
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from typing import Any

from windlass.engine import wire
from windlass.engine.child import child_main
from windlass.engine.delivery import Delivery
from windlass.errors import Poison, RetryAfter, RetryAt, WindlassError
from windlass.model.outcome import Abandon, Completed, Failed, Nack
from windlass.observe.logs import shown_logging
from windlass.store.records import Note
from windlass.tasks import carried
from windlass.tasks.context import Context
from windlass.tasks.continuing import Continuation
from windlass.tasks.registry import AnyTask
from windlass.tasks.signature import TypedStyle

_spawn = multiprocessing.get_context("spawn")


class ProcessDied(Exception):
    """The process that ran the job ended before it answered."""


class InProcess(Exception):
    """The cause of an exception that came from another process: its traceback there, as text."""

    def __init__(self, trace: str) -> None:
        super().__init__(f"\n{trace}")


class _Child:
    """One process and the pipe to it."""

    def __init__(self) -> None:
        self.pipe: Connection
        self.pipe, theirs = _spawn.Pipe()
        self.process = _spawn.Process(
            target=child_main, args=(theirs, shown_logging()), daemon=True
        )
        self.process.start()
        theirs.close()
        self._lock = threading.Lock()
        self._serves: Delivery | None = None
        self._killed = False
        self._ending = threading.Lock()
        self._has_ended = False
        self.exit_code: int | None = None
        """Known once the child is discarded; None where it would not end."""

    @property
    def is_alive(self) -> bool:
        with self._lock:
            return not self._killed and self.process.is_alive()

    def serve(self, delivery: Delivery | None) -> None:
        with self._lock:
            self._serves = delivery

    def kill_for(self, delivery: Delivery) -> None:
        """End the process, unless it already works for another delivery."""
        with self._lock:
            if self._serves is delivery and not self._killed:
                self._killed = True
                self.process.kill()

    def discard(self) -> None:
        """End the process and give its descriptors back; later calls wait for the first."""
        with self._ending:
            if self._has_ended:
                return
            self._has_ended = True
            with self._lock:
                self._killed = True
            self.process.kill()
            self.process.join(5)
            self.exit_code = self.process.exitcode
            self.pipe.close()
            if self.exit_code is not None:
                self.process.close()


class ProcessPool:
    """At most `size` processes, started as they are needed."""

    def __init__(self, size: int) -> None:
        # Threads of their own: a few long jobs would starve other users of the loop's default pool.
        self._threads = ThreadPoolExecutor(size, thread_name_prefix="windlass-process")
        self._idle: queue.SimpleQueue[_Child] = queue.SimpleQueue()
        self._all: set[_Child] = set()
        self._lock = threading.Lock()
        self._closed = False

    async def run(self, task: AnyTask, context: Context, delivery: Delivery) -> Any:
        """Run the task's function on the delivery's payload and return or raise what it did."""
        blockers = None if delivery.blockers is None else list(delivery.blockers)
        call = wire.RunJob(
            _reference(task), delivery.lease, context.worker_id, blockers, carried.headers.get()
        )
        continuations: list[Continuation] = []
        inside = functools.partial(
            copy_context().run, self._run, call, context, delivery, continuations
        )
        work = asyncio.get_running_loop().run_in_executor(self._threads, inside)
        # A stop kills the process, which ends the wait below; the thread is never abandoned.
        try:
            answer = await asyncio.shield(work)
        except asyncio.CancelledError:
            await asyncio.wait({work})
            work.exception()  # seen: the process died because it was told to
            raise
        if isinstance(answer, wire.Returned) and answer.kind == "Continuation":
            return continuations[answer.value]
        return _result(answer)

    def _run(
        self,
        call: wire.RunJob,
        context: Context,
        delivery: Delivery,
        continuations: list[Continuation],
    ) -> wire.ToWorker:
        child = self._take()
        child.serve(delivery)
        delivery.on_stop = functools.partial(child.kill_for, delivery)
        if delivery.stopped is not None:
            child.kill_for(delivery)
        try:
            child.pipe.send_bytes(wire.encode(call))
            while True:
                message: wire.ToWorker = wire.decode_for_worker(child.pipe.recv_bytes())
                match message:
                    case wire.Said():
                        _pass_on(message, delivery)
                    case wire.AddJobs():
                        child.pipe.send_bytes(wire.encode(_add_jobs(message, context, delivery)))
                    case wire.GoOn():
                        child.pipe.send_bytes(wire.encode(_go_on(message, context, continuations)))
                    case _:
                        break
        except (EOFError, OSError) as error:
            self._drop(child)
            raise ProcessDied(_obituary(child)) from error
        except BaseException:
            self._drop(child)  # it waits for an answer that will not come
            raise
        finally:
            delivery.on_stop = None
            child.serve(None)
        self._give_back(child)
        return message

    def _take(self) -> _Child:
        while True:
            try:
                child = self._idle.get_nowait()
            except queue.Empty:
                break
            if child.is_alive:
                return child
            self._drop(child)
        child = _Child()
        with self._lock:
            self._all.add(child)
        return child

    def _give_back(self, child: _Child) -> None:
        if self._closed or not child.is_alive:
            self._drop(child)
        else:
            self._idle.put(child)

    def _drop(self, child: _Child) -> None:
        with self._lock:
            self._all.discard(child)
        child.discard()

    def close(self) -> None:
        """Kill every process."""
        self._closed = True
        for child in list(self._all):
            self._drop(child)
        self._threads.shutdown(wait=False, cancel_futures=True)


def _reference(task: AnyTask) -> wire.FunctionRef:
    function = task.function
    return wire.FunctionRef(
        module=function.__module__,
        qualname=function.__qualname__,
        file=getattr(sys.modules.get(function.__module__), "__windlass_file__", None),
        typed=isinstance(task.style, TypedStyle),
    )


def _pass_on(said: wire.Said, delivery: Delivery) -> None:
    if said.extend is not None:
        delivery.extend(said.extend)
    else:
        delivery.note(Note(progress=said.progress, entry=said.entry))


def _add_jobs(message: wire.AddJobs, context: Context, delivery: Delivery) -> wire.Answer:
    adding = asyncio.run_coroutine_threadsafe(context.add_jobs(message.specs), delivery.loop)
    try:
        return wire.Answer(jobs=list(adding.result()))
    except WindlassError as error:
        return wire.Answer(error=str(error))


def _go_on(message: wire.GoOn, context: Context, continuations: list[Continuation]) -> wire.Answer:
    """Check what the child's handler goes on with; the child gets a number that stands for it."""
    try:
        if message.starts:
            return wire.Answer(place=context._prepare_start(message.spec))
        continuations.append(context._prepare_next(message.spec))
        return wire.Answer(place=len(continuations) - 1)
    except WindlassError as error:
        return wire.Answer(error=str(error))


def _obituary(child: _Child) -> str:
    code = child.exit_code
    how = (
        f"was killed by signal {-code}" if code is not None and code < 0 else f"exited with {code}"
    )
    return f"the process that ran this job {how}"


def _result(answer: wire.ToWorker) -> Any:
    match answer:
        case wire.Returned(kind="Completed"):
            return Completed(answer.value)
        case wire.Returned(kind="Failed"):
            return Failed(answer.value)
        case wire.Returned(kind="Nack"):
            return Nack(*answer.value)
        case wire.Returned(kind="Abandon"):
            return Abandon()
        case wire.Returned():
            return answer.value
        case wire.Items():
            return [_item(item) for item in answer.items]
        case wire.Raised():
            raise _rebuilt(answer)
        case _:
            raise ProcessDied("the process that ran this job answered with nonsense")


def _item(item: wire.Returned | wire.Raised) -> Any:
    return _rebuilt(item) if isinstance(item, wire.Raised) else _result(item)


def _rebuilt(raised: wire.Raised) -> BaseException:
    """The child's exception: of its own class where this process knows it, so that retry policies
    can look at it; its text is the child's."""
    kind = _class_called(raised.module, raised.qualname)
    try:
        error = kind.__new__(kind, raised.message)
        error.args = (raised.message,)
    except Exception:  # a class with demands of its own
        error = RuntimeError(raised.message)
    if isinstance(error, RetryAfter):
        error.seconds = raised.number or 0.0
    elif isinstance(error, RetryAt):
        error.instant = datetime.fromtimestamp(raised.number or 0.0, UTC)
    error.__windlass_text__ = raised.text  # type: ignore[attr-defined]
    _, _, trace = raised.text.partition("\n\n")
    if trace:
        error.__cause__ = InProcess(trace)
    return error


def _class_called(module: str, qualname: str) -> type[BaseException]:
    # The main script has another name in a spawned process.
    found: Any = sys.modules.get("__main__" if module == "__mp_main__" else module)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    if isinstance(found, type) and issubclass(found, Exception):
        return found
    return Poison if qualname == "Poison" else RuntimeError
