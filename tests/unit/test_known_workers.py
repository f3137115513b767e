"""What a store knows of its workers is bounded, also where they vanish without retiring."""

from __future__ import annotations

import msgspec
import pytest

from tests.unit.test_marks import lease
from windlass.store.records import Lease
from windlass.stores.postgres import known_workers
from windlass.stores.postgres.known_workers import UNRESOLVED_FOR, KnownWorkers
from windlass.testing import FakeClock

MOST = 5


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_workers, "MOST_WORKERS", MOST)


def taken(worker: str, base: int, *ids: int) -> list[Lease]:
    """Leases of one batch."""
    return [
        msgspec.structs.replace(lease(job_id), worker=worker, token=base + job_id) for job_id in ids
    ]


def claim_by_others(workers: KnownWorkers, number: int = 10 * MOST) -> None:
    """Each under a name of its own, as a server may do it; none retires."""
    for n in range(number):
        name = f"other {n}"
        workers.claiming(name)
        workers.begin_batch(name, 1_000_000 * (n + 1), taken(name, 1_000_000 * (n + 1), 1, 2))


def test_the_worker_that_claimed_longest_ago_is_forgotten_first() -> None:
    workers = KnownWorkers(FakeClock())
    first, second = workers.claiming("first"), workers.claiming("second")
    for n in range(MOST - 2):
        workers.claiming(f"other {n}")
    assert workers.claiming("first") is first
    workers.claiming("one too many")
    assert len(workers) == MOST
    assert workers.claiming("first") is first
    assert workers.claiming("second") is not second


def test_names_that_are_used_once_leave_nothing() -> None:
    workers = KnownWorkers(FakeClock())
    claim_by_others(workers)
    assert len(workers) == MOST
    left = [worker.batches for worker in workers._workers.values()]
    assert [len(batches) for batches in left] == [1] * MOST
    assert workers.ended_batches() == []


def test_a_worker_with_a_lost_answer_is_kept_while_it_may_ask() -> None:
    clock = FakeClock()
    workers = KnownWorkers(clock)
    workers.add_unresolved("w", 7)
    claim_by_others(workers)
    assert workers.claiming("w").unresolved == {7}
    clock.advance(UNRESOLVED_FOR)
    claim_by_others(workers)
    assert workers.claiming("w").unresolved == {7}  # it went on asking
    clock.advance(UNRESOLVED_FOR + 1)
    claim_by_others(workers)
    assert len(workers) == MOST
    assert workers.claiming("w").unresolved == set()


def test_lost_answers_of_many_workers_are_all_kept_and_all_go() -> None:
    clock = FakeClock()
    workers = KnownWorkers(clock)
    names = [f"lost {n}" for n in range(2 * MOST)]
    for n, name in enumerate(names):
        workers.add_unresolved(name, n)
    assert len(workers) == 2 * MOST
    clock.advance(UNRESOLVED_FOR + 1)
    workers.claiming("w")
    assert len(workers) == MOST


def test_a_worker_whose_lost_claim_is_resolved_can_be_forgotten() -> None:
    workers = KnownWorkers(FakeClock())
    workers.add_unresolved("w", 7)
    workers.resolve("w", 7, taken("w", 7, 1))
    worker = workers.claiming("w")
    assert (worker.unresolved, worker.batches) == (set(), {7: {1}})
    claim_by_others(workers)
    assert workers.claiming("w") is not worker


def test_a_batch_ends_with_its_last_delivery() -> None:
    workers = KnownWorkers(FakeClock())
    first, second = taken("w", 100, 1, 2)
    workers.begin_batch("w", 100, [first, second])
    workers.leave_batches([first])
    assert workers.ended_batches() == []
    workers.leave_batches([second])
    assert workers.ended_batches() == [100]
    assert workers.claiming("w").batches == {}
    workers.forget_batches([100])
    assert workers.ended_batches() == []


def test_the_last_delivery_of_a_forgotten_worker_changes_nothing() -> None:
    workers = KnownWorkers(FakeClock())
    leases = taken("w", 100, 1, 2)
    workers.begin_batch("w", 100, leases)
    claim_by_others(workers)
    workers.leave_batches(leases)
    assert workers.ended_batches() == []


def test_a_worker_that_settles_nothing_has_its_first_batches_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(known_workers, "MOST_BATCHES", 2)
    workers = KnownWorkers(FakeClock())
    for base in (100, 200, 300):
        workers.begin_batch("w", base, taken("w", base, 1))
    assert list(workers.claiming("w").batches) == [200, 300]


def test_a_worker_that_retires_leaves_nothing() -> None:
    workers = KnownWorkers(FakeClock())
    leases = taken("w", 100, 1)
    workers.begin_batch("w", 100, leases)
    workers.leave_batches(leases)
    workers.add_unresolved("w", 7)
    workers.begin_batch("other", 200, taken("other", 200, 1))
    workers.leave_batches(taken("other", 200, 1))
    workers.forget("w")
    assert workers.ended_batches() == [200]
    assert len(workers) == 1
