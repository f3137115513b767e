"""What the ledger knows of chains: which jobs each had, what made them, and who waits for what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from windlass.model import payload as payloads
from windlass.model.chain import ChainState
from windlass.model.job import JobState
from windlass.store.chaining import Chaining, Started
from windlass.store.records import (
    Blocker,
    BlockerState,
    ChainRow,
    Complete,
    Lease,
    NewChain,
    NewJob,
    Outcome,
    Row,
)
from windlass.stores.memory_book import MemoryBook

Delivery = tuple[int, int]
"""A job, and the number of a delivery."""
Violate = Callable[[str, str], None]


class Grant(Protocol):
    """A delivery, as far as it must be known here."""

    job_id: int
    number: int
    how: str
    outcome: Outcome | None


class ChainLedger:
    """Everything that is remembered of chains in one run."""

    def __init__(self, violate: Violate) -> None:
        self._violate = violate
        self.steps: dict[int, list[int]] = {}
        """The jobs of each chain that was ever there, in order."""
        self._went_on: Counter[Delivery] = Counter()
        """Next jobs that were stored, by the delivery from which they come."""
        self._started: Counter[tuple[int, int, int]] = Counter()
        """Chains that were started, by their delivery and place."""
        self._ended: set[int] = set()
        """Chains that have ended once."""

    # ── what plans pick from ──

    def pick(self, at: float) -> int:
        """One of the chains that were ever there, or an id that none has."""
        ids = list(self.steps)
        return ids[int(at * len(ids)) % len(ids)] if ids else 999_999

    def pick_all(self, at: list[float]) -> list[int]:
        return [self.pick(one) for one in at] if self.steps else []

    # ── what the store does ──

    def begun(self, chain_id: int, row: Row) -> None:
        if chain_id in self.steps and self.steps[chain_id] != [row.id]:
            self._violate("I7", f"chain {chain_id} began twice")
        self.steps[chain_id] = [row.id]

    def went_on(self, row: Row) -> None:
        assert row.chain is not None
        steps = self.steps[row.chain]
        if row.step != len(steps):
            self._violate(
                "I7", f"chain {row.chain} went on with step {row.step} after {len(steps)} jobs"
            )
        steps.append(row.id)

    def stored(self, value: Mapping[str, Any]) -> None:
        """A new job; its payload says what it comes from."""
        if "went_on_from" in value:
            job_id, number = value["went_on_from"]
            self._went_on[job_id, number] += 1
        if "started_by" in value:
            job_id, number, place = value["started_by"]
            self._started[job_id, number, place] += 1

    def opened(self, chain: ChainRow, book: MemoryBook) -> None:
        if chain.key is None:
            return
        same = [
            it.id
            for it in book.chains.values()
            if (it.tenant, it.key) == (chain.tenant, chain.key) and it.state is ChainState.OPEN
        ]
        if len(same) > 1:
            self._violate("I8", f"key {chain.key} is held by chains {same}")

    def ended(self, chain: ChainRow) -> None:
        self._ended.add(chain.id)

    def granted(self, lease: Lease, row: Row, book: MemoryBook) -> None:
        """A job is given to a worker: is it its chain's turn, and are its blockers met?"""
        if row.chain is not None and self.steps[row.chain][-1] != row.id:
            self._violate("I7", f"job {row.id} was given out, and chain {row.chain} has gone on")
        for it in book.blockers(row.id):
            chain = book.chain(it.chain)
            if chain is None or chain.state is ChainState.COMPLETED:
                continue
            if row.on_blocker_failure != "run" or chain.id not in self._ended:
                self._violate(
                    "I7",
                    f"job {row.id} was given out while chain {chain.id}, which it waits for, is"
                    f" {chain.state}",
                )

    # ── what must hold ──

    def check_waiting(self, book: MemoryBook) -> None:
        """Whether each job that named chains stands as they do."""
        for row in book.rows.values():
            if not row.blockers_total or row.state.is_final:
                continue
            named = book.blockers(row.id)
            waits = {it.chain for it in named if it.state is not BlockerState.MET}
            if row.blockers_open != len(waits) or (row.state is JobState.BLOCKED) != bool(waits):
                self._violate(
                    "I7",
                    f"job {row.id} is {row.state} and counts {row.blockers_open} chains to wait"
                    f" for, of {len(waits)}",
                )
            for it in named:
                self._check_blocker(row, it, book.chain(it.chain))

    def _check_blocker(self, row: Row, it: Blocker, chain: ChainRow | None) -> None:
        is_waited_for = it.state is BlockerState.OPEN and row.on_blocker_failure != "wait"
        if is_waited_for and (chain is None or chain.state is not ChainState.OPEN):
            self._violate("I7", f"job {row.id} waits for chain {it.chain}, which is not open")

    def check(self, grants: Mapping[Delivery, Grant], starts: Mapping[Delivery, int]) -> None:
        """At the end: everything that a completed delivery asked for is there once, and nothing
        else. `starts` says how many chains without keys each delivery asked for."""
        for delivery, grant in grants.items():
            outcome = grant.outcome if isinstance(grant.outcome, Complete) else None
            goes_on = outcome is not None and outcome.next is not None
            if self._went_on[delivery] != goes_on:
                self._violate(
                    "I7",
                    f"delivery {delivery[1]} of job {delivery[0]} ended by {grant.how}, and its"
                    f" chain went on {self._went_on[delivery]} times",
                )
            asked = starts.get(delivery, 0) if outcome is not None else 0
            found = [self._started[(*delivery, place)] for place in range(asked)]
            if found != [1] * asked:
                self._violate(
                    "I7", f"delivery {delivery[1]} of job {delivery[0]} started {found} chains"
                )
        for job_id, number, place in self._started:
            by = grants[job_id, number].outcome
            if not isinstance(by, Complete) or place >= len(by.starts):
                self._violate(
                    "I7", f"delivery {number} of job {job_id} started a chain, and did not complete"
                )

    def check_ends(self, book: MemoryBook) -> None:
        """After the drain: every chain has ended, as its last job did."""
        for chain in book.chains.values():
            last = self.steps[chain.id][-1]
            row = book.rows.get(last) or book.history.get(last)
            if not chain.state.is_final:
                self._violate("I7", f"chain {chain.id} is open after the drain")
            elif chain.length != len(self.steps[chain.id]):
                self._violate(
                    "I7",
                    f"chain {chain.id} counts {chain.length} jobs of {len(self.steps[chain.id])}",
                )
            elif row is not None and row.state.value != chain.state.value:
                self._violate("I7", f"chain {chain.id} is {chain.state}, its last job {row.state}")


