"""A worker that starts before its database: it waits, says so, and knows what is not worth it."""

from __future__ import annotations

import logging
import signal
import socket
from collections.abc import Iterator

import pytest

from tests.cli.program import Program
from windlass import App
from windlass.cli.run import wait_for_database
from windlass.errors import (
    OutcomeUnknownError,
    SchemaTooNewError,
    StoreBusyError,
    StoreError,
    StoreUnavailableError,
)
from windlass.stores.postgres_connections.failures import is_temporary
from windlass.testing import run_virtual


class Away(App):
    """An app whose database fails in given ways before it answers."""

    def __init__(self, *failures: StoreError) -> None:
        super().__init__("memory://")
        self.failures = list(failures)
        self.tries = 0

    async def open(self) -> None:
        self.tries += 1
        if self.failures:
            raise self.failures.pop(0)
        await super().open()


def test_the_database_is_waited_for_with_growing_pauses(caplog: pytest.LogCaptureFixture) -> None:
    gone = StoreUnavailableError("no server", is_temporary=True)
    app = Away(*[gone] * 10, StoreBusyError("busy"), OutcomeUnknownError("lost"))

    async def body() -> None:
        with caplog.at_level(logging.WARNING, "windlass"):
            await wait_for_database(app)
        await app.close()

    run_virtual(body)
    assert app.tries == 13
    told = [record for record in caplog.records if "does not answer yet" in record.message]
    pauses = [record.args[0] for record in told if isinstance(record.args, tuple)]
    assert len(pauses) == 12
    assert 0.4 <= pauses[0] <= 0.5  # type: ignore[operator]
    assert all(24 <= pause <= 30 for pause in pauses[6:])  # type: ignore[operator]


@pytest.mark.parametrize(
    "error",
    [
        StoreUnavailableError("no such database"),
        StoreError("refused"),
        SchemaTooNewError("newer"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_waiting_cannot_mend_is_raised_at_once(error: StoreError) -> None:
    app = Away(error)

    async def body() -> None:
        with pytest.raises(type(error)):
            await wait_for_database(app)
        await app.close()

    run_virtual(body)
    assert app.tries == 1


@pytest.fixture
def refusing() -> Iterator[int]:
    """A port of this machine at which nobody answers, and which nobody else gets."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@pytest.mark.parametrize("processes", ["1", "2"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_that_waits_can_be_stopped(
    program: Program, refusing: int, number: signal.Signals, processes: str
) -> None:
    worker = program.start(
        *("run", "work:app", "--processes", processes, "-c", f"postgresql://127.0.0.1:{refusing}/x")
    )
    worker.wait_for_line("the database does not answer yet", times=2)
    worker.send(number)
    assert worker.wait() == 0


def test_once_does_not_wait(program: Program, refusing: int) -> None:
    result = program.run("run", "work:app", "--once", "-c", f"postgresql://127.0.0.1:{refusing}/x")
    assert result.returncode == 1
    assert result.stderr.startswith("windlass: cannot connect to x on 127.0.0.1")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("connection refused\n\tIs the server running on that host?", True),
        ("connection to server at ::1 failed: FATAL:  the database system is starting up", True),
        ("FATAL:  sorry, too many clients already", True),
        ('connection to server on socket "/x" failed: No such file or directory', True),
        ('could not translate host name "db" to address: Name or service not known', True),
        ("connection timeout expired", True),
        ("session is read-only", True),
        ('failed: FATAL:  password authentication failed for user "x"', False),
        ('failed: FATAL:  database "x" does not exist', False),
        ('failed: FATAL:  role "x" does not exist', False),
        ("fe_sendauth: no password supplied", False),
        ("server does not support SSL, but SSL was required", False),
        ('at "a" failed: Connection refused at "b" failed: FATAL:  password …', True),
    ],
)
def test_which_failures_pass(text: str, expected: bool) -> None:
    assert is_temporary(text) is expected
