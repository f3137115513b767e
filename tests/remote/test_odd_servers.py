"""What a store makes of a server that is none of Windlass's, is of another version, or goes wrong:
each caller hears what is the matter, and no job is lost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE
from tests.remote.certificates import make_certificate, server_context
from tests.remote.odd_server import Begin, OddConnection, OddServer, ack, listening
from tests.remote.test_link import LEASE, claim, until
from windlass.errors import OutcomeUnknownError, StoreError, StoreUnavailableError
from windlass.store.records import NewJob
from windlass.stores.remote import RemoteStore, ServerAddress
from windlass.stores.remote import channel as remote_channel
from windlass.stores.remote import link as remote_link
from windlass.stores.remote import stream as remote_stream
from windlass.wire.frames import framed
from windlass.wire.windlass_pb2 import (
    Answer,
    Answers,
    Hint,
    WorkerServerError,
    WorkerServerEvent,
)

LARGE_WINDOWS = (
    b"\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x04\x7f\xff\xff\xff"  # SETTINGS of every stream
    b"\x00\x00\x04\x08\x00\x00\x00\x00\x00\x7f\x00\x00\x00"  # WINDOW_UPDATE of the connection
)


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, PATIENCE))


async def refused(server: OddServer, **more: Any) -> StoreError:
    """Why the store could not be opened."""
    async with listening(server, **more):
        with pytest.raises(StoreError) as found:
            await RemoteStore(server.address).open()
        return found.value


@asynccontextmanager
async def opened(server: OddServer) -> AsyncIterator[RemoteStore]:
    async with listening(server):
        store = RemoteStore(server.address)
        await store.open()
        try:
            yield store
        finally:
            await store.close()


async def until_heard(server: OddServer, verb: str, times: int = 1) -> None:
    async def heard() -> bool:
        return server.verbs().count(verb) >= times

    await until(heard)


async def widen(server: OddServer, store: RemoteStore) -> None:
    """Let the store send as much as the network takes."""
    server.connections[0].transport.write(LARGE_WINDOWS)
    server.answers["now"] = [b"1"]
    await store.now()  # its answer comes behind them


async def _is(seen: object, wanted: object) -> bool:
    return seen == wanted


# ── no Windlass server ──


def status(code: int) -> Begin:
    return lambda connection: connection.stream.send_response(code, [])


def end_alone(code: bytes, message: bytes = b"") -> Begin:
    headers = [(b"grpc-status", code), (b"grpc-message", message)]
    return lambda connection: connection.stream.send_response(200, headers, end_stream=True)


def write(data: bytes) -> Begin:
    return lambda connection: connection.transport.write(data)


def say(data: bytes) -> Begin:
    def begin(connection: OddConnection) -> None:
        connection.accept()
        connection.say_bytes(data)

    return begin


@pytest.mark.parametrize(
    ("begin", "says", "is_temporary"),
    [
        (status(404), "HTTP status 404; is it the address of the server's streams", False),
        (status(503), "HTTP status 503", True),
        (end_alone(b"12"), "has no streams for workers; is it a Windlass server", False),
        (end_alone(b"7", b"not%20you"), "does not permit this: not you", False),
        (end_alone(b"8", b"too many"), "ended the stream: too many", True),
        (end_alone(b"9"), r"ended the stream \(status 9\)", True),
        (end_alone(b"seven"), r"ended the stream \(status 2\)", True),
        (lambda connection: connection.stream.reset(8), r"ended the stream \(code 8\)", True),
        (lambda connection: connection.transport.close(), "closed the connection|was lost", True),
        (write(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "does not speak HTTP/2 as it should", True),
        (say(b"\x01\x00\x00\x00\x00"), "sent a message that is packed", True),
        (say(b"\x00\x7f\x00\x00\x00"), "packed, or longer than 16 MiB", True),
        (say(framed([b"\xff\xff"])), "sent what is no message of its protocol", True),
    ],
)
def test_what_is_no_windlass_server_is_named(begin: Begin, says: str, is_temporary: bool) -> None:
    async def main() -> None:
        error = await refused(OddServer(begin))
        assert isinstance(error, StoreUnavailableError)
        assert error.is_temporary is is_temporary
        with pytest.raises(StoreUnavailableError, match=says):
            raise error

    run(main())


def test_a_server_with_tls_and_without_http2_is_named(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path, "server")
    context = server_context(certificate)
    context.set_alpn_protocols(["http/1.1"])
    server = OddServer()

    async def main() -> None:
        async with listening(server, context):
            address = ServerAddress("127.0.0.1", server.port, True, ca=str(certificate))
            with pytest.raises(StoreUnavailableError, match="speaks no HTTP/2") as error:
                await RemoteStore(address).open()
            assert not error.value.is_temporary

    run(main())


def test_a_server_that_greets_nobody_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_channel, "HELLO_LIMIT", 0.1)

    async def main() -> None:
        error = await refused(OddServer(greet=lambda connection: None))
        assert isinstance(error, StoreUnavailableError) and error.is_temporary
        assert "did not answer within 0.1 s" in str(error)

    run(main())


# ── another version ──


def test_a_server_that_takes_no_calls_says_so() -> None:
    def greet(connection: OddConnection) -> None:
        error = WorkerServerError(code="Unimplemented", message="this server takes no calls")
        connection.say(WorkerServerEvent(error=error))

    async def main() -> None:
        assert "this server takes no calls" in str(await refused(OddServer(greet=greet)))

    run(main())


def test_a_server_whose_capabilities_cannot_be_read_is_refused() -> None:
    async def main() -> None:
        error = await refused(OddServer(describe=[b'{"shared": "perhaps"}']))
        assert "answers describe with what cannot be read" in str(error)
        assert "another version?" in str(error)

    run(main())


def test_words_that_are_not_known_are_passed_over() -> None:
    """A newer server says more than this store understands."""
    server = OddServer(now=[b"17"])
    due: list[float | None] = []

    async def main() -> None:
        async with opened(server) as store:
            stop = store.subscribe(lambda: None, due=due.append)
            [connection] = server.connections
            odd = WorkerServerError(code="Odd", message="what is new")
            for event in (
                WorkerServerEvent(),
                WorkerServerEvent(error=odd),
                WorkerServerEvent(hint=Hint(ready=False)),
                WorkerServerEvent(answers=Answers(answers=[Answer(number=1_000, value=b"1")])),
            ):
                connection.say(event)
            ack(connection)
            assert await store.now() == 17
            assert due == []
            stop()

    run(main())


def test_what_cannot_be_read_is_told_by_what_the_call_was() -> None:
    server = OddServer(now=[b'"noon"'], enqueue=[b"[7]"])

    async def main() -> None:
        async with opened(server) as store:
            with pytest.raises(StoreError, match="answers now with what cannot be read") as failed:
                await store.now()
            assert not isinstance(failed.value, StoreUnavailableError)
            with pytest.raises(OutcomeUnknownError, match="enqueue may have happened"):
                await store.enqueue([NewJob("t")])
            line = store.lifeline()
            server.answers["renew"] = [b"[]"]
            with pytest.raises(StoreError, match="answers renew with"):
                await asyncio.to_thread(line.renew, "w", LEASE, [])
            line.close()

    run(main())


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_jobs_of_a_claim_that_cannot_be_read_are_taken_back(is_cancelled: bool) -> None:
    """The worker goes on under another name, and the lease of the old one is ended."""
    server = OddServer(renew=[b"{}"])

    async def main() -> None:
        async with opened(server) as store:
            claiming = asyncio.ensure_future(claim(store))
            await until_heard(server, "claim")
            if is_cancelled:
                claiming.cancel()
                await asyncio.wait([claiming])
            [connection] = server.connections
            connection.answer(server.heard[-1], b"[7]")
            if not is_cancelled:
                with pytest.raises(OutcomeUnknownError, match="claim may have happened"):
                    await claiming
            await until_heard(server, "renew")
            asked = json.loads(server.heard[-1].arguments)
            assert (asked["worker"], asked["lease"]) == ("w", 0.0)
            server.answers["claim"] = [b"[]"]
            assert await claim(store) == []
            asked = json.loads(server.heard[-1].arguments)
            assert asked["request"]["worker"] == "w~1"

    run(main())


# ── the server has its own pace ──


def test_an_answer_in_parts_is_put_together() -> None:
    async def main() -> None:
        async with opened(OddServer(now=[b"1", b"2", b"34"])) as store:
            assert await store.now() == 1234

    run(main())


def test_an_answer_that_comes_too_late_changes_nothing() -> None:
    server = OddServer()

    async def main() -> None:
        async with opened(server) as store:
            [connection] = server.connections
            with pytest.raises(StoreUnavailableError, match=r"did not answer within 0\.05 s"):
                await asyncio.wrap_future(store.link.call("now", limit=0.05))
            with pytest.raises(OutcomeUnknownError, match="promote may have happened"):
                await asyncio.wrap_future(store.link.call("promote", limit=0.05))
            left = asyncio.ensure_future(store.now())
            await until_heard(server, "now", 2)
            left.cancel()
            await asyncio.wait([left])
            for call in [call for call in server.heard if call.verb != "describe"]:
                connection.answer(call, b"5")
            server.answers["now"] = [b"6"]
            assert await store.now() == 6
            assert store.link.connections == 1

    run(main())


def test_a_server_that_falls_silent_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call whose time is over, with not a word of the server meanwhile, ends the connection."""
    monkeypatch.setattr(remote_link, "CALL_LIMIT", 0.2)
    server = OddServer()

    async def main() -> None:
        async with opened(server) as store:
            server.connections[0].transport.pause_reading()
            call = store.link.call("promote", limit=0.2)
            with pytest.raises(OutcomeUnknownError, match=r"did not answer within 0\.2 s"):
                await asyncio.wrap_future(call)
            server.answers["now"] = [b"7"]
            assert await store.now() == 7
            assert store.link.connections == 2

    run(main())


