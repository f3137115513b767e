"""The other processes of these tests: `child.py COMMAND PATH …`."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import sys
from pathlib import Path

from windlass.errors import LeaseLostError, WindlassError
from windlass.model.chain import ChainState
from windlass.store.records import (
    COMPLETE,
    ChainFilter,
    ClaimRequest,
    Complete,
    Lease,
    NewChain,
    NewJob,
    decode_blockers,
)
from windlass.store.server import Request
from windlass.stores.sqlite import SqliteStore


def say(text: object) -> None:
    print(text, flush=True)


async def migrate(path: Path) -> None:
    """Open the store when told to, all at once."""
    say("here")
    sys.stdin.readline()
    store = SqliteStore(path)
    await store.open()
    await store.close()
    say("migrated")


async def attempt(path: Path) -> None:
    """Open the store as an ordinary user (root may write anywhere) and say what is wrong."""
    if os.geteuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
    store = SqliteStore(path)
    try:
        await store.open()
    except WindlassError as error:
        say(f"{type(error).__name__}: {error}")
    else:
        await store.close()
        say("opened")


async def enqueue_forever(path: Path) -> None:
    """Add jobs and name each one that was acknowledged, until killed."""
    store = SqliteStore(path)
    await store.open()
    while True:
        jobs = await store.enqueue([NewJob("t"), NewJob("t", queue="q"), NewJob("u")])
        say(" ".join(str(job.id) for job in jobs))


async def add_when_told(path: Path) -> None:
    """One job for each line of input."""
    store = SqliteStore(path)
    await store.open()
    say("here")
    while sys.stdin.readline().strip():
        [job] = await store.enqueue([NewJob("t")])
        say(job.id)
    await store.close()


async def hold(path: Path, worker: str) -> None:
    """Claim everything and wait to be killed."""
    store = SqliteStore(path)
    await store.open()
    leases = await store.claim(ClaimRequest(worker=worker, tasks=("t",), limit=100))
    say(len(leases))
    sys.stdin.readline()


async def work_serially(path: Path, worker: str, log: Path) -> None:
    """Work a serial queue off, writing down when each job starts and ends."""
    store = SqliteStore(path, synchronous="normal")
    await store.open()
    say("here")
    sys.stdin.readline()
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    while True:
        leases = await store.claim(ClaimRequest(worker=worker, tasks=("t",), limit=10))
        for lease in leases:
            os.write(file, f"start {lease.job_id}\n".encode())
        for lease in leases:
            os.write(file, f"end {lease.job_id}\n".encode())
            await store.settle([(lease, COMPLETE)])
        counts = await store.counts()
        if not sum(counts.values()):
            break
        await asyncio.sleep(0.0005)
    os.close(file)
    await store.close()


async def start_when_told(path: Path, key: str) -> None:
    """One chain with this key for each line of input; its id, and whether it was there."""
    store = SqliteStore(path, synchronous="normal")
    await store.open()
    say("here")
    while sys.stdin.readline().strip():
        [chain] = await store.start_chains([NewChain(job=NewJob("t"), key=key)])
        say(f"{chain.id} {'there' if chain.deduplicated else 'new'}")
    await store.close()


async def ask_when_told(path: Path, digest: str) -> None:
    """For each line of input, requests under these keys; what became of each."""
    store = SqliteStore(path, synchronous="normal")
    await store.open()
    say("here")
    while keys := sys.stdin.readline().split():
        jobs = (NewJob("t"), NewJob("u"))
        answers = await store.enqueue_once([Request(key, digest, jobs) for key in keys])
        told = [[it.is_new, it.is_conflict, it.ids] for it in answers]
        say(json.dumps(told))
    await store.close()


async def name_chains(path: Path, number: int, seed: int) -> None:
    """Add jobs, each of which waits for some of the chains that there are."""
    choose = random.Random(seed)
    store = SqliteStore(path, synchronous="normal")
    await store.open()
    say("here")
    sys.stdin.readline()
    known = [chain.id for chain in await store.find_chains(ChainFilter(limit=10_000))]
    for _ in range(number):
        named = tuple(choose.choices(known, k=25))
        await store.enqueue([NewJob("merge", blockers=named)])
    await store.close()
    say("named")


async def end_chains(path: Path, worker: str, merges: int, stop_after: int) -> None:
    """Work until so many jobs that waited have run, and write each of them down with its end. One
    that is to stop after some claims holds what it has, and waits to be killed."""
    store = SqliteStore(path, synchronous="normal")
    await store.open()
    say("here")
    sys.stdin.readline()
    for number in itertools.count(1):
        request = ClaimRequest(worker, ("t", "merge"), 7, suspects=7, lease=1.0)
        leases = await store.claim(request)
        if leases and number >= stop_after:
            say("holding")
            sys.stdin.readline()
        ends = [lease for lease in leases if lease.task == "t"]
        if ends:
            say(f"ends {len(ends)}")
        await store.settle([(lease, Complete('"done"')) for lease in ends])
        for lease in leases:
            if lease.task == "merge":
                _merge(store, lease)
        await store.reap(100, 50)
        with store.connection() as connection:
            [(done,)] = connection.execute("SELECT count(*) FROM merged").fetchall()
        if done >= merges:
            break
        await asyncio.sleep(0.001)
    await store.close()


def _merge(store: SqliteStore, lease: Lease) -> None:
    assert lease.blockers is not None
    states = {chain.state for chain in decode_blockers(lease.blockers)}
    assert states == {ChainState.COMPLETED}, states
    try:
        with store.transaction(lease) as transaction:
            transaction.execute("INSERT INTO merged VALUES (?)", (lease.job_id,))
            transaction.complete(COMPLETE)
    except LeaseLostError:
        pass  # it took longer than its lease, and another runs it


async def main(command: str, path: str, *more: str) -> None:
    match command:
        case "migrate":
            await migrate(Path(path))
        case "attempt":
            await attempt(Path(path))
        case "enqueue_forever":
            await enqueue_forever(Path(path))
        case "add_when_told":
            await add_when_told(Path(path))
        case "hold":
            await hold(Path(path), more[0])
        case "work_serially":
            await work_serially(Path(path), more[0], Path(more[1]))
        case "start_when_told":
            await start_when_told(Path(path), more[0])
        case "ask_when_told":
            await ask_when_told(Path(path), more[0])
        case "name_chains":
            await name_chains(Path(path), int(more[0]), int(more[1]))
        case "end_chains":
            await end_chains(Path(path), more[0], int(more[1]), int(more[2]))
        case _:
            raise SystemExit(f"unknown command {command}")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
