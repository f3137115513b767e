"""The other side of `processes`: a process that runs one job after another until told to end."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import logging
import os
import signal
import threading
from collections.abc import Callable, Sequence
from contextvars import copy_context
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from typing import Any

import msgspec

from windlass.engine import forking, wire
from windlass.engine.signals import stop_signals
from windlass.errors import RetryAfter, RetryAt, WindlassError
from windlass.model import payload as payloads
from windlass.model.job import Job, JobSpec
from windlass.model.outcome import Abandon, Completed, Failed, Nack, clip, describe, message_of
from windlass.observe import logs
from windlass.store.records import Note
from windlass.tasks.abort import Abort
from windlass.tasks.context import SyncContext
from windlass.tasks.continuing import Continuation, not_json, require_own
from windlass.tasks.folder import load_file
from windlass.tasks.options import TaskOptions
from windlass.tasks.task import Task, make_task
from windlass.tasks.tenancy import inherit_tenant

_logger = logging.getLogger("windlass")


def child_main(pipe: Connection, logging_shown: tuple[str, logs.LogFormat] | None = None) -> None:
    """Serve jobs from `pipe`. Signals are the parent's business; it kills us when it must."""
    if logging_shown is not None:
        logs.configure(*logging_shown)
    for number in stop_signals():
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_follow_parent, name="windlass-parent", daemon=True).start()
    tasks: dict[wire.FunctionRef, Task[Any, Any]] = {}
    while True:
        try:
            call = wire.decode_for_child(pipe.recv_bytes())
        except (EOFError, OSError):
            return
        if isinstance(call, wire.RunJob):
            line = Line(pipe)
            life = forking.lives
            answer = copy_context().run(_run, call, tasks, line)
            if forking.lives != life:
                forking.leave(f"job {call.lease.job_id} ({call.lease.task})")
            line.end(answer)


def _follow_parent() -> None:
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


