"""The end of a task is posted to its webhook, signed as Standard Webhooks say."""

from __future__ import annotations

import json
import queue
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from standardwebhooks import Webhook

from tests.patience import PATIENCE
from tests.server.foreign.program import Server, Tenant, serving, windlass

Call = tuple[str, dict[str, str], bytes]


class Listener:
    """An HTTP server that keeps what is posted to it; the first answers are as told."""

    def __init__(self) -> None:
        self.calls: queue.SimpleQueue[Call] = queue.SimpleQueue()
        self.answers: queue.SimpleQueue[int] = queue.SimpleQueue()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): text for name, text in self.headers.items()}
                self.send_response(200 if outer.answers.empty() else outer.answers.get())
                self.send_header("Content-Length", "0")
                self.end_headers()
                outer.calls.put((self.path, headers, body))

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/hook"

    def next(self) -> Call:
        return self.calls.get(timeout=PATIENCE)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def listener() -> Iterator[Listener]:
    made = Listener()
    yield made
    made.close()


@pytest.fixture
def posting(file_url: str, tmp_path: Path) -> Iterator[Server]:
    with serving(file_url, tmp_path, "--webhook-allow", "127.0.0.0/8") as server:
        yield server


def test_ends_are_posted_and_signed(posting: Server, listener: Listener) -> None:
    tenant = posting.tenant("acme")
    producer, worker = tenant.producer(), tenant.worker()
    done = producer.add("mail", b'{"n": 1}', webhook=listener.url)
    task = worker.get("mail")
    assert task.webhook == listener.url
    assert worker.complete(task, b'{"sent": true}').ok
    path, headers, body = listener.next()
    printed = windlass("token", "webhook-secret", "-c", posting.url, "--tenant", "acme")
    secret = re.search(r"whsec_\S+", printed)
    assert secret is not None, printed
    Webhook(secret.group()).verify(body, headers)
    assert path == "/hook"
    assert done in json.dumps(json.loads(body))
    failed = producer.add("mail", webhook=listener.url, max_attempts=1)
    assert worker.fail(worker.get("mail"), "no such address").ok
    _, headers, body = listener.next()
    Webhook(secret.group()).verify(body, headers)
    assert failed in body.decode() and "no such address" in body.decode()


def test_a_delivery_that_fails_is_made_again_under_its_id(
    posting: Server, listener: Listener
) -> None:
    listener.answers.put(503)
    tenant = posting.tenant("acme")
    tenant.producer().add("mail", webhook=listener.url)
    worker = tenant.worker()
    assert worker.complete(worker.get("mail")).ok
    first, second = listener.next(), listener.next()
    assert first[1]["webhook-id"] == second[1]["webhook-id"]


def test_no_worker_gets_the_deliveries(posting: Server, listener: Listener) -> None:
    tenant = posting.tenant("acme")
    worker = tenant.worker()
    for _ in range(5):
        tenant.producer().add("mail", webhook=listener.url)
        assert worker.complete(worker.get()).ok
    worker.ready("windlass.webhook")
    worker.ready()
    for _ in range(5):
        listener.next()
    tenant.producer().add("end")
    assert worker.task().command == "end"


@pytest.mark.parametrize(
    "address",
    [
        *("http://127.0.0.1/", "http://10.1.2.3/", "http://[::1]/", "http://169.254.169.254/"),
        *("http://192.168.1.1:8080/x", "http://0.0.0.0/", "http://[::ffff:127.0.0.1]/"),
        *("http://2130706433/", "http://0x7f.1/", "ftp://example.org/", "file:///etc/passwd"),
        *("example.org", "http://", "http:///x"),
    ],
)
def test_an_address_that_is_refused_fails_alone(tenant: Tenant, address: str) -> None:
    producer = tenant.producer()
    refused, ack = producer.create_all(
        [producer.request("mail", webhook=address), producer.request("mail")]
    )
    assert ack.ok
    assert not refused.ok and refused.error_message
