"""Waiting for what a look at the database finds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

from windlass.errors import WaitTimeoutError
from windlass.model.names import check_seconds

_FIRST_PAUSE = 0.01
_LONGEST_PAUSE = 0.25

Found = TypeVar("Found")


async def wait_until(
    look: Callable[[], Awaitable[Found | None]],
    timeout: float | timedelta | None,
    still: Callable[[], str],
) -> Found:
    """Look, first often and then more seldom, until there is an answer; WaitTimeoutError after
    `timeout` seconds. `still` says what is waited for, and how it is."""
    limit = check_seconds(timeout, "timeout")
    time = asyncio.get_running_loop().time
    deadline = None if limit is None else time() + limit
    pause = _FIRST_PAUSE
    while (found := await look()) is None:
        left = None if deadline is None else deadline - time()
        if left is not None and left <= 0:
            raise WaitTimeoutError(f"{still()} after {limit:g} s")
        await asyncio.sleep(pause if left is None else min(pause, left))
        pause = min(pause * 1.5, _LONGEST_PAUSE)
    return found
