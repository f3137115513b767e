"""What servers share through a file: requests that come to several of them, and upkeep."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.sqlite.sqlite_kit import child, finish, line, opened, plain, run, tell
from windlass.store.records import JobFilter, NewJob
from windlass.store.server import REQUESTS_KEPT, ClaimScope, Request, Token
from windlass.stores.sqlite import SqliteStore
from windlass.testing.clock import FakeClock

ROUNDS = 12


@pytest.mark.parametrize("digests", [("d", "d", "d"), ("d", "e", "f")], ids=["same", "other"])
def test_servers_that_are_asked_at_once(tmp_path: Path, digests: tuple[str, ...]) -> None:
    """Each key is added once, whichever process was asked first; the others are told which jobs it
    stands for, or that it is another request's."""
    path = tmp_path / "jobs.db"
    rivals = [child("ask_when_told", path, digest) for digest in digests]
    told: list[list[Any]] = []
    try:
        for process in rivals:
            assert line(process) == "here"
        for step in range(ROUNDS):
            keys = [f"k{step}", f"k{step + 1}", f"l{step}"]
            for number, process in enumerate(rivals):
                tell(process, " ".join(keys if number % 2 else keys[::-1]))
            for number, process in enumerate(rivals):
                answers = json.loads(line(process))
                told.append(answers if number % 2 else answers[::-1])
        for process in rivals:
            finish(process)
    finally:
        for process in rivals:
            process.kill()
            process.wait()

    new = [ids for answers in told for is_new, _, ids in answers if is_new]
    assert len(new) == 2 * ROUNDS + 1, "each key is new once"
    known = [ids for answers in told for _, is_conflict, ids in answers if not is_conflict]
    assert {tuple(ids) for ids in known} == {tuple(ids) for ids in new}
    conflicts = sum(is_conflict for answers in told for _, is_conflict, _ in answers)
    assert (conflicts > 0) == (len(set(digests)) > 1)

    async def check() -> None:
        async with opened(path) as store:
            stored = [job.id for job in await store.find(JobFilter(limit=1000))]
            assert sorted(stored) == sorted(job_id for ids in new for job_id in ids)

    run(check())


def test_a_server_that_is_killed_while_it_adds(tmp_path: Path) -> None:
    """A request and its jobs are one step: asked again, it is all there or none of it."""
    path = tmp_path / "jobs.db"
    victim = child("ask_when_told", path, "d")
    try:
        assert line(victim) == "here"
        for step in range(50):
            tell(victim, f"k{step}")
        for _ in range(3):
            line(victim)
        victim.send_signal(signal.SIGKILL)
    finally:
        victim.kill()
        victim.communicate()

    async def check() -> None:
        async with opened(path) as store:
            before = {job.id for job in await store.find(JobFilter(limit=1000))}
            jobs = (NewJob("t"), NewJob("u"))
            answers = await store.enqueue_once([Request(f"k{n}", "d", jobs) for n in range(50)])
            assert {i for it in answers if not it.is_new for i in it.ids} == before
            assert not any(it.is_conflict for it in answers)
            assert len(await store.find(JobFilter(limit=1000))) == 100

    run(check())


def test_ten_thousand_jobs_of_one_request(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "jobs.db") as store:
            request = Request("k", "d", (NewJob("t"),) * 10_000)
            [first] = await store.enqueue_once([request])
            [again] = await store.enqueue_once([request])
            assert first.is_new and not again.is_new
            assert again.ids == first.ids == tuple(range(first.ids[0], first.ids[0] + 10_000))
            assert again.jobs == first.jobs

    run(scenario())


def test_an_idle_server_writes_nothing(tmp_path: Path) -> None:
    """Looking, pruning and asking for what is there take no write lock."""
    path, clock = tmp_path / "jobs.db", FakeClock()

    async def scenario() -> None:
        async with opened(path, clock=clock) as store:
            await store.secret("deliveries", "one")
            await store.add_token(Token(name="ci", digest="d", roles=(), created_at=0))
            await store.enqueue_once([Request("k", "d", (NewJob("t", delay=10**15),))])
            commits = store.commits
            for _ in range(3):
                assert await store.secret("deliveries", "two") == "one"
                assert await store.find_token("d") is not None
                assert await store.tokens()
                assert await store.claimable([ClaimScope(("t",)), ClaimScope()]) == [False] * 2
                assert await store.prune(10) == 0
            assert store.commits == commits
            clock.advance(REQUESTS_KEPT)
            assert await store.prune(10) == 1
            assert store.commits == commits + 1

    run(scenario())


def test_tokens_of_another_store_are_seen_at_once(tmp_path: Path) -> None:
    """Nothing is remembered by a store, so a token that was revoked is refused everywhere."""
    path = tmp_path / "jobs.db"

    async def scenario() -> None:
        async with opened(path) as one, opened(path) as other:
            await one.add_token(Token(name="ci", digest="d", roles=("worker",), created_at=1))
            assert await other.find_token("d") == (await one.tokens())[0]
            revoked = await other.revoke_token("ci")
            assert await one.find_token("d") == revoked

    run(scenario())


def test_a_token_itself_is_not_stored(tmp_path: Path) -> None:
    """Only the digest of a token: who reads the file cannot use it."""
    path = tmp_path / "jobs.db"

    async def scenario() -> None:
        async with opened(path) as store:
            await store.add_token(Token(name="ci", digest="digest", roles=(), created_at=1))

    run(scenario())
    with plain(path) as connection:
        [row] = connection.execute("SELECT * FROM windlass_tokens").fetchall()
    connection.close()
    assert row == ("ci", "digest", "", "[]", None, 1, None, None)


def test_a_request_beside_others_calls_in_one_transaction(tmp_path: Path) -> None:
    """Calls that come together are one commit; a conflict among them undoes none."""

    async def scenario() -> None:
        async with opened(tmp_path / "jobs.db") as store:

            async def ask(store: SqliteStore, n: int) -> bool:
                [it] = await store.enqueue_once([Request("k", f"d{n}", (NewJob("t"),))])
                return it.is_new

            asked = asyncio.gather(*(ask(store, n) for n in range(10)))
            added = asyncio.gather(*(store.enqueue([NewJob("u")]) for _ in range(10)))
            assert sorted(await asked) == [False] * 9 + [True]
            assert len(await added) == 10
            assert len(await store.find(JobFilter())) == 11

    run(scenario())
