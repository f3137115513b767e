"""A supervised worker's side of its supervisor: one socket, found through the environment.

The worker sends one byte when it works. When the other end closes, the supervisor is gone, and the
worker, which it can no longer stop, drains by itself.
"""

from __future__ import annotations

import os
import signal
import socket
import threading

MARKER = "_WINDLASS_SUPERVISED"
READY = b"!"
AGAIN = 75
"""The exit code of a worker that wants to be started anew; seen by the supervisor alone."""


class Supervised:
    """The worker's end of the socket."""

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=fd)
        os.set_inheritable(fd, False)
        threading.Thread(target=self._watch, name="windlass-supervised", daemon=True).start()

    def say_ready(self) -> None:
        try:
            self._socket.send(READY)
        except OSError:
            pass  # the supervisor is gone, which the other thread notices

    def _watch(self) -> None:
        try:
            self._socket.recv(1)
        except ConnectionError:
            pass  # the supervisor is gone, and had not read yet that this worker works
        except OSError:
            return  # closed at the end of this process
        os.kill(os.getpid(), signal.SIGTERM)


def connect() -> Supervised | None:
    """The socket to the supervisor; None for a worker that was started by hand."""
    marker = os.environ.pop(MARKER, None)
    return None if marker is None else Supervised(int(marker))
