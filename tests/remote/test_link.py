"""The link when networks, servers and callers fail it."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import zttp

from tests.patience import PATIENCE
from tests.remote.serving import ADMIN, Serving, serving
from tests.remote.tcp_proxy import TcpProxy, proxied
from windlass.errors import (
    ConfigError,
    OutcomeUnknownError,
    StoreClosedError,
    StoreUnavailableError,
)
from windlass.model.job import JobState
from windlass.server.tokens import make_token
from windlass.store.records import COMPLETE, ClaimRequest, JobFilter, Lease, NewJob, Verdict
from windlass.stores.remote import RemoteStore, ServerAddress
from windlass.stores.remote import stream as remote_stream

LEASE = 600.0
"""Seconds: no lease ends by itself while a test runs."""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Serving]:
    with serving(f"sqlite:///{tmp_path}/jobs.db") as server:
        yield server


@pytest.fixture
def proxy(served: Serving) -> Iterator[TcpProxy]:
    with proxied(served.port) as network:
        yield network


@asynccontextmanager
async def through(proxy: TcpProxy) -> AsyncIterator[RemoteStore]:
    store = RemoteStore(ServerAddress("127.0.0.1", proxy.port, token=ADMIN))
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def until(seen: Callable[[], Coroutine[Any, Any, bool]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await seen():
            await asyncio.sleep(0.01)


async def answers(store: RemoteStore) -> None:
    """Wait until the store answers again."""

    async def seen() -> bool:
        try:
            await store.now()
        except StoreUnavailableError:
            return False
        return True

    await until(seen)


async def arrived(proxy: TcpProxy, before: int) -> None:
    """Wait until something went to the server after that."""

    async def seen() -> bool:
        return proxy.carried > before

    await until(seen)


async def lose(proxy: TcpProxy, call: Coroutine[Any, Any, Any], happened: Any) -> Any:
    """Make a call whose answer is lost, once `happened` says that it was carried out."""
    proxy.withholds = True
    task = asyncio.ensure_future(call)
    await until(happened)
    proxy.heal()
    return (await asyncio.gather(task, return_exceptions=True))[0]


async def claim(store: RemoteStore, limit: int = 10) -> list[Lease]:
    return await store.claim(ClaimRequest("w", ("t",), limit, lease=LEASE))


def running(served: Serving, count: int) -> Callable[[], Coroutine[Any, Any, bool]]:
    async def seen() -> bool:
        found = served.call(served.store.find(JobFilter(states=(JobState.RUNNING,))))
        return len(found) == count

    return seen


def test_a_call_that_repeats_is_made_again(proxy: TcpProxy) -> None:
    async def main() -> None:
        async with through(proxy) as store:
            proxy.withholds = True
            before = proxy.carried
            call = asyncio.ensure_future(store.now())
            await arrived(proxy, before)
            proxy.heal()
            assert await asyncio.wait_for(call, PATIENCE) > 0
            assert store.link.connections == 2

    asyncio.run(main())


def test_of_an_addition_whose_answer_is_lost_it_is_not_known(
    proxy: TcpProxy, served: Serving
) -> None:
    async def main() -> None:
        async with through(proxy) as store:

            async def stored() -> bool:
                return bool(served.call(served.store.find(JobFilter())))

            error = await lose(proxy, store.enqueue([NewJob("t")]), stored)
            assert isinstance(error, OutcomeUnknownError)
            assert "enqueue may have happened" in str(error)
            await answers(store)
            assert len(await store.find(JobFilter())) == 1

    asyncio.run(main())


def test_what_a_lost_claim_took_goes_back_while_its_worker_lives(
    proxy: TcpProxy, served: Serving
) -> None:
    """The worker has a job that it knows of, and renews its lease; the other is taken back."""

    async def main() -> None:
        async with through(proxy) as store:
            await store.enqueue([NewJob("t"), NewJob("t")])
            [known] = await claim(store, 1)
            error = await lose(proxy, claim(store, 1), running(served, 2))
            assert isinstance(error, OutcomeUnknownError)
            await answers(store)
            line = store.lifeline()

            async def taken_back() -> bool:
                renewal = await asyncio.to_thread(line.renew, "w", LEASE, [known])
                assert not renewal.lost
                reaped = served.call(served.store.reap(10, 5))
                assert known.job_id not in reaped.requeued
                return bool(reaped.requeued)

            await until(taken_back)
            renewal = await asyncio.to_thread(line.renew, "w", LEASE, [known], [(known, LEASE)])
            assert renewal.lost == {} and renewal.locked == frozenset()
            [again] = await store.claim(ClaimRequest("w", ("t",), 10, lease=LEASE, suspects=1))
            assert again.job_id != known.job_id and again.attempts == 1
            for lease in (known, again):
                [settled] = await store.settle([(lease, COMPLETE)])
                assert settled.verdict is Verdict.APPLIED
            await store.retire("w")
            assert await store.find(JobFilter()) == []
            line.close()

    asyncio.run(main())


def test_a_lost_claim_that_took_nothing_loses_nothing(proxy: TcpProxy, served: Serving) -> None:
    async def main() -> None:
        async with through(proxy) as store:
            await store.enqueue([NewJob("t")])
            proxy.is_silent = True
            task = asyncio.ensure_future(claim(store))
            await asyncio.sleep(0)
            proxy.cut()
            proxy.heal()
            with pytest.raises(StoreUnavailableError):
                await asyncio.wait_for(task, PATIENCE)
            await answers(store)
            [lease] = await claim(store)
            [settled] = await store.settle([(lease, COMPLETE)])
            assert settled.verdict is Verdict.APPLIED

    asyncio.run(main())


def test_what_a_cancelled_claim_took_is_handed_back(proxy: TcpProxy, served: Serving) -> None:
    async def main() -> None:
        async with through(proxy) as store:
            await store.enqueue([NewJob("t")])
            proxy.is_silent = True
            task = asyncio.ensure_future(claim(store))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            proxy.is_silent = False
            await store.retire("w")
            [job] = await store.find(JobFilter())
            assert (job.state, job.attempts) == (JobState.READY, 0)

    asyncio.run(main())


def test_a_network_that_falls_silent_is_noticed(
    proxy: TcpProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("QUIET", "SIGN_LIMIT", "LOOK_EVERY"):
        monkeypatch.setattr(remote_stream, name, 0.1)
    heard: list[BaseException | None] = []

    async def main() -> None:
        async with through(proxy) as store:
            stop = store.subscribe(lambda: None, heard.append)
            await until(lambda: _is(heard, [None]))
            proxy.is_silent = True
            await until(lambda: _is(len(heard), 2))
            assert "no sign of life" in str(heard[1])
            proxy.heal()
            await until(lambda: _is(len(heard), 3))
            assert heard[2] is None
            stop()

    asyncio.run(main())


async def _is(seen: object, wanted: object) -> bool:
    return seen == wanted


def test_renewals_end_in_time_on_a_silent_network(proxy: TcpProxy) -> None:
    async def main() -> None:
        async with through(proxy) as store:
            line = store.lifeline()
            await asyncio.to_thread(line.renew, "w", 1.0, [])
            proxy.is_silent = True
            with pytest.raises(StoreUnavailableError, match=r"did not answer within 0\.3"):
                await asyncio.to_thread(line.renew, "w", 1.0, [])
            proxy.heal()
            await answers(store)
            await asyncio.to_thread(line.renew, "w", 1.0, [])
            line.close()
            with pytest.raises(StoreClosedError):
                line.renew("w", 1.0, [])

    asyncio.run(main())


def test_calls_fail_while_the_server_is_away_and_work_when_it_is_back(served: Serving) -> None:
    hints = threading.Event()
    heard: list[BaseException | None] = []

    async def main() -> None:
        store = served.remote()
        await store.open()
        stop = store.subscribe(hints.set, heard.append)
        await until(lambda: _is(heard, [None]))
        served.call(served.leave())
        with pytest.raises(StoreUnavailableError) as failed:
            while True:
                await store.enqueue([NewJob("t")])
        assert failed.value.is_temporary
        served.call(served.serve())
        await answers(store)
        await until(lambda: _is(heard[-1], None))
        hints.clear()
        served.call(served.store.enqueue([NewJob("t")]))
        assert await asyncio.to_thread(hints.wait, PATIENCE)
        stop()
        await store.close()
        with pytest.raises(StoreClosedError):
            await store.now()

    asyncio.run(main())


def test_a_server_that_drains_takes_outcomes_and_gives_no_jobs(tmp_path: Path) -> None:
    """The store goes on at another server of the same address, as soon as there is one."""
    url = f"sqlite:///{tmp_path}/jobs.db"

    async def main(first: Serving) -> None:
        store = first.remote()
        await store.open()
        await store.enqueue([NewJob("t"), NewJob("t")])
        [lease] = await claim(store, 1)
        draining = asyncio.ensure_future(asyncio.to_thread(first.call, first.drain()))

        async def refused() -> bool:
            try:
                await claim(store, 0)
            except StoreUnavailableError as error:
                return "stopping" in str(error)
            return False

        await until(refused)
        second = Serving(url)
        second.port = first.port
        second.start({}, None)
        try:

            async def moved() -> bool:
                try:
                    return bool(await claim(store, 1))
                except StoreUnavailableError:
                    return False

            await until(moved)
            [settled] = await store.settle([(lease, COMPLETE)])
            assert settled.verdict is Verdict.APPLIED
            await store.close()
            await draining
        finally:
            second.stop()

    with serving(url) as first:
        asyncio.run(main(first))


def test_a_store_can_be_opened_and_closed_again(served: Serving) -> None:
    async def main() -> None:
        store = served.remote()
        for _ in range(3):
            await store.open()
            await store.open()
            await store.enqueue([NewJob("t")])
            await store.close()
            await store.close()
        await store.open()
        assert len(await store.find(JobFilter())) == 3
        await store.close()

    asyncio.run(main())


def test_calls_under_way_are_answered_before_the_store_is_closed(served: Serving) -> None:
    async def main() -> None:
        store = served.remote()
        await store.open()
        calls = [asyncio.ensure_future(store.enqueue([NewJob("t")])) for _ in range(20)]
        await asyncio.sleep(0)
        await store.close()
        assert all([(await call)[0].id for call in calls])

    asyncio.run(main())


def test_a_token_that_is_not_known_is_refused_and_not_shown(served: Serving) -> None:
    text = make_token()

    async def main() -> None:
        store = served.remote(text)
        with pytest.raises(StoreUnavailableError) as refused:
            await store.open()
        assert not refused.value.is_temporary
        assert "does not know this token" in str(refused.value)
        assert text not in f"{refused.value!r} {served.address(text)!r}"

    asyncio.run(main())


def test_the_server_may_send_a_whole_answer_before_it_is_read() -> None:
    """zttp's own windows are as small as HTTP/2 begins with."""
    client = zttp.Connection(zttp.CLIENT, zttp.HTTP2)
    client.initiate_connection()
    server = zttp.Connection(zttp.SERVER, zttp.HTTP2)
    server.receive_data(client.data_to_send() + remote_stream.WINDOWS)
    client.send_request(b"POST", b"/", b"2", [(b"host", b"h")])
    server.receive_data(client.data_to_send())
    while server.next_event() is not zttp.NEED_DATA:
        pass
    assert server.stream(1).send_window == remote_stream.WINDOW
    assert server.send_window > remote_stream.WINDOW


def test_where_no_server_is_the_error_is_temporary() -> None:
    async def main() -> None:
        store = RemoteStore(ServerAddress("127.0.0.1", 1, token="t"))
        with pytest.raises(StoreUnavailableError, match=r"cannot connect to 127\.0\.0\.1:1") as no:
            await store.open()
        assert no.value.is_temporary

    asyncio.run(main())


def test_a_forked_child_is_told_to_open_a_store_of_its_own(served: Serving) -> None:
    async def main() -> None:
        store = served.remote()
        await store.open()
        child = os.fork()
        if child == 0:
            try:
                store.link.call("now")
            except ConfigError:
                os._exit(7)
            finally:
                os._exit(1)
        _, status = await asyncio.to_thread(os.waitpid, child, 0)
        assert os.waitstatus_to_exitcode(status) == 7
        await store.now()
        await store.close()

    asyncio.run(main())
