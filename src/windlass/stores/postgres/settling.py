"""Writing outcomes, also of jobs whose rows an open transaction has locked.

Such a row is waited for a moment. If it stays locked its outcome is answered as busy, and the
caller asks again. From then on the job is settled with `careful`, which skips locked rows, and is
not waited for: so it holds up no other outcome.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from windlass.errors import StoreBusyError
from windlass.store.records import Complete, Lease, Outcome, Settled, Verdict
from windlass.stores.postgres.calls import Calls
from windlass.stores.postgres.known_workers import KnownWorkers
from windlass.stores.postgres.settlements import Settlements, decode_answers, is_linked
from windlass.stores.postgres.wire import array

_PAUSES = (0.01, 0.02, 0.04, 0.08)
"""Seconds between the tries to settle jobs whose rows are locked."""

MOST_LOCKED = 10_000
"""Locked jobs that are remembered. One beyond them is waited for as if it were met anew."""

Settlement = tuple[Lease, Outcome]


class Settling:
    """Settles deliveries, and tells `workers` which of them are over."""

    def __init__(self, calls: Calls, workers: KnownWorkers) -> None:
        self._calls = calls
        self._workers = workers
        self._locked: dict[int, None] = {}
        """Jobs whose rows stayed locked, in the order in which they were met."""

    async def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        call = self._calls.threads.submit(self.settle_now, settlements)
        return await asyncio.wrap_future(call)

    def settle_now(self, settlements: Sequence[Settlement]) -> list[Settled]:
        """In a thread."""
        ids = {lease.job_id for lease, _ in settlements}
        answers = self._settle_once(settlements, careful=not ids.isdisjoint(self._locked))
        busy = _busy(answers)
        for pause in _PAUSES:
            if all(settlements[place][0].job_id in self._locked for place in busy):
                break
            time.sleep(pause)
            again = self._settle_once([settlements[place] for place in busy], careful=True)
            for place, answer in zip(busy, again, strict=True):
                answers[place] = answer
            busy = _busy(answers)
        locked = {settlements[place][0].job_id for place in busy}
        kept = [job_id for job_id in self._locked if job_id not in ids]
        self._locked = dict.fromkeys([*kept, *locked][-MOST_LOCKED:])
        self._workers.leave_batches(
            lease
            for (lease, _), answer in zip(settlements, answers, strict=True)
            if answer.verdict not in (Verdict.BUSY, Verdict.REFUSED)
        )
        return answers

    async def expire(self, leases: Sequence[Lease], max_resets: int) -> list[Settled]:
        """Take deliveries back. A row that an open transaction has locked is answered as busy."""
        [text] = await self._calls.row(
            "SELECT {schema}._expire(%s::bigint[], %s::bigint[], %s::bigint[], %s::integer, %s)",
            array([lease.job_id for lease in leases]),
            array([lease.token for lease in leases]),
            array([lease.chain for lease in leases]),
            max_resets,
            self._calls.now,
        )
        answers = decode_answers(text)
        self._workers.leave_batches(
            lease
            for lease, answer in zip(leases, answers, strict=True)
            if answer.verdict is not Verdict.BUSY
        )
        return answers

    def _settle_once(self, settlements: Sequence[Settlement], *, careful: bool) -> list[Settled]:
        if _need_order(settlements):
            return [
                answer
                for settlement in settlements
                for answer in self._settle_once([settlement], careful=careful)
            ]
        prepared = Settlements(settlements)
        statement = f"SELECT {prepared.calls('{schema}')}"

        def settle(careful: bool) -> list[Settled]:
            values = prepared.values(careful, self._calls.now)
            texts = self._calls.threads.call(
                lambda it: self._calls.fetch_row(it, statement, *values)
            )
            return prepared.answers(texts)

        try:
            return settle(careful)
        except StoreBusyError:
            return settle(True)


def _need_order(settlements: Sequence[Settlement]) -> bool:
    """Whether two deliveries of one job are settled together, and chains go on meanwhile."""
    if len({lease.job_id for lease, _ in settlements}) == len(settlements):
        return False
    return any(
        isinstance(outcome, Complete) and is_linked(lease, outcome)
        for lease, outcome in settlements
    )


def _busy(answers: Sequence[Settled]) -> list[int]:
    """The places of outcomes that were not written, because the row is locked."""
    return [place for place, answer in enumerate(answers) if answer.verdict is Verdict.BUSY]
