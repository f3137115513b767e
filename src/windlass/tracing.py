"""Traces of jobs by OpenTelemetry; `docs/monitoring.md` says what they show.

It needs the extra `otel`, and an SDK that your program sets up.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from opentelemetry.trace import TracerProvider

from windlass.app import App
from windlass.observe.tracing import Tracer, current_headers
from windlass.tasks import carried
from windlass.tasks.context import Context

__all__ = ["trace_jobs"]


def trace_jobs(app: App, tracer_provider: TracerProvider | None = None) -> None:
    """Make a span where this app's jobs are added, and one for each delivery that it runs.

    Call it once, before the app is used. Without a provider it is the global one, whenever that is
    set. Where no SDK is set up, no span is made and nothing is added to jobs.
    """
    tracer = Tracer(tracer_provider)

    async def run(ctx: Context, call_next: Callable[..., Awaitable[Any]]) -> Any:
        def why_stopped() -> str | None:
            reason = ctx.abort.reason
            return None if reason is None else reason.value

        with tracer.running(ctx._delivery.lease, ctx.worker_id, why_stopped) as span:
            carried.headers.set(current_headers() or None)
            result = await call_next(ctx)
            tracer.returned(span, result)
            return result

    app.middleware.insert(0, run)
    app.enqueue_middleware.append(tracer)
