"""The contract suite: a store is right if and only if it passes every case.

It needs no test framework. A case is a coroutine that gets a `Kit` (an opened store on a fresh
database, and the clock it reads) and asserts; time is only that clock, so nothing sleeps. To
bind a store of your own with pytest, these lines are enough:

    @pytest.mark.parametrize("case", contract.cases(), ids=str)
    def test_contract(case: contract.Case, tmp_path: Path) -> None:
        file = tmp_path / "jobs.db"
        contract.run(case, lambda clock: nullcontext(lambda: MyStore(file, clock=clock)))

The factory gets the clock and returns a context manager, plain or async, around one fresh, empty
database; what it yields makes a new, unopened store on that database each time it is called. The
suite opens and closes what it makes. A store whose capabilities say it is not `shared` is made
once per case. `pytest.register_assert_rewrite("windlass.testing.contract")` before the import
makes failures tell what they compared. What a store cannot do is a declared capability, never a
skipped case.
"""

from __future__ import annotations

from windlass.testing.contract import (
    admin,
    batches,
    blockers,
    chain_keys,
    chain_operators,
    chains,
    chains_at_once,
    claim,
    clock_jumps,
    concurrency,
    crash,
    enqueue,
    expire,
    figures,
    history,
    keys,
    leases,
    life,
    notes,
    pages_counts,
    pause,
    queues,
    reap,
    roster,
    schedules,
    schedules_at_once,
    schedules_fire,
    server,
    settle,
    strict,
    tenants,
    transactions,
    webhooks,
)
from windlass.testing.contract.case import Case, StoreFactory, run
from windlass.testing.contract.kit import Kit

__all__ = ["Case", "Kit", "StoreFactory", "cases", "run"]

_GROUPS = (
    life,
    enqueue,
    keys,
    queues,
    strict,
    claim,
    settle,
    leases,
    reap,
    expire,
    clock_jumps,
    batches,
    notes,
    admin,
    pages_counts,
    history,
    pause,
    roster,
    schedules,
    schedules_fire,
    crash,
    concurrency,
    schedules_at_once,
    transactions,
    tenants,
    chains,
    blockers,
    chain_keys,
    chain_operators,
    chains_at_once,
    webhooks,
    server,
    figures,
)


def cases() -> list[Case]:
    """Every case, group by group; `str(case)` is its unique name."""
    return [case for group in _GROUPS for case in group.CASES]
