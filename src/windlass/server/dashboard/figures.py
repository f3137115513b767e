"""What pages show of many jobs at once: depths, counts, rates and groups of failures.

It is the one module between the pages and the verbs that answer these, so that a page says what it
wants to show, and not how that is counted.
"""

from __future__ import annotations

import msgspec

from windlass.client import Client
from windlass.model.job import JobState
from windlass.server.dashboard.search import Search, batches
from windlass.server.service import Service

MOST_COUNTED = 10_000
"""Up to which jobs of a filter are counted one by one."""


class Count(msgspec.Struct, frozen=True):
    """A number of jobs; where it is not exact, there are at least so many."""

    number: int
    is_exact: bool = True


class Depths(msgspec.Struct, frozen=True):
    """How many jobs are in each state."""

    states: dict[JobState, Count]

    def of(self, state: JobState) -> Count:
        return self.states.get(state, Count(0))


class Figures:
    """The figures of one service. Whose they are, the client that is given says."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def depths(self, client: Client) -> Depths:
        counts = await client.counts()
        return Depths({JobState(state): Count(count) for state, count in counts.items()})

    async def count(self, client: Client, search: Search) -> Count:
        """How many jobs a search selects, exactly up to `MOST_COUNTED`."""
        total = 0
        async for batch in batches(client, search):
            total += len(batch)
            if total >= MOST_COUNTED:
                return Count(total, is_exact=False)
        return Count(total)
