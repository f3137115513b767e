"""The interpreter's switch interval is the worker's while it runs, and the program's otherwise."""

from __future__ import annotations

import sys

from tests.engine.engine_kit import Bench, virtual
from windlass.engine import switching


@virtual
async def test_the_interval_comes_back_after_the_last_worker(bench: Bench) -> None:
    @bench.app.task
    async def idle() -> None: ...

    before = sys.getswitchinterval()
    one, two = await bench.start(), await bench.start()
    assert sys.getswitchinterval() <= switching.INTERVAL * 1.01
    await one.stop()
    assert sys.getswitchinterval() <= switching.INTERVAL * 1.01
    await two.stop()
    assert sys.getswitchinterval() == before
