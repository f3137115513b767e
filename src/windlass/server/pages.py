"""Pages of bounded size: jobs may be large, and what is listed of them is held in memory.

A page is read in steps, each as long as the ones before let it be. It ends where it is full or too
large, and the last id that it has is where the next one goes on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol, TypeVar

import msgspec

from windlass.store.records import Lease

MOST_BYTES = 16 * 1024 * 1024
_FIRST = 100
_LONGEST = 1_000


class Listed(Protocol):
    @property
    def id(self) -> int: ...


L = TypeVar("L", bound=Listed)
Find = Callable[[int | None, int], Awaitable[Sequence[L]]]
"""`find(after, limit)` answers with the items below an id, the largest first."""


async def page(find: Find[L], after: int | None, limit: int) -> tuple[list[L], int | None]:
    """The items, at least one if there is any, and the id after which there may be more."""
    found: list[L] = []
    size, step = 0, _FIRST
    while len(found) < limit:
        wanted = min(step, limit - len(found))
        some = await find(after, wanted)
        for item in some:
            size += len(msgspec.json.encode(item))
            if found and size > MOST_BYTES:
                return found, found[-1].id
            found.append(item)
        if len(some) < wanted:
            return found, None
        after = found[-1].id
        step = max(1, min(_LONGEST, (MOST_BYTES - size) * len(found) // (size or 1)))
    return found, found[-1].id if found else None


def that_fit(leases: Iterable[Lease]) -> int:
    """How many leases, from the first on, one answer takes."""
    size = count = 0
    for lease in leases:
        size += len(lease.payload) + len(lease.blockers or "")
        if count and size > MOST_BYTES:
            break
        count += 1
    return count
