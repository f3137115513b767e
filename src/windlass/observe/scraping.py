"""The port of a worker that Prometheus scrapes.

It has a thread of its own, so that a handler which blocks the event loop hides nothing but what the
database would say.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

PATIENCE = 5.0
"""Seconds that a client has to say what it wants, and to take the answer."""

_logger = logging.getLogger("windlass")


class ScrapePort:
    """Answers `GET /metrics` with what `page` makes of the header Accept: a text and its media
    type. The socket is bound, and may be shared with other processes: one of them answers."""

    def __init__(self, port: socket.socket, page: Callable[[str], tuple[bytes, str]]) -> None:
        self._server = _Server(port, page)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.1,), name="windlass-metrics", daemon=True
        )

    def start(self) -> None:
        self._server.server_activate()
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(HTTPServer):
    def __init__(self, port: socket.socket, page: Callable[[str], tuple[bytes, str]]) -> None:
        super().__init__(("", 0), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = port
        self.socket.setblocking(False)  # another process may be quicker to accept
        self.page = page

    def get_request(self) -> tuple[socket.socket, Any]:
        accepted, address = super().get_request()
        accepted.settimeout(PATIENCE)
        return accepted, address

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away, or stays silent, is no error of ours."""
        _logger.debug("a scrape was not answered", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        if self.path.partition("?")[0] != "/metrics":
            self.send_error(HTTPStatus.NOT_FOUND, "the metrics are at /metrics")
            return
        body, media_type = self.server.page(self.headers.get("Accept", ""))
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def version_string(self) -> str:
        return "windlass"

    def log_message(self, format: str, *args: Any) -> None:
        _logger.debug("scraped: " + format, *args)
