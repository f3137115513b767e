"""Jobs whose rows stay locked are remembered, but not without bound."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.unit.test_marks import lease
from windlass.store.records import COMPLETE, Settled, Verdict
from windlass.stores.postgres import settling
from windlass.stores.postgres.calls import Calls
from windlass.stores.postgres.known_workers import KnownWorkers
from windlass.stores.postgres.settling import Settlement, Settling
from windlass.stores.postgres_connections.address import ServerAddress
from windlass.testing import FakeClock


class Meeting(Settling):
    """Meets the rows of `busy` locked; `asked` is how it asked, each time."""

    def __init__(self) -> None:
        clock = FakeClock()
        super().__init__(Calls(ServerAddress(""), None, '"s"', clock), KnownWorkers(clock))
        self.busy: set[int] = set()
        self.asked: list[tuple[list[int], bool]] = []

    def _settle_once(self, settlements: Sequence[Settlement], *, careful: bool) -> list[Settled]:
        ids = [lease.job_id for lease, _ in settlements]
        self.asked.append((ids, careful))
        return [Settled(Verdict.BUSY if id_ in self.busy else Verdict.APPLIED) for id_ in ids]

    def settle_jobs(self, *ids: int) -> list[Verdict]:
        self.asked.clear()
        answers = self.settle_now([(lease(job_id), COMPLETE) for job_id in ids])
        return [answer.verdict for answer in answers]


@pytest.fixture(autouse=True)
def one_short_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settling, "_PAUSES", (0.0,))


def test_a_job_that_stays_locked_is_waited_for_once() -> None:
    met = Meeting()
    met.busy = {2}
    assert met.settle_jobs(1, 2) == [Verdict.APPLIED, Verdict.BUSY]
    assert met.asked == [([1, 2], False), ([2], True)]
    assert met.settle_jobs(2, 3) == [Verdict.BUSY, Verdict.APPLIED]
    assert met.asked == [([2, 3], True)]
    met.busy = set()
    assert met.settle_jobs(2) == [Verdict.APPLIED]
    assert met.settle_jobs(2) == [Verdict.APPLIED]
    assert met.asked == [([2], False)]


def test_of_many_locked_jobs_the_first_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settling, "MOST_LOCKED", 2)
    met = Meeting()
    met.busy = {1, 2, 3}
    for job_id in (1, 2, 3):
        met.settle_jobs(job_id)
    assert list(met._locked) == [2, 3]
    assert met.settle_jobs(1) == [Verdict.BUSY]
    assert met.asked == [([1], False), ([1], True)]
