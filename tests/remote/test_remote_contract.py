"""The contract suite through a server.

An admin may do the upkeep and see all tenants, as the suite does. A token of one tenant may not, so
that for it the upkeep is done where the jobs are, as a server does it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.register_assert_rewrite("windlass.testing.contract")

from tests.remote.serving import Serving, serving, token  # noqa: E402
from windlass.clock import Clock  # noqa: E402
from windlass.model.chain import KEEP_CHAINS, KEEP_FAILED_CHAINS  # noqa: E402
from windlass.model.job import Job  # noqa: E402
from windlass.server.calls.caller import Caller  # noqa: E402
from windlass.server.identity import Identity, Role  # noqa: E402
from windlass.store.port import Store  # noqa: E402
from windlass.store.records import Reaped  # noqa: E402
from windlass.stores.remote import RemoteStore  # noqa: E402
from windlass.testing import contract  # noqa: E402

CASES = contract.cases()
_LONG = ("webhooks", "blockers", "clock_jumps", "history", "keys", "strict", "queues", "crash")
"""Groups of many cases about what a store does with rows: for the long run."""
_SCOPED = ("claim", "settle", "leases", "expire", "notes", "batches", "admin", "pause")
"""Groups in which a worker's name or a lease goes back and forth."""
_FORGED = "a_wrong_token_is_lost"
"""Of a lease that was not handed out to it a token of one tenant learns nothing: it is missing."""


def _marked(case: contract.Case) -> object:
    marks = [pytest.mark.rig] if case.group in _LONG else []
    return pytest.param(case, marks=marks, id=str(case))


@contextmanager
def _admin(url: str, clock: Clock) -> Iterator[Callable[[], Store]]:
    with serving(url, clock) as served:
        yield served.remote


@pytest.mark.parametrize("case", [_marked(case) for case in CASES])
def test_in_front_of_memory(case: contract.Case) -> None:
    contract.run(case, lambda clock: _admin("memory://", clock))


@pytest.mark.rig
@pytest.mark.parametrize("case", CASES, ids=str)
def test_in_front_of_sqlite(case: contract.Case, tmp_path: Path) -> None:
    contract.run(case, lambda clock: _admin(f"sqlite:///{tmp_path}/jobs.db", clock))


# ── a token of one tenant ──


class TenantStore(RemoteStore):
    """A store with a token of one tenant, whose server does the upkeep."""

    def __init__(self, served: Serving, text: str, identity: Identity) -> None:
        super().__init__(served.address(text))
        self._served = served
        self._caller = Caller(identity, b"")

    async def reap(self, limit: int, max_resets: int) -> Reaped:
        return self._served.call(self._served.store.reap(limit, max_resets))

    async def promote(self, limit: int) -> int:
        return self._served.call(self._served.store.promote(limit))

    async def next_due(self) -> float | None:
        return self._served.call(self._served.store.next_due())

    async def prune(
        self,
        limit: int,
        keep_chains: float = KEEP_CHAINS,
        keep_failed_chains: float = KEEP_FAILED_CHAINS,
    ) -> int:
        pruning = self._served.store.prune(limit, keep_chains, keep_failed_chains)
        return self._served.call(pruning)

    async def unlock(self, workers: Sequence[str], max_resets: int) -> list[Job]:
        named = [self._caller.worker(worker) for worker in workers]
        jobs = self._served.call(self._served.store.unlock(named, max_resets))
        return [self._caller.job(job) for job in jobs]


_ROLES = (Role.PRODUCER, Role.WORKER, Role.OPERATOR)


@contextmanager
def _tenant(clock: Clock) -> Iterator[Callable[[], Store]]:
    text, known = token("some", *_ROLES)
    identity = Identity(name="some", roles=frozenset(_ROLES), digest=known.digest)
    with serving("memory://", clock, tokens={text: known}) as served:
        yield lambda: TenantStore(served, text, identity)


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case.group in _SCOPED and not case.name.startswith(_FORGED)],
    ids=str,
)
def test_as_one_tenant(case: contract.Case) -> None:
    contract.run(case, _tenant)
