"""Stores and apps that are closed while others use them."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE
from tests.sqlite.sqlite_kit import opened, run, script
from windlass import App
from windlass.errors import StoreClosedError


def test_a_store_may_be_closed_while_a_thread_uses_its_lifeline(tmp_path: Path) -> None:
    said = script(
        """
        import asyncio, json, sys, threading
        from windlass.stores.sqlite import SqliteStore

        ended = []

        def spin(lifeline, spinning):
            try:
                while True:
                    lifeline.renew("w", 1.0, [])
                    lifeline.check("w", [])
                    spinning.set()
            except BaseException as error:
                ended.append(type(error).__name__)

        async def main():
            for round in range(60):
                store = SqliteStore(sys.argv[1], synchronous="normal")
                await store.open()
                spinning = threading.Event()
                thread = threading.Thread(target=spin, args=(store.lifeline(), spinning))
                thread.start()
                await asyncio.to_thread(spinning.wait, 10)
                await asyncio.sleep(round % 8 / 4000)
                await store.close()
                await asyncio.to_thread(thread.join, 10)
            print(json.dumps(ended))

        asyncio.run(main())
        """,
        tmp_path / "jobs.db",
    )
    assert said == ["StoreClosedError"] * 60


def test_a_blocking_call_that_waits_when_the_app_is_closed_says_so(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path}/jobs.db")
    job = app.sync.add_job("nobody", {}, keep=60)
    looked = threading.Event()
    looking: list[int] = []
    get = app.store.get

    async def look(job_id: int, tenant: str | None = None) -> Any:
        """The first looks wait for one another: three at once are those of three callers."""
        looking.append(job_id)
        if len(looking) == 3:
            looked.set()
        while not looked.is_set():
            await asyncio.sleep(0.01)
        return await get(job_id, tenant)

    app.store.get = look  # type: ignore[method-assign]
    ended: list[BaseException] = []

    def wait() -> None:
        try:
            app.sync.wait_for(job.id, timeout=600)
        except BaseException as error:
            ended.append(error)

    threads = [threading.Thread(target=wait, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert looked.wait(PATIENCE)
    asyncio.run(asyncio.wait_for(app.close(), PATIENCE))
    for thread in threads:
        thread.join(PATIENCE)
    assert [type(error) for error in ended] == [StoreClosedError] * 3


def test_a_forked_child_can_close_the_app_it_inherited(tmp_path: Path) -> None:
    said = script(
        """
        import asyncio, json, os, sys, time
        from windlass import App

        app = App(f"sqlite:///{sys.argv[1]}")
        app.sync.counts()
        pid = os.fork()
        if pid == 0:
            asyncio.run(app.close())
            os._exit(0)
        deadline = time.monotonic() + 10
        ended, status = 0, None
        while not ended and time.monotonic() < deadline:
            ended, status = os.waitpid(pid, os.WNOHANG)
            time.sleep(0.01)
        if not ended:
            os.kill(pid, 9)
        asyncio.run(app.close())
        print(json.dumps(status if ended else "the child hangs"), flush=True)
        os._exit(0)
        """,
        tmp_path / "jobs.db",
    )
    assert said == 0


def test_a_closed_store_holds_no_file(tmp_path: Path) -> None:
    def held() -> list[str]:
        links = [os.readlink(link) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
        return [name for name in links if name.startswith(str(tmp_path))]

    async def scenario() -> None:
        async with opened(tmp_path / "jobs.db") as store:
            store.lifeline().renew("w", 30.0, [])
            assert held()

    run(scenario())
    assert held() == []
