"""Customers of the demo's shop: they add jobs, a few a second, until they are stopped."""

from __future__ import annotations

import asyncio
import itertools

from windlass.client import Client
from windlass.model.job import JobSpec

CRONTAB = """\
* * * * *     count_stock
30 4 * * mon  weekly_report ?tz=Europe/Berlin
"""
_PAUSE = 0.5
_FIRST_ORDERS = 12


async def come(client: Client) -> None:
    """Some orders at once, and then one after the other."""
    await client.add_jobs(
        JobSpec(
            "send_mail",
            {"to": f"customer{n}@example.com", "subject": "We miss you"},
            delay=300.0 * n,
            key=f"remind-{n}",
        )
        for n in range(1, 9)
    )
    for order in itertools.count(1):
        await _order(client, order)
        if order > _FIRST_ORDERS:
            await asyncio.sleep(_PAUSE)


async def _order(client: Client, order: int) -> None:
    mail = {"to": f"customer{order}@example.com", "subject": f"Your order {order}"}
    await client.add_jobs(
        [
            JobSpec("send_mail", mail),
            JobSpec("send_mail", {**mail, "subject": "Welcome back"}),
            JobSpec("charge_card", {"order": order}),
            *([JobSpec("pick", {"order": order}, queue="warehouse")] if order % 2 else []),
        ]
    )
    if order % 8 == 1:
        await client.start_chain("pay", {"order": order}, key=f"order-{order}")
    if order % 24 == 3:
        files = (f"front-{order}.png", f"side-{order}.png", f"broken-{order}.png")
        pictures = await client.start_chains(JobSpec("resize", {"file": file}) for file in files)
        await client.start_chain(
            "publish",
            {"product": order},
            blockers=[chain.id for chain in (pictures if order % 48 == 3 else pictures[:2])],
            on_blocker_failure="wait",
        )
    if order % 60 == 2:
        url = "https://example.com/catalogue.json"
        await client.add_job("import_catalogue", {"url": url, "pages": 90})
