"""`windlass demo --dashboard`: a shop with customers and two workers, and its dashboard."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from windlass.app import App
from windlass.cli.demo.crew import Crew
from windlass.cli.demo.customers import CRONTAB, come
from windlass.server.dashboard.alone import show
from windlass.server.settings import Address
from windlass.server.sockets import address_of, open_port

WORKERS = ("ada", "grace")
PROGRAM = "windlass.cli.demo.shop:app"


async def run(folder: Path, port: int, begun: Callable[[str], None]) -> None:
    """Until a signal comes; then nothing is left of it. `begun` is told the address."""
    url = f"sqlite:///{folder / 'shop.db'}"
    crontab = folder / "crontab"
    crontab.write_text(CRONTAB, encoding="utf-8")
    crew = Crew(url, "windlass", folder, program=PROGRAM)
    with open_port(Address("127.0.0.1", port), "--port") as opened:
        async with App(url, keep=900) as app:
            customers = asyncio.create_task(come(app.client), name="windlass-customers")
            try:
                for name in WORKERS:
                    await crew.hire(name, crontab)
                address = f"http://{address_of(opened)}/"
                await show(app, opened, is_read_only=False, begun=lambda: begun(address))
            finally:
                customers.cancel()
                await asyncio.gather(customers, return_exceptions=True)
                await crew.dismiss()
