"""Chains and blockers in the programs: what `machine.py` compares, with the verbs about chains.

What the port leaves to a store beyond what is said there:

* Jobs that come next and chains that start with several completions of one call get their ids in
  any order among each other. So only one delivery of a call goes on or starts chains.
* In a transaction it is open whether a job that comes next has its id before jobs that are added
  after the completion, so none is.
"""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.machines.machine import (
    EVERYTHING,
    NEW,
    NO_JOB,
    NOWHERE,
    OUTCOME,
    SEEN,
    SOME,
    WHICH,
    Machine,
    New,
    _maybe,
)
from windlass.model.chain import ChainState
from windlass.store.port import Joined
from windlass.store.records import (
    COMPLETE,
    ChainFilter,
    Complete,
    Lease,
    NewChain,
    NewJob,
    Outcome,
)

KEYS = ("ck", "cl")
CHOICE = _maybe(("run", "wait"), 2)
BLOCKERS: st.SearchStrategy[list[int]] = st.one_of(st.just([]), st.lists(WHICH, max_size=3))
"""Places of chains, counted from the last one and around; NOWHERE is none."""
STATES = st.lists(st.sampled_from(list(ChainState)), min_size=1, max_size=3, unique=True).map(tuple)


class Link(msgspec.Struct, frozen=True):
    """A job in a chain, or one that waits for chains. `children` are places of chains that start
    with the same completion: 0 is the first."""

    new: New
    blockers: list[int]
    choice: str | None
    children: list[int] = []
    key: str | None = None
    window: float = 0.0


LINK = st.builds(Link, new=NEW, blockers=BLOCKERS, choice=CHOICE)
START = st.builds(
    Link,
    new=NEW,
    blockers=BLOCKERS,
    choice=CHOICE,
    key=_maybe(KEYS, 2),
    window=st.sampled_from((0.0, 0.0, 20.0)),
)
CHILD = st.builds(
    Link,
    new=NEW,
    blockers=st.one_of(st.just([]), st.just([]), BLOCKERS),
    choice=CHOICE,
    children=st.lists(st.integers(0, 1), max_size=1),
    key=_maybe(KEYS, 4),
)
NEXT = st.builds(
    Link,
    new=NEW,
    blockers=st.one_of(st.just([]), st.just([]), BLOCKERS),
    choice=CHOICE,
    children=st.lists(st.integers(0, 2), max_size=3),
)
FAN = st.tuples(st.one_of(st.none(), NEXT, NEXT), st.lists(CHILD, max_size=3))
"""The next job, if any, and the chains that start."""


