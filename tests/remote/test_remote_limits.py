"""What a call may be, when it can be made, and how much a program keeps of its workers."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from tests.remote.certificates import make_certificate, server_context
from tests.remote.serving import ADMIN, Serving, serving
from tests.remote.tcp_proxy import proxied
from tests.remote.test_link import LEASE, claim
from windlass.errors import (
    PayloadTooLargeError,
    StoreClosedError,
    StoreError,
    StoreUnavailableError,
)
from windlass.model.job import DEFAULT_TENANT
from windlass.server.streams.deliveries import Delivery
from windlass.store.records import Complete, Lease, NewJob, Verdict
from windlass.stores.remote import RemoteStore, ServerAddress
from windlass.stores.remote import lifeline as remote_lifeline
from windlass.stores.remote import link as remote_link
from windlass.stores.remote import store as remote_store
from windlass.stores.remote.workers import MOST_WORKERS, KnownWorkers


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Serving]:
    with serving(f"sqlite:///{tmp_path}/jobs.db") as server:
        yield server


# ── bytes ──


def test_what_is_too_long_for_one_message_is_refused_or_sent_in_several(
    served: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (remote_store, remote_link):
        monkeypatch.setattr(module, "MOST_ARGUMENTS", 10_000)
    text = '"' + "x" * 4_000 + '"'

    async def main() -> None:
        store = served.remote()
        await store.open()
        jobs = [NewJob("t", payload=text) for _ in range(3)]
        with pytest.raises(PayloadTooLargeError, match="add them in several"):
            await store.enqueue(jobs)
        with pytest.raises(StoreError, match=r"the server takes 10,000 \(make several calls"):
            await store.cancel(range(10_000))
        assert await store.enqueue([]) == []
        for job in jobs:
            await store.enqueue([job])
        leases = await claim(store)
        settled = await store.settle([(lease, Complete(text, keep=60.0)) for lease in leases])
        assert [each.verdict for each in settled] == [Verdict.APPLIED] * 3
        for lease in leases:
            done = await store.get(lease.job_id)
            assert done is not None and done.output == "x" * 4_000
        await store.close()

    asyncio.run(main())


# ── time ──


def test_a_lifeline_ends_its_wait_though_the_connection_hangs(
    served: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The keeper must get an answer in time, whatever the link's thread is doing."""
    for name in ("_MOST", "_SLACK"):
        monkeypatch.setattr(remote_lifeline, name, 0.05)
    release = threading.Event()

    async def hang() -> None:
        release.wait(PATIENCE)

    async def main() -> None:
        store = served.remote()
        await store.open()
        line = store.lifeline()
        store.link.spawn(hang)
        with pytest.raises(StoreUnavailableError, match="does not renew leases"):
            await asyncio.to_thread(line.renew, "w", LEASE, [])
        release.set()
        line.close()
        await store.close()

    try:
        asyncio.run(main())
    finally:
        release.set()


# ── open and closed ──


def test_a_store_that_is_not_open_says_so(served: Serving) -> None:
    async def main() -> None:
        store = served.remote()
        for call in (store.now(), claim(store), store.retire("w")):
            with pytest.raises(StoreClosedError, match="call open"):
                await call
        with pytest.raises(StoreClosedError):
            store.lifeline()
        await store.open()
        link = store.link
        await store.close()
        for refused in (lambda: link.call("now"), link.subscribe):
            with pytest.raises(StoreClosedError, match="was closed"):
                refused()
        link.close()  # again: nothing happens

    asyncio.run(main())


def test_two_that_open_a_store_at_once_get_one_connection(served: Serving) -> None:
    async def main() -> None:
        store = served.remote()
        await asyncio.gather(store.open(), store.open())
        assert await store.now() > 0
        await store.close()

    asyncio.run(main())


def test_a_file_that_is_gone_is_named_and_found_again(tmp_path: Path) -> None:
    """While no connection can be made, calls hear why."""
    own = make_certificate(tmp_path, "server")
    ca = tmp_path / "ca.pem"
    ca.write_bytes(own.read_bytes())

    async def main(port: int) -> None:
        address = ServerAddress("127.0.0.1", port, True, token=ADMIN, ca=str(ca))
        store = RemoteStore(address)
        await store.open()
        ca.unlink()
        proxy.cut()
        with pytest.raises(StoreError, match=r"no connection can be made: .*ca\.pem"):
            while True:
                with contextlib.suppress(StoreUnavailableError):  # it is just being cut
                    await store.enqueue([NewJob("t")])
        ca.write_bytes(own.read_bytes())
        answered = None
        while answered is None:
            with contextlib.suppress(StoreError):
                answered = await store.now()
        await store.close()

    with (
        serving("memory://", tls=server_context(own)) as served,
        proxied(served.port) as proxy,
    ):
        asyncio.run(asyncio.wait_for(main(proxy.port), PATIENCE))


def test_who_subscribes_while_hints_arrive_is_told_at_once(served: Serving) -> None:
    async def main() -> None:
        store = served.remote()
        await store.open()
        heard: asyncio.Queue[BaseException | None] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def listening(error: BaseException | None) -> None:
            loop.call_soon_threadsafe(heard.put_nowait, error)

        first = store.subscribe(lambda: None, listening)
        assert await asyncio.wait_for(heard.get(), PATIENCE) is None
        second = store.subscribe(lambda: None, listening)
        assert await asyncio.wait_for(heard.get(), PATIENCE) is None
        first()
        second()
        await store.close()

    asyncio.run(main())


# ── workers ──


def lease_of(worker: str, job_id: int, token: int = 1) -> Lease:
    return Delivery(job_id, token, worker, DEFAULT_TENANT, "t", 1, 1, seconds=LEASE).lease


def test_of_many_workers_those_that_claimed_longest_ago_are_forgotten() -> None:
    """But never one that has leases under another name, which need it."""
    known = KnownWorkers()
    known.name("turned")
    known.lost("turned", "turned")
    for number in range(MOST_WORKERS):
        known.name(f"w{number}")
    assert known.knows("turned") and known.name("turned") == "turned~1"
    assert not known.knows("w0") and known.knows("w1")


def test_what_is_known_of_a_worker_ends_with_its_deliveries_and_with_it() -> None:
    known = KnownWorkers()
    mine, other = lease_of("w", 1), lease_of("w", 2)
    known.took("w", [mine, other])
    known.ended([lease_of("w", 1, token=9), lease_of("w", 3), lease_of("stranger", 2)])
    assert known.under("w", ["w"]) == [mine, other]
    known.ended([mine])
    assert known.under("w", ["w"]) == [other]
    known.lost("w", "w")
    known.lost("w", "w")  # it goes on under another name already
    assert known.names("w") == ["w", "w~1"]
    known.forget("w")
    known.forget("w")
    assert not known.knows("w")
    assert known.names("w") == ["w"]
