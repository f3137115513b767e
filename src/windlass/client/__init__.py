"""The client: adds jobs and manages them. `Client` is async; `SyncClient` blocks.

`prepare` checks what callers ask for, `client` has the verbs, `blocking` has the same verbs for
code without an event loop, which it runs in the loop of a `portal`. `filters` and `schedules`
translate between the words of operators and the store's records; `chain_trees` gathers what is
drawn of a chain.
"""

from windlass.client.blocking import JoinedSyncClient, SyncClient
from windlass.client.client import CLEANUPS, Cleanup, Client
from windlass.client.portal import Portal
from windlass.client.prepare import Preparer
from windlass.client.schedules import ScheduleInfo

__all__ = [
    "CLEANUPS",
    "Cleanup",
    "Client",
    "JoinedSyncClient",
    "Portal",
    "Preparer",
    "ScheduleInfo",
    "SyncClient",
]
