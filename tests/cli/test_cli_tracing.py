"""One trace across three processes, as a collector gets it: from the enqueue to the chain's end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.cli.program import Program, wait_until

APP = """
import sys
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from windlass import App, Context, Retry
from windlass.tracing import trace_jobs

provider = TracerProvider(resource=Resource({"process.pid": __import__("os").getpid()}))
provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)
app = App()
trace_jobs(app)


@app.task(retry=Retry.fixed(3600))
async def order(ctx: Context, number: int):
    if ctx.job.attempts == 1:
        raise RuntimeError("the shop is closed")
    with trace.get_tracer("shop").start_as_current_span("pack"):
        return ctx.continue_with(ship, number=number)


@app.task
def ship(number: int):
    with trace.get_tracer("shop").start_as_current_span("drive"):
        return number


if __name__ == "__main__":
    with trace.get_tracer("web").start_as_current_span("POST /orders"):
        print("started", order.start(number=7).id)
"""


class Collector:
    """What an OTLP collector is to an exporter: it takes spans by HTTP, as protobuf."""

    def __init__(self) -> None:
        self.spans: list[tuple[int, Span]] = []
        """With the process that each is from."""
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.take(ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = False
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"

    def take(self, request: ExportTraceServiceRequest) -> None:
        for resource in request.resource_spans:
            said = {one.key: one.value.int_value for one in resource.resource.attributes}
            for scope in resource.scope_spans:
                self.spans += [(said["process.pid"], span) for span in scope.spans]

    def named(self, name: str) -> list[tuple[int, Span]]:
        return [(pid, span) for pid, span in self.spans if span.name == name]

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def collector() -> Iterator[Collector]:
    started = Collector()
    yield started
    started.close()


@pytest.mark.slow
def test_a_trace_joins_three_processes(program: Program, collector: Collector) -> None:
    program.write("shop.py", APP)
    exporting = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint}
    producer = program.start_python("shop.py", **exporting)
    assert producer.wait() == 0, producer.output
    first = program.start("run", "shop:app", **exporting)
    wait_until("the first attempt to fail", lambda: collector.named("run order"))
    wait_until("its retry", lambda: [job for job in program.jobs() if job.state == "scheduled"])
    first.send(signal.SIGTERM)
    assert first.wait() == 0
    [job] = program.jobs()
    program.app.sync.reschedule_jobs([job.id], run_at=job.created_at)
    second = program.start("run", "shop:app", "--once", **exporting)
    assert second.wait() == 0, second.output

    spans = {span.name: (pid, span) for pid, span in collector.spans}
    (pid_failed, failed), (pid_done, done) = collector.named("run order")
    assert len({span.trace_id for _, span in collector.spans}) == 1, "one trace"
    parents = [
        ("POST /orders", producer.pid, b""),
        ("enqueue order", producer.pid, spans["POST /orders"][1].span_id),
        ("pack", pid_done, done.span_id),
        ("enqueue ship", pid_done, spans["pack"][1].span_id),
        ("run ship", pid_done, spans["enqueue ship"][1].span_id),
        ("drive", pid_done, spans["run ship"][1].span_id),
    ]
    for name, pid, parent in parents:
        assert (spans[name][0], spans[name][1].parent_span_id) == (pid, parent), name
    enqueued = spans["enqueue order"][1].span_id
    assert (pid_failed, failed.parent_span_id) == (first.pid, enqueued)
    assert (pid_done, done.parent_span_id) == (second.pid, enqueued)
    assert len({producer.pid, first.pid, second.pid}) == 3
    assert failed.status.message == "RuntimeError: the shop is closed"
    assert len(collector.spans) == 8