def test_a_server_that_goes_away_answers_what_it_has_and_gets_nothing_new() -> None:
    server = OddServer()

    async def main() -> None:
        async with opened(server) as store:
            [first] = server.connections
            early = asyncio.ensure_future(store.now())
            await until_heard(server, "now")
            asked = server.heard[-1]
            first.http.close(0)  # GOAWAY
            first.flush()
            await until(lambda: _is(len(server.connections), 2))
            server.answers["counts"] = [b"{}"]
            assert await store.counts() == {}
            first.answer(asked, b"9")
            assert await early == 9
            await until(lambda: _is(len(server.connections), 1))

    run(main())


def test_calls_wait_for_a_server_that_reads_slowly() -> None:
    """What the connection does not take yet is kept, and goes out in order when it does."""
    server = OddServer(start_chains=[b"[]"])
    large = NewJob("t", payload=json.dumps("x" * 6_000_000))

    async def main() -> None:
        async with opened(server) as store:
            [connection] = server.connections
            await widen(server, store)
            connection.transport.pause_reading()
            adding = [asyncio.ensure_future(store.enqueue([large])) for _ in range(2)]
            counting = asyncio.ensure_future(store.counts())
            await asyncio.sleep(0)
            assert not any(task.done() for task in (*adding, counting))
            server.answers.update(enqueue=[b"[[]]"], counts=[b"{}"])
            connection.transport.resume_reading()
            assert await asyncio.gather(*adding, counting) == [[], [], {}]
            assert server.verbs()[-3:] == ["enqueue", "enqueue", "counts"]

    run(main())


def test_a_server_that_takes_nothing_more_does_not_keep_the_store_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(remote_stream, "LAST_BYTES", 0.05)
    monkeypatch.setattr(remote_link, "CALL_LIMIT", 0.05)
    server = OddServer()

    async def main() -> None:
        async with listening(server):
            store = RemoteStore(server.address)
            await store.open()
            [connection] = server.connections
            await widen(server, store)
            connection.transport.pause_reading()
            large = NewJob("t", payload=json.dumps("x" * 8_000_000))
            adding = asyncio.ensure_future(store.enqueue([large]))
            await asyncio.sleep(0)
            await store.close()
            with pytest.raises(StoreError):
                await adding

    run(main())
