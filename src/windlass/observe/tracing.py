"""Spans of OpenTelemetry for jobs that are added and run. It needs the extra `otel`.

A producer span is current while jobs are added, one for all jobs of a call; its context goes along
with each in `meta`, under the names of W3C Trace Context. Each delivery has a consumer span below
it, which is current while the handler runs: on the event loop, in its thread, and as a remote
parent in a process of its own. So attempts of one job are children of one producer span, and what a
handler adds or goes on with belongs to its own span: a chain is one trace.

Names and attributes are those of the semantic conventions for messaging; ours begin with
`windlass.`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec.structs import replace
from opentelemetry import context as contexts
from opentelemetry.trace import SpanKind, Status, StatusCode, TracerProvider, get_tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from windlass.errors import PayloadError, RetryAfter, RetryAt
from windlass.model import payload as payloads
from windlass.model.job import JobSpec
from windlass.model.outcome import Failed, Nack
from windlass.store.records import Lease
from windlass.version import __version__

_SYSTEM = "windlass"
_W3C = TraceContextTextMapPropagator()
_TIMEOUT = "timeout"
"""Of the reasons for which a delivery is stopped, the one that is a failure."""

Store = Callable[[Sequence[JobSpec]], Awaitable[Sequence[Any]]]


class Tracer:
    """Makes the spans of one app."""

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self._tracer = get_tracer("windlass", __version__, provider)

    # ── enqueue middleware ──

    async def together(self, specs: Sequence[JobSpec], call_next: Store) -> Sequence[Any]:
        """One span for all jobs of a call."""
        tasks = {spec.task for spec in specs}
        task = tasks.pop() if len(tasks) == 1 else None
        attributes: dict[str, Any] = {
            "messaging.system": _SYSTEM,
            "messaging.operation.name": "enqueue",
            "messaging.operation.type": "send",
        }
        if task is not None:
            attributes["messaging.destination.name"] = task
        if len(specs) > 1:
            attributes["messaging.batch.message_count"] = len(specs)
        name = "enqueue" if task is None else f"enqueue {task}"
        with self._tracer.start_as_current_span(
            name,
            kind=SpanKind.PRODUCER,
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            headers: dict[str, str] = {}
            _W3C.inject(headers)
            try:
                stored = await call_next([_with_headers(spec, headers) for spec in specs])
            except BaseException as error:
                _failed(span, error)
                raise
            first = stored[0] if len(stored) == 1 else None
            if first is not None and span.is_recording():
                span.set_attribute("messaging.message.id", str(first.id))
        return stored

    # ── around each delivery ──

    @contextmanager
    def running(
        self, lease: Lease, worker: str, why_stopped: Callable[[], str | None]
    ) -> Iterator[Any]:
        """The consumer span of a delivery, current inside the block."""
        attributes: dict[str, Any] = {
            "messaging.system": _SYSTEM,
            "messaging.operation.name": "run",
            "messaging.operation.type": "process",
            "messaging.destination.name": lease.task,
            "messaging.message.id": str(lease.job_id),
            "messaging.client.id": worker,
            "windlass.attempt": lease.attempts,
        }
        if lease.chain is not None:
            attributes["messaging.message.conversation_id"] = str(lease.chain)
        if lease.queue is not None:
            attributes["windlass.queue"] = lease.queue
        if lease.tenant:
            attributes["windlass.tenant"] = lease.tenant
        with self._tracer.start_as_current_span(
            f"run {lease.task}",
            context=_W3C.extract(_headers_of(lease.meta), contexts.Context()),
            kind=SpanKind.CONSUMER,
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield span
            except (RetryAfter, RetryAt) as error:  # asked for, and no failure
                span.add_event("retry", {"windlass.reason": str(error)[:1000]})
                raise
            except asyncio.CancelledError as error:
                why = why_stopped()
                if why is None or why == _TIMEOUT:
                    _failed(span, error)
                span.set_attribute("windlass.stopped", why or "by its own task")
                raise
            except BaseException as error:
                _failed(span, error)
                raise

    @staticmethod
    def returned(span: Any, result: Any) -> None:
        """A handler may return that it failed."""
        if isinstance(result, Failed):
            span.set_status(Status(StatusCode.ERROR, str(result.message)[:1000]))
        elif isinstance(result, Nack):
            span.add_event("retry", {"windlass.reason": str(result.reason)[:1000]})


def current_headers() -> dict[str, str]:
    """The context of the current span, to be carried elsewhere."""
    headers: dict[str, str] = {}
    _W3C.inject(headers)
    return headers


def resume(headers: Mapping[str, str]) -> None:
    """In another process: what these headers carry is current from now on, in this context."""
    contexts.attach(_W3C.extract(headers))


def _failed(span: Any, error: BaseException) -> None:
    kind = type(error)
    span.set_attribute("error.type", f"{kind.__module__}.{kind.__qualname__}")
    span.record_exception(error)
    span.set_status(Status(StatusCode.ERROR, f"{kind.__name__}: {error}"[:1000]))


def _with_headers(spec: JobSpec, headers: Mapping[str, str]) -> JobSpec:
    """A job is never refused because its headers leave no room for the trace's."""
    if not headers:
        return spec
    if not spec.meta:
        return replace(spec, meta=headers)
    meta = {**spec.meta, **headers}
    try:
        payloads.encode_meta(meta)
    except PayloadError:
        return spec
    return replace(spec, meta=meta)


def _headers_of(meta: str | None) -> dict[str, str]:
    if meta is None or '"traceparent"' not in meta:
        return {}
    found = payloads.shown(meta)
    if not isinstance(found, dict):
        return {}
    return {name: value for name, value in found.items() if isinstance(value, str)}
