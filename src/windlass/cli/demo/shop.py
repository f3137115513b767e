"""The tasks of a small shop, for `windlass demo --dashboard`: something of everything."""

from __future__ import annotations

import asyncio
from typing import Any

from windlass import App, Context, Poison, Retry

app = App(keep=900)


@app.task
async def send_mail(to: str, subject: str) -> dict[str, Any]:
    """Quick, and there are many of them."""
    await asyncio.sleep(0.03)
    return {"sent": to, "subject": subject}


@app.task(retry=Retry.fixed(4.0), max_attempts=3)
async def charge_card(order: int) -> str:
    """Fails now and then, and sometimes for good."""
    await asyncio.sleep(0.1)
    if order % 17 == 0:
        raise Poison(f"order {order} has no amount")
    if order % 9 == 0:
        raise ConnectionError(f"the bank at 10.0.4.{order % 5} did not answer for order {order}")
    return f"charged {order}"


@app.task(queue="warehouse")
async def pick(order: int) -> str:
    """One at a time."""
    await asyncio.sleep(0.25)
    return f"picked {order}"


@app.task
async def pay(ctx: Context, order: int) -> Any:
    """The first step of a chain."""
    await asyncio.sleep(0.2)
    return ctx.continue_with(ship, order=order)


@app.task
async def ship(order: int) -> str:
    """Its second step, some seconds long."""
    await asyncio.sleep(3.0)
    return f"shipped {order}"


@app.task(max_attempts=1)
async def resize(file: str) -> dict[str, int]:
    """Chains of one job, for which others wait."""
    await asyncio.sleep(1.5)
    if file.startswith("broken"):
        raise ValueError(f"{file} is no picture")
    return {"width": 640, "height": 480}


@app.task
async def import_catalogue(ctx: Context, url: str, pages: int) -> int:
    """Long, with a progress and a log."""
    for page in range(pages):
        ctx.progress(page / pages, f"page {page + 1} of {pages}")
        if page % 10 == 0:
            ctx.log({"page": page, "products": page * 24})
        await asyncio.sleep(0.5)
    return pages * 24


@app.task
async def publish(ctx: Context, product: int) -> dict[str, Any]:
    """Waits for its pictures."""
    await asyncio.sleep(0.5)
    return {"product": product}


@app.task
async def count_stock() -> int:
    """Runs by the clock."""
    await asyncio.sleep(0.2)
    return 42


@app.task
async def weekly_report() -> None:
    """Runs by the clock, on Mondays."""
