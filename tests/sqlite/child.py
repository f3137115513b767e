"""The other processes of these tests: `child.py COMMAND PATH …`."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from windlass.errors import WindlassError
from windlass.store.records import COMPLETE, ClaimRequest, NewJob
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
        case _:
            raise SystemExit(f"unknown command {command}")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