class LedgerChaining(Chaining):
    """The rules of chains, and what they do is noted."""

    book: MemoryBook

    def __init__(
        self,
        book: MemoryBook,
        now: int,
        chains: ChainLedger,
        stored: Callable[[NewJob, Row, bool], None],
    ) -> None:
        super().__init__(book, now)
        self._chains = chains
        self._stored = stored

    def start(self, new: NewChain, *, job_id: int = 0, ended: int | None = None) -> Started:
        started = super().start(new, job_id=job_id, ended=ended)
        if not started.is_duplicate:
            row = self.book.current(started.chain.id)
            assert row is not None
            self._chains.begun(started.chain.id, row)
            self._stored(new.job, row, new.key is not None)
            self._chains.opened(started.chain, self.book)
        return started

    def _go_on(self, row: Row, new: NewJob, *, is_cancelled: bool) -> None:
        if row.chain is None:
            self._chains.begun(row.id, row)
        super()._go_on(row, new, is_cancelled=is_cancelled)

    def _add_next(self, chain: int, step: int, new: NewJob, *, is_cancelled: bool = False) -> None:
        super()._add_next(chain, step, new, is_cancelled=is_cancelled)
        row = self.book.current(chain)
        assert row is not None
        self._chains.went_on(row)
        self._stored(new, row, False)

    def _end_chain(self, row: Row, token: int | None = None) -> ChainRow | None:
        chain = super()._end_chain(row, token)
        if chain is not None:
            self._chains.ended(chain)
        return chain

    def _open(self, chain: ChainRow) -> ChainRow:
        opened = super()._open(chain)
        self._chains.opened(opened, self.book)
        return opened


def value_of(payload: str) -> dict[str, Any]:
    """What a payload says of its job; a batch says it in its first item."""
    value = payloads.decode(payload)
    found: dict[str, Any] = value[0] if isinstance(value, list) else value
    return found