class Line:
    """What one job says to the worker: message by message, and nothing once the job has ended."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._lock = threading.Lock()
        self._ended = False

    def say(self, message: wire.ToWorker) -> None:
        with self._lock:
            if not self._ended:
                self._pipe.send_bytes(wire.encode(message))

    def ask(self, message: wire.ToWorker) -> wire.Answer:
        with self._lock:
            if self._ended:
                raise WindlassError("the job has ended; it can ask for nothing more")
            self._pipe.send_bytes(wire.encode(message))
            answer = wire.decode_for_child(self._pipe.recv_bytes())
        return answer if isinstance(answer, wire.Answer) else wire.Answer(error="no answer came")

    def end(self, message: wire.ToWorker) -> None:
        self.say(message)
        self._ended = True


def _run(
    call: wire.RunJob, tasks: dict[wire.FunctionRef, Task[Any, Any]], line: Line
) -> wire.ToWorker:
    if call.lease.tenant:
        inherit_tenant(None, call.lease.tenant)
    if call.headers is not None:
        from windlass.observe.tracing import resume

        resume(call.headers)
    try:
        task = tasks.get(call.function)
        if task is None:
            function = _find(call.function)
            task = tasks[call.function] = make_task(
                call.lease.task, function, TaskOptions(), typed=call.function.typed
            )
        context = ChildContext(call, line)
        args, kwargs = task.style.bind(call.lease.payload, context)
        value = task.function(*args, **kwargs)
        if inspect.isawaitable(value):
            value = asyncio.run(_await(value))
        if isinstance(value, list) and call.lease.payload.startswith("["):
            return wire.Items([_item(item, context) for item in value])
        return _returned(value, context)
    except BaseException as error:
        return _raised(error)


async def _await(value: Any) -> Any:
    return await value


def _find(ref: wire.FunctionRef) -> Callable[..., Any]:
    if ref.file is not None:
        return load_file(ref.file)
    found: Any = importlib.import_module(ref.module)
    for part in ref.qualname.split("."):
        found = getattr(found, part)
    return found.function if isinstance(found, Task) else found


def _returned(value: Any, context: ChildContext) -> wire.Returned:
    match value:
        case Completed(value=InParent() as going_on):
            return wire.Returned("Continuation", context.place_of(going_on))
        case Completed():
            return _with_output("Completed", value.value, context)
        case Failed():
            return wire.Returned("Failed", value.message)
        case Nack():
            return wire.Returned("Nack", [value.seconds, value.reason])
        case Abandon():
            return wire.Returned("Abandon", None)
        case InParent():
            return wire.Returned("Continuation", context.place_of(value))
        case _:
            return _with_output("", value, context)


def _with_output(kind: str, value: Any, context: ChildContext) -> wire.Returned:
    """An output that cannot be sent costs the output; or in a chain the attempt, because others may
    wait for it."""
    try:
        text = payloads.encode_value(value, field="output")
    except WindlassError as error:
        if context.job.chain is not None:
            return wire.Returned("Failed", not_json(error))
        context.logger.warning("the job is done, but its output cannot be kept: %s", error)
        return wire.Returned(kind, None)
    return wire.Returned(kind, payloads.decode(text))


def _item(value: Any, context: ChildContext) -> wire.Returned | wire.Raised:
    try:
        if inspect.isawaitable(value):
            value = asyncio.run(_await(value))
    except Exception as error:  # one item's failure is that item's outcome
        return _raised(error)
    return _raised(value) if isinstance(value, BaseException) else _returned(value, context)


def _raised(error: BaseException) -> wire.Raised:
    number = None
    if isinstance(error, RetryAfter):
        number = error.seconds
    elif isinstance(error, RetryAt):
        number = error.instant.timestamp()
    return wire.Raised(
        module=type(error).__module__,
        qualname=type(error).__qualname__,
        message=clip(message_of(error)),
        text=describe(error),
        number=number,
    )


class InParent:
    """A continuation that the worker has checked and remembers by this number, for one delivery."""

    not_json_because = Continuation.not_json_because

    def __init__(self, delivery: object, place: int) -> None:
        self._delivery = delivery
        self._place = place

    def place_in(self, delivery: object) -> int:
        require_own(self._delivery, delivery)
        return self._place


class _Delivery:
    """The child's stand-in for the engine's delivery: it passes everything on."""

    def __init__(self, call: wire.RunJob, line: Line) -> None:
        self.lease = call.lease
        self.abort = Abort()
        self.keep: float | None = None
        self.may_go_on = False
        self.starts: list[Any] | None = None
        self.blockers = call.blockers
        self._line = line

    def note(self, note: Note) -> None:
        self._line.say(wire.Said(progress=note.progress, entry=note.entry))

    def extend(self, seconds: float) -> None:
        self._line.say(wire.Said(extend=seconds))


class _Around:
    def __init__(self, worker_id: str) -> None:
        self.worker_id = worker_id
        self.logger = _logger
        self.state: Any = None


class ChildContext(SyncContext):
    """The Context inside a process: it can say things and add jobs, and it is killed, not told."""

    def __init__(self, call: wire.RunJob, line: Line) -> None:
        super().__init__(_Around(call.worker_id), _Delivery(call, line))  # type: ignore[arg-type]
        self._line = line

    def add_job(self, task: str, payload: Any = None, **options: Any) -> Job:  # type: ignore[override]
        return self.add_jobs([JobSpec(task=task, payload=payload, **options)])[0]

    def add_jobs(self, specs: Sequence[JobSpec]) -> list[Job]:  # type: ignore[override]
        answer = self._line.ask(wire.AddJobs(list(specs)))
        if answer.error is not None:
            raise WindlassError(answer.error)
        return [msgspec.convert(job, Job) for job in answer.jobs or ()]

    def _prepare_next(self, spec: JobSpec) -> Any:
        return InParent(self._delivery, self._go_on(spec, starts=False))

    def place_of(self, continuation: InParent) -> int:
        """Raises ValidationError for one that another delivery made."""
        return continuation.place_in(self._delivery)

    def _prepare_start(self, spec: JobSpec) -> int:
        return self._go_on(spec, starts=True)

    def _go_on(self, spec: JobSpec, *, starts: bool) -> int:
        answer = self._line.ask(wire.GoOn(spec, starts))
        if answer.error is not None:
            raise WindlassError(answer.error)
        return answer.place

    def connection(self) -> Any:
        raise _not_here("connection()")

    def query(self, sql: str, values: Any = ()) -> Any:
        raise _not_here("query()")

    def transaction(self) -> Any:
        raise _not_here("transaction()")


def _not_here(what: str) -> WindlassError:
    return WindlassError(
        f"{what} is not there with executor='process'; open a connection of your own"
    )