class ChainMachine(Machine):
    """With chains."""

    _inside: tuple[Link, ...] = ()

    def chain_id(self, place: int, side: int) -> int:
        is_one = self.chains and place < NOWHERE
        return self.chains[-1 - place % len(self.chains)][side] if is_one else NO_JOB

    def linked(self, link: Link, side: int, before: int = 0) -> NewJob:
        """The job; `before` chains start before it, with the same completion."""
        started = [-1 - child for child in link.children if child < before]
        blockers = (*started, *(self.chain_id(place, side) for place in link.blockers))
        return msgspec.structs.replace(
            link.new.at(self.clock.now()), blockers=blockers, on_blocker_failure=link.choice
        )

    def begun(self, link: Link, side: int, before: int = 0, tenant: str | None = None) -> NewChain:
        job = msgspec.structs.replace(self.linked(link, side, before), key=None, key_mode="replace")
        if tenant is not None:
            job.tenant = tenant
        return NewChain(job=job, key=link.key, key_window=round(link.window * 1e6))

    def fanned(self, fan: tuple[Link | None, list[Link]], lease: Lease, side: int) -> Complete:
        """How a delivery completes that goes on and starts chains, in its own tenant."""
        after, starts = fan
        new = tuple(self.begun(it, side, n, lease.tenant) for n, it in enumerate(starts))
        following = None if after is None else self.linked(after, side, len(starts))
        if following is not None:
            following.tenant, following.key = lease.tenant, None
        return Complete('"fanned"', next=following, starts=new)

    def inside(self, joined: Joined, side: int) -> Any:
        if not self._inside:
            return []
        waiting, *starts = self._inside
        return [
            joined.start_chains([self.begun(start, side) for start in starts]),
            joined.enqueue([self.linked(waiting, side)]),
        ]

    # ── adding ──

    @rule(links=st.lists(LINK, min_size=1, max_size=3))
    def enqueue_waiting(self, links: list[Link]) -> None:
        self.ask_sides("enqueue", lambda side: [[self.linked(link, side) for link in links]])

    @rule(starts=st.lists(START, max_size=3))
    def start_chains(self, starts: list[Link]) -> None:
        self.ask_sides("start_chains", lambda side: [[self.begun(it, side) for it in starts]])

    @rule(
        tenant=st.sampled_from(("", "", "acme")),
        starts=st.lists(START, min_size=1, max_size=2),
        waiting=st.lists(LINK, min_size=1, max_size=3),
    )
    def fan_in(self, tenant: str, starts: list[Link], waiting: list[Link]) -> None:
        """Jobs that wait for the same chains of their own tenant."""
        replace = msgspec.structs.replace
        self.ask_sides(
            "start_chains",
            lambda side: [[self.begun(replace(it, key=None), side, 0, tenant) for it in starts]],
        )
        named = list(range(min(len(starts), len(self.chains))))

        def joined(link: Link, side: int) -> NewJob:
            return replace(self.linked(replace(link, blockers=named), side), tenant=tenant)

        self.ask_sides("enqueue", lambda side: [[joined(link, side) for link in waiting]])

    @rule(which=SOME)
    def cancel_and_retry_the_last_chains(self, which: list[int]) -> None:
        """Whatever their tenants."""
        last = [place % 3 for place in which]
        self.change_chains("cancel_chains", last, None)
        self.change_chains("retry_chains", last, None)

    def ask_sides(self, verb: str, arguments: Any, *, is_ordered: bool = True) -> None:
        """A verb whose arguments have ids in them."""
        answers = [
            self.answer(getattr(store, verb)(*arguments(side)))
            for side, store in enumerate((self.model, self.store))
        ]
        if is_ordered:
            self.check(verb, *answers)
        else:
            self.check_unordered(verb, *answers)

    # ── completing ──

    @precondition(lambda self: self.held)
    @rule(
        which=SOME, others=st.lists(OUTCOME, min_size=4, max_size=4), fan=FAN, at=st.integers(0, 3)
    )
    def settle_going_on(
        self,
        which: list[int],
        others: list[Outcome],
        fan: tuple[Link | None, list[Link]],
        at: int,
    ) -> None:
        pairs = self.deliveries(which)
        answers = []
        for side, store in enumerate((self.model, self.store)):
            settlements: list[tuple[Lease, Outcome]] = []
            for place, pair in enumerate(pairs):
                is_going_on = place == min(at, len(pairs) - 1)
                outcome = self.fanned(fan, pair[side], side) if is_going_on else others[place]
                settlements.append((pair[side], outcome))
            answers.append(self.answer(store.settle(settlements)))
        self.check("settle", *answers)

    @precondition(lambda self: self.held)
    @rule(fan=FAN)
    def go_on_with_the_last(self, fan: tuple[Link | None, list[Link]]) -> None:
        self.settle_going_on([0], [COMPLETE] * 4, fan, 0)

    @precondition(lambda self: self.held)
    @rule(
        which=WHICH,
        waiting=LINK,
        starts=st.lists(START, max_size=2),
        fan=st.one_of(st.none(), FAN),
        how=st.sampled_from(("commits", "commits", "rolls back")),
    )
    def transaction_of_chains(
        self,
        which: int,
        waiting: Link,
        starts: list[Link],
        fan: tuple[Link | None, list[Link]] | None,
        how: str,
    ) -> None:
        self._inside = (waiting, *starts)
        try:
            for pair in self.deliveries([which]):
                answers = []
                for side in (0, 1):
                    outcome = None if fan is None else self.fanned(fan, pair[side], side)
                    answers.append(self.handle(side, pair[side], [], outcome, [], how))
                self.check("transaction", *answers)
        finally:
            self._inside = ()

    # ── operators ──

    @rule(which=WHICH, then=st.one_of(st.none(), NEXT), tenant=SEEN)
    def complete_chain(self, which: int, then: Link | None, tenant: str | None) -> None:
        inherits = ("priority", "meta", "keep")

        def arguments(side: int) -> list[Any]:
            if then is None:
                return [self.chain_id(which, side), Complete('{"by":"hand"}'), (), tenant]
            following = msgspec.structs.replace(self.linked(then, side), key=None)
            return [self.chain_id(which, side), Complete(next=following), inherits, tenant]

        self.ask_sides("complete_chain", arguments)

    @rule(
        verb=st.sampled_from(("cancel_chains", "retry_chains", "retry_chains")),
        which=SOME,
        tenant=SEEN,
    )
    def change_chains(self, verb: str, which: list[int], tenant: str | None) -> None:
        self.ask_sides(verb, lambda side: [self.chain_ids(which, side), tenant])

    @rule(which=SOME, cascade=st.booleans(), tenant=SEEN)
    def delete_chains(self, which: list[int], cascade: bool, tenant: str | None) -> None:
        self.ask_sides(
            "delete_chains",
            lambda side: [self.chain_ids(which, side), cascade, tenant],
            is_ordered=False,
        )

    def chain_ids(self, which: list[int], side: int) -> list[int]:
        return [self.chain_id(place, side) for place in which]

    # ── looking ──

    @rule(which=WHICH, job=WHICH, tenant=SEEN)
    def look_at_a_chain(self, which: int, job: int, tenant: str | None) -> None:
        for verb in ("get_chain", "chain_jobs", "blocked_jobs"):
            self.ask_sides(verb, lambda side: [self.chain_id(which, side), tenant])
        self.ask_sides("blockers", lambda side: [self.job_id(job, side), tenant])

    @rule(
        states=st.one_of(st.none(), STATES),
        task=_maybe(("a", "b")),
        after=WHICH,
        limit=st.sampled_from((1, 2, EVERYTHING)),
        tenant=SEEN,
    )
    def find_chains(
        self,
        states: tuple[ChainState, ...] | None,
        task: str | None,
        after: int,
        limit: int,
        tenant: str | None,
    ) -> None:
        def arguments(side: int) -> list[Any]:
            start = self.chain_id(after, side) if after < NOWHERE else None
            return [ChainFilter(states, task, after=start, limit=limit, tenant=tenant)]

        self.ask_sides("find_chains", arguments)
