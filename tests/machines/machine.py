"""One program of verbs on the model and on another store, with one clock: the answers are the same.

The model is the memory store, whose rules are the rules. After each verb the answers are compared,
then every job with every field, the workers with the ends of their leases, and in turn: counts,
what is paused, schedules, and when the next job is due.

What the port leaves to a store is compared as follows, and nothing else is left out:

* Tokens are a store's own. A delivery is told by its job and its number.
* Ids rise in the order of adding, but a store may leave some out. A job is told by its place among
  all jobs that were ever seen.
* A payload is a value; how its text is spaced is open.
* A claim that has not looked behind a head that its worker may not run (another task, paused, a
  forbidden flag) has passed that queue over. It may do so unless it was asked to look
  (`past_heads`) and came short of its limit. But for such queues a claim gives what the model
  gives, in its order.
* Which jobs one `reap`, `prune` or `delete_failed` takes first is open; so each is called until
  nothing is left, and what all calls did is compared.
* A claim need not renew a worker's lease that was renewed a moment ago, so a living worker renews
  its lease before it claims.
* A clock that was set is noticed by one `reap` and counts for the next, so two follow, as they do
  in every worker. It is set back by more than any lease is long: by less, a store cannot tell which
  leases began before, and may let them end later by as much.
* The answers of operators' verbs have no order, nor have those of a reap.
* Which chain a job's error names is open where several that it waited for end in one call.
* Of a refusal its kind and the jobs or chains it is about are compared, not its words.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections.abc import Awaitable, Iterable, Sequence
from contextlib import ExitStack
from typing import Any, cast

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.machines.bindings import Fresh
from windlass.errors import (
    BlockerReferenceError,
    ChainClosedError,
    ChainNotFoundError,
    LeaseLostError,
    ValidationError,
)
from windlass.model.chain import Chain
from windlass.model.cron import Schedule
from windlass.model.job import Job, JobState
from windlass.store.port import Joined
from windlass.store.records import (
    CANCEL,
    COMPLETE,
    RELEASE,
    ChainFilter,
    ClaimRequest,
    Complete,
    Fail,
    JobFilter,
    Lease,
    NewJob,
    Note,
    Outcome,
    Row,
    Settled,
    decode_blockers,
)
from windlass.store.rules import BLOCKER_FAILED
from windlass.store.server import ServerStore
from windlass.stores.memory import MemoryStore
from windlass.testing.clock import FakeClock

EVERYTHING = 10_000
NO_JOB = 10**12
LEASE = 30.0
_BLOCKER_FAILED = BLOCKER_FAILED.format(r"\d+", "(failed|was cancelled)")

TASKS = ("a", "b", "c")
WORKERS = ("v", "w")
QUEUES = ("q", "r")
KEYS = ("k", "l")
TENANTS = ("", "acme")
PAYLOADS = ("{}", '{"n":1}', "[1,2.5]", "[]", "[ 7 ]", '"text"', "null", '{"é":"\\n\\"ü"}')


def _maybe(values: Iterable[Any], nones: int = 1) -> st.SearchStrategy[Any]:
    return st.sampled_from([None] * nones + list(values))


class New(msgspec.Struct, frozen=True):
    """A job to add; its instant counts from the time of the call."""

    job: NewJob
    due_in: float | None

    def at(self, now: int) -> NewJob:
        if self.due_in is None:
            return self.job
        return msgspec.structs.replace(self.job, run_at=now + round(self.due_in * 1e6))


NEW = st.builds(
    New,
    job=st.builds(
        NewJob,
        task=st.sampled_from(TASKS),
        payload=st.sampled_from(PAYLOADS),
        queue=_maybe(QUEUES, 2),
        delay=st.sampled_from((0, 0, 3_000_000)),
        max_attempts=_maybe((1, 3)),
        key=_maybe(KEYS, 2),
        key_mode=st.sampled_from(("replace", "preserve_run_at", "unsafe_dedupe")),
        priority=st.sampled_from((0, 0, -1, 5)),
        flags=_maybe((("x",), ("x", "y"))),
        keep=_maybe((0.0, 20.0)),
        tenant=st.sampled_from(("", "", "acme")),
        is_strict=st.sampled_from((0, 0, 1)),
    ),
    due_in=_maybe((-5.0, 9.0), 3),
)
NEWS = st.lists(NEW, max_size=5)
PLAIN = st.builds(
    lambda new, number: (
        [New(NewJob(new.job.task, new.job.payload, new.job.queue, tenant=new.job.tenant), None)]
        * number
    ),
    NEW,
    st.integers(1, 6),
)
OUTCOME: st.SearchStrategy[Outcome] = st.sampled_from(
    (
        COMPLETE,
        Complete('{"out":1}', keep=15.0),
        Complete('"out"'),
        Fail("broke", delay=2.0),
        Fail("broke"),
        Fail("broke", max_attempts=2, payload="[9]"),
        Fail("poison", final=True),
        RELEASE,
        CANCEL,
    )
)
NOWHERE = 9
WHICH = st.integers(0, NOWHERE)
"""A place, counted from the last one and around: of a delivery, or of a job or of none at all."""
SOME = st.lists(WHICH, max_size=4, unique=True)
WORKER = st.sampled_from(WORKERS)
TENANT = st.sampled_from(TENANTS)
SEEN = _maybe(TENANTS, 2)
"""Whose jobs a caller sees: mostly those of all tenants."""
STATES = st.lists(st.sampled_from(list(JobState)), min_size=1, max_size=3, unique=True).map(tuple)
IDENTIFIER = st.sampled_from(("s", "t"))
SCHEDULE = st.builds(
    Schedule,
    identifier=IDENTIFIER,
    task=st.sampled_from(TASKS),
    pattern=st.sampled_from(("* * * * *", "@daily")),
    queue=_maybe(QUEUES),
    payload=st.sampled_from(({}, {"n": 1})),
)


class Model(MemoryStore):
    """The memory store, which can be told to pass queues over in a claim."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.passed_over: set[tuple[str, str]] = set()

    def _claimable(self, request: ClaimRequest) -> Iterable[Row]:
        return [row for row in super()._claimable(request) if row.place not in self.passed_over]

    def behind_heads(self, request: ClaimRequest) -> set[tuple[str, str]]:
        """Serial queues with a first ready job that this request may not take."""
        able = {row.id for row in super()._claimable(request)}
        heads: dict[tuple[str, str], Row] = {}
        for row in self._rows.values():
            if row.state is JobState.READY and row.place is not None:
                first = heads.setdefault(row.place, row)
                heads[row.place] = min(first, row, key=lambda each: each.order)
        return {place for place, head in heads.items() if head.id not in able}

    def is_alive(self, worker: str) -> bool:
        return self._workers.get(worker, 0) > self._ticks()


class Stop(Exception):
    """What a handler raises to roll its transaction back."""


class Refused(msgspec.Struct, frozen=True):
    """How a verb refused, and the jobs or chains that it named."""

    kind: str
    about: list[int]


def _ids(chains: Sequence[Chain[Any]]) -> list[int]:
    return [chain.id for chain in chains]


class Machine(RuleBasedStateMachine):
    """Both stores, asked the same things."""

    fresh: Fresh

    def __init__(self) -> None:
        super().__init__()
        self._stack = ExitStack()
        self._runner = self._stack.enter_context(asyncio.Runner())
        self.clock = FakeClock()
        self.model = Model(self.clock)
        self.store = self._stack.enter_context(self.fresh(self.clock))
        self.run(self.store.open())
        self._stack.callback(lambda: self.run(self.store.close()))
        self.lines = [self.model.lifeline(), self.store.lifeline()]
        self._stack.callback(self.lines[1].close)
        self.ids: list[tuple[int, int]] = []
        """Of every job seen: its id in the model, and its id in the store, in the order of both."""
        self.held: list[tuple[Lease, Lease]] = []
        """Every delivery there was, in the model and in the store."""
        self.chains: list[tuple[int, int]] = []
        """Of every chain seen its id in the model and in the store."""
        self.floors: dict[tuple[str, str], int] = {}
        self._looks = itertools.cycle(("next_due", "counts", "schedules", "paused"))
        self._tenants = itertools.cycle((None, *TENANTS))

    def teardown(self) -> None:
        self._stack.close()

    def run(self, work: Awaitable[Any]) -> Any:
        async def wait() -> Any:
            return await work

        return self._runner.run(wait())

    # ── asking both ──

    def ask(self, verb: str, *arguments: Any, **options: Any) -> tuple[Any, Any]:
        """The answers of the model and of the store."""
        expected, seen = [
            self.answer(getattr(store, verb)(*arguments, **options))
            for store in (self.model, self.store)
        ]
        return expected, seen

    def ask_same(self, verb: str, *arguments: Any, **options: Any) -> Any:
        expected, seen = self.ask(verb, *arguments, **options)
        self.check(verb, expected, seen)
        return expected

    def check(self, what: str, expected: Any, seen: Any) -> None:
        self.look()
        assert self.told(seen, 1) == self.told(expected, 0), what

    def ask_about(self, which: Sequence[int], verb: str, *arguments: Any, **options: Any) -> None:
        """An operator's verb about some jobs."""
        answers = []
        for side, store in enumerate((self.model, self.store)):
            ids = [self.job_id(place, side) for place in which]
            answers.append(self.answer(getattr(store, verb)(ids, *arguments, **options)))
        self.check_unordered(verb, *answers)

    def check_unordered(self, what: str, expected: Any, seen: Any) -> None:
        self.look()
        told = [self.told(expected, 0), self.told(seen, 1)]
        if not any(isinstance(answer, Refused) for answer in told):
            told = [sorted(answer, key=lambda one: one.id) for answer in told]
        assert told[1] == told[0], what

    def answer(self, work: Awaitable[Any]) -> Any:
        """What a verb answers, or how it refuses."""
        try:
            return self.run(work)
        except (ChainNotFoundError, ChainClosedError, BlockerReferenceError) as error:
            about: Any = getattr(error, "ids", None) or getattr(error, "references", ())
            return Refused(type(error).__name__, sorted(about))

    def job_id(self, place: int, side: int) -> int:
        is_one = self.ids and place < NOWHERE
        return self.ids[-1 - place % len(self.ids)][side] if is_one else NO_JOB

    def told(self, answer: Any, side: int) -> Any:
        """An answer with places instead of ids. A job that was rolled back has none."""
        match answer:
            case Job():
                return msgspec.structs.replace(
                    answer,
                    id=self.place(answer.id, side),
                    chain=None if answer.chain is None else self.place(answer.chain, side),
                    last_error=self.words(answer.last_error, side),
                )
            case Chain():
                return msgspec.structs.replace(
                    answer,
                    id=self.place(answer.id, side),
                    job=self.told(answer.job, side),
                    error=self.words(answer.error, side),
                )
            case Settled(reason=str() as reason):
                named = sorted(self.place(int(one), side) for one in re.findall(r"\d+", reason))
                return Settled(answer.verdict, answer.state, str(named))
            case Refused():
                return Refused(answer.kind, [self.place(one, side) for one in answer.about])
            case list():
                return [self.told(each, side) for each in answer]
            case _:
                return answer

    def words(self, text: str | None, side: int) -> str | None:
        """A text that names chains by their ids."""
        if text is None or "chain" not in text:
            return text
        if re.fullmatch(_BLOCKER_FAILED, text):
            return BLOCKER_FAILED
        return re.sub(
            r"(?<=chain )\d+", lambda found: f"#{self.place(int(found.group()), side)}", text
        )

    def place(self, job_id: int, side: int) -> int:
        return next((n for n, pair in enumerate(self.ids) if pair[side] == job_id), -1)

    # ── looking ──

    def look(self) -> None:
        """Compare all jobs, the workers, and one after the other what else can be seen."""
        expected, seen = self.ask("find", JobFilter(limit=EVERYTHING))
        assert len(seen) == len(expected), (expected, seen)
        for ours, theirs in zip(reversed(expected), reversed(seen), strict=True):
            is_new = not self.ids or ours.id > self.ids[-1][0]
            if is_new:
                assert not self.ids or theirs.id > self.ids[-1][1], "ids rise"
                self.ids.append((ours.id, theirs.id))
        self.compare("jobs", expected, seen)
        for verb in ("workers", next(self._looks)):
            arguments = () if verb == "next_due" else (next(self._tenants),)
            expected, seen = self.ask(verb, *arguments)
            assert seen == expected, verb
        expected, seen = self.ask("find_chains", ChainFilter(limit=EVERYTHING))
        self.compare("chains", expected, seen)
        self.chains += [
            pair for pair in zip(_ids(expected), _ids(seen), strict=True) if pair not in self.chains
        ]

    def compare(self, what: str, expected: Sequence[Any], seen: Sequence[Any]) -> None:
        for ours, theirs in zip(self.told(expected, 0), self.told(seen, 1), strict=True):
            assert theirs == ours, f"{what}: {theirs} where the model has {ours}"

    def deliveries(self, which: Sequence[int]) -> list[tuple[Lease, Lease]]:
        """Some deliveries, old ones among them, at most one of each job."""
        chosen = [self.held[-1 - place % len(self.held)] for place in which if self.held]
        return list({pair[0].job_id: pair for pair in chosen}.values())

    @initialize(news=NEWS)
    def start(self, news: list[New]) -> None:
        """Every worker reaps when it starts, and so begins to watch the clock."""
        self.ask_same("reap", EVERYTHING, 5)
        self.enqueue(news)

    # ── producers ──

    @rule(news=NEWS)
    def enqueue(self, news: list[New]) -> None:
        self.ask_same("enqueue", [new.at(self.clock.now()) for new in news])

    @rule(news=PLAIN)
    def enqueue_alike(self, news: list[New]) -> None:
        self.enqueue(news)

    @rule(first=NEW, second=NEW, key=st.sampled_from(KEYS))
    def enqueue_one_key(self, first: New, second: New, key: str) -> None:
        keyed = [
            New(msgspec.structs.replace(new.job, key=key), new.due_in) for new in (first, second)
        ]
        self.enqueue(keyed)

    # ── workers ──

    @rule(
        request=st.builds(
            ClaimRequest,
            worker=WORKER,
            tasks=st.one_of(
                st.none(), st.lists(st.sampled_from(TASKS), min_size=1, unique=True).map(tuple)
            ),
            tenants=st.sampled_from((None, None, ("",), ("acme",), ("acme", ""))),
            limit=st.integers(1, 5),
            suspects=st.integers(0, 3),
            lease=st.just(LEASE),
            longer_leases=st.sampled_from(({}, {"a": 50.0})),
            forbidden_flags=st.sampled_from(((), (), ("y",), ("x", "z"))),
            past_heads=st.booleans(),
        )
    )
    def claim(self, request: ClaimRequest) -> None:
        if self.model.is_alive(request.worker):
            for line in self.lines:
                line.renew(request.worker, LEASE, [])
        taken = self.run(self.store.claim(request))
        behind = self.model.behind_heads(request)
        may_pass_over = len(taken) >= request.limit or not request.past_heads
        self.model.passed_over = (
            behind - {(lease.tenant, lease.queue) for lease in taken} if may_pass_over else set()
        )
        expected = self.run(self.model.claim(request))
        self.look()
        assert self.leases(taken, 1) == self.leases(expected, 0)
        assert self.blockers(taken, 1) == self.blockers(expected, 0)
        self.held += zip(expected, taken, strict=True)

    @rule(worker=WORKER, limit=st.integers(1, 5))
    def claim_any(self, worker: str, limit: int) -> None:
        self.claim(ClaimRequest(worker, TASKS, limit, suspects=limit, past_heads=True))

    def leases(self, found: Sequence[Lease], side: int) -> list[Lease]:
        return [
            msgspec.structs.replace(
                lease,
                token=0,
                job_id=self.place(lease.job_id, side),
                payload=json.dumps(json.loads(lease.payload)),
                chain=None if lease.chain is None else self.place(lease.chain, side),
                blockers=None,
            )
            for lease in found
        ]

    def blockers(self, found: Sequence[Lease], side: int) -> list[Any]:
        return [
            None if lease.blockers is None else self.told(decode_blockers(lease.blockers), side)
            for lease in found
        ]

    @precondition(lambda self: self.held)
    @rule(which=SOME, data=st.lists(OUTCOME, min_size=4, max_size=4))
    def settle(self, which: list[int], data: list[Outcome]) -> None:
        pairs = list(zip(self.deliveries(which), data, strict=False))
        expected, seen = [
            self.run(store.settle([(pair[side], outcome) for pair, outcome in pairs]))
            for side, store in enumerate((self.model, self.store))
        ]
        self.check("settle", expected, seen)

    @precondition(lambda self: self.held)
    @rule(which=SOME, max_resets=st.sampled_from((1, 2, 5)))
    def expire(self, which: list[int], max_resets: int) -> None:
        pairs = self.deliveries(which)
        expected, seen = [
            self.run(store.expire([pair[side] for pair in pairs], max_resets))
            for side, store in enumerate((self.model, self.store))
        ]
        self.check("expire", expected, seen)

    @precondition(lambda self: self.held)
    @rule(outcome=OUTCOME)
    def settle_last(self, outcome: Outcome) -> None:
        self.settle([0], [outcome])

    @precondition(lambda self: self.held)
    @rule(
        which=WHICH,
        note=st.sampled_from(
            (
                Note(progress='[0.5,"half"]'),
                Note(entry='{"line":1}'),
                Note(progress="[1,null]", entry='"last"'),
            )
        ),
    )
    def note(self, which: int, note: Note) -> None:
        for pair in self.deliveries([which]):
            expected, seen = [
                self.run(store.note(pair[side], note))
                for side, store in enumerate((self.model, self.store))
            ]
            self.check("note", expected, seen)

    @rule(worker=WORKER, which=SOME, longer=SOME, lease=st.sampled_from((LEASE, 10.0)))
    def renew(self, worker: str, which: list[int], longer: list[int], lease: float) -> None:
        asked, extended = self.deliveries(which), self.deliveries(longer)
        self.same_renewal(
            [
                line.renew(
                    worker,
                    lease,
                    [pair[side] for pair in asked],
                    [(pair[side], 45.0) for pair in extended],
                )
                for side, line in enumerate(self.lines)
            ]
        )

    @precondition(lambda self: self.held)
    @rule(worker=WORKER, which=WHICH)
    def move(self, worker: str, which: int) -> None:
        for pair in self.deliveries([which]):
            expected, seen = [
                self.run(cast(ServerStore, store).move(pair[side], worker, LEASE))
                for side, store in enumerate((self.model, self.store))
            ]
            self.check("move", expected, seen)

    @precondition(lambda self: self.held)
    @rule(worker=WORKER, which=SOME)
    def ask_for_leases(self, worker: str, which: list[int]) -> None:
        asked = self.deliveries(which)
        self.same_renewal(
            [
                line.check(worker, [pair[side] for pair in asked])
                for side, line in enumerate(self.lines)
            ]
        )

    def same_renewal(self, answers: list[Any]) -> None:
        self.look()
        expected, seen = [
            (
                {self.place(job_id, side): why for job_id, why in answer.lost.items()},
                {self.place(job_id, side) for job_id in answer.cancel},
                answer.locked,
            )
            for side, answer in enumerate(answers)
        ]
        assert seen == expected

    @precondition(lambda self: self.held)
    @rule(
        which=WHICH,
        before=st.lists(NEW, max_size=2),
        outcome=st.one_of(st.none(), OUTCOME),
        after=st.lists(NEW, max_size=2),
        how=st.sampled_from(("commits", "commits", "rolls back", "completes twice")),
    )
    def transaction(
        self, which: int, before: list[New], outcome: Outcome | None, after: list[New], how: str
    ) -> None:
        for pair in self.deliveries([which]):
            expected, seen = [
                self.handle(side, pair[side], before, outcome, after, how) for side in (0, 1)
            ]
            self.check("transaction", expected, seen)

    def inside(self, joined: Joined, side: int) -> Any:
        """What else is done inside a transaction."""

    def handle(
        self,
        side: int,
        lease: Lease,
        before: list[New],
        outcome: Outcome | None,
        after: list[New],
        how: str,
    ) -> list[Any]:
        now = self.clock.now()
        answers: list[Any] = []
        store = (self.model, self.store)[side]
        try:
            with store.transaction(lease) as tx:
                joined = store.joined(tx.connection)
                answers.append(joined.enqueue([new.at(now) for new in before]))
                answers.append(self.inside(joined, side))
                if outcome is not None:
                    tx.complete(outcome)
                    if how == "completes twice":
                        tx.complete(outcome)
                answers.append(joined.enqueue([new.at(now) for new in after]))
                if how == "rolls back":
                    raise Stop
        except (Stop, LeaseLostError, ValidationError, ChainNotFoundError) as error:
            answers.append(type(error))
        return answers

    @rule(worker=WORKER)
    def retire(self, worker: str) -> None:
        self.ask_same("retire", worker)

    # ── upkeep ──

    @rule(limit=st.sampled_from((1, 2, EVERYTHING)), max_resets=st.sampled_from((1, 2, 5)))
    def reap(self, limit: int, max_resets: int) -> None:
        answers = []
        for side, store in enumerate((self.model, self.store)):
            requeued: set[int] = set()
            ended: set[int] = set()
            nothing = 0
            while nothing < 2:
                found = self.run(store.reap(limit, max_resets))
                assert found.total <= limit
                nothing = 0 if found.total else nothing + 1
                requeued |= {self.place(job_id, side) for job_id in found.requeued}
                ended |= {self.place(job_id, side) for job_id in found.ended}
            answers.append((requeued, ended))
        self.look()
        assert answers[1] == answers[0]

    @rule(limit=st.sampled_from((1, 2, EVERYTHING)))
    def promote(self, limit: int) -> None:
        self.ask_same("promote", limit)

    @rule(
        verb=st.sampled_from(("prune", "delete_failed")), limit=st.sampled_from((1, 3)), tenant=SEEN
    )
    def clear(self, verb: str, limit: int, tenant: str | None) -> None:
        arguments = (limit, 10.0, 25.0) if verb == "prune" else (limit, tenant)
        answers: list[int] = []
        for store in (self.model, self.store):
            removed = 0
            while count := self.run(getattr(store, verb)(*arguments)):
                assert count <= limit
                removed += count
            if verb == "prune":  # chains that must stay may hide others from so small a call
                removed += self.run(store.prune(EVERYTHING, *arguments[1:]))
            answers.append(removed)
        self.check(verb, *answers)

    @rule(seconds=st.sampled_from((0.1, 2.0, 12.0, 31.0, 8 * 24 * 3600.0)))
    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.look()

    @rule(seconds=st.sampled_from((-3600.0, 20.0, 3600.0)), renewing=_maybe(WORKERS))
    def set_clock(self, seconds: float, renewing: str | None) -> None:
        self.clock.jump(seconds)
        if renewing is not None:
            for line in self.lines:
                line.renew(renewing, LEASE, [])
        self.reap(EVERYTHING, 5)

    # ── schedules ──

    @rule(
        wanted=st.lists(SCHEDULE, min_size=1, max_size=2, unique_by=lambda one: one.identifier),
        tenant=TENANT,
    )
    def register(self, wanted: list[Schedule], tenant: str) -> None:
        for known in self.ask_same("register", wanted, tenant):
            self.floors.setdefault((tenant, known.identifier), known.floor_at)

    @rule(
        identifier=IDENTIFIER,
        missed=st.sampled_from((0, 0, 0, 1)),
        until=st.sampled_from((0.0, 0.0, -1.0, 1.0)),
        news=NEWS,
        tenant=TENANT,
    )
    def fire(
        self, identifier: str, missed: int, until: float, news: list[New], tenant: str
    ) -> None:
        now = self.clock.now()
        fired = self.ask_same(
            "fire",
            identifier,
            self.floors.get((tenant, identifier), 0) - missed,
            now + round(until * 1e6),
            [new.at(now) for new in news],
            tenant,
        )
        self.floors[tenant, identifier] = fired.floor_at

    @rule(
        verb=st.sampled_from(("pause_schedule", "resume_schedule", "forget_schedule")),
        identifier=IDENTIFIER,
        tenant=TENANT,
    )
    def change_schedule(self, verb: str, identifier: str, tenant: str) -> None:
        known = self.ask_same(verb, identifier, tenant)
        if known is not None:
            self.floors[tenant, identifier] = known.floor_at

    # ── operators ──

    @rule(verb=st.sampled_from(("cancel", "complete", "retry", "delete")), which=SOME, tenant=SEEN)
    def change(self, verb: str, which: list[int], tenant: str | None) -> None:
        self.ask_about(which, verb, tenant)

    @rule(which=SOME, tenant=SEEN)
    def fail(self, which: list[int], tenant: str | None) -> None:
        self.ask_about(which, "fail", "because", tenant)

    @rule(
        which=SOME,
        due_in=_maybe((0.0, -1.0, 4.0)),
        priority=_maybe((0, -7)),
        attempts=_maybe((0, 3)),
        max_attempts=_maybe((3,)),
        tenant=SEEN,
    )
    def reschedule(
        self,
        which: list[int],
        tenant: str | None,
        due_in: float | None,
        priority: int | None,
        attempts: int | None,
        max_attempts: int | None,
    ) -> None:
        self.ask_about(
            which,
            "reschedule",
            run_at=None if due_in is None else self.clock.now() + round(due_in * 1e6),
            priority=priority,
            attempts=attempts,
            max_attempts=max_attempts,
            tenant=tenant,
        )

    @rule(key=st.sampled_from(KEYS), tenant=TENANT)
    def remove(self, key: str, tenant: str) -> None:
        self.ask_same("remove", key, tenant)

    @rule(workers=st.lists(WORKER, min_size=1, unique=True), max_resets=st.sampled_from((1, 2)))
    def unlock(self, workers: list[str], max_resets: int) -> None:
        self.check_unordered("unlock", *self.ask("unlock", workers, max_resets))

    @rule(
        verb=st.sampled_from(("pause", "resume", "resume")),
        what=st.sampled_from(({"task": "a"}, {"queue": "q"}, {"task": "b", "queue": "r"})),
        tenant=TENANT,
    )
    def pause(self, verb: str, what: dict[str, str], tenant: str) -> None:
        self.ask_same(verb, **what, tenant=tenant)

    @rule(
        worker=_maybe(WORKERS),
        tasks=st.lists(st.sampled_from(TASKS), unique=True),
        tenants=st.sampled_from((None, None, ("",), ("acme",))),
    )
    def introduce(
        self, worker: str | None, tasks: list[str], tenants: tuple[str, ...] | None
    ) -> None:
        if worker is not None:
            self.ask_same("introduce", worker, tasks, tenants)
        else:
            self.ask_same("stranded")

    @rule(
        states=st.one_of(st.none(), STATES),
        task=_maybe(TASKS),
        queue=_maybe(QUEUES),
        key=_maybe(KEYS),
        after=WHICH,
        limit=st.integers(1, 4),
        tenant=SEEN,
    )
    def find(
        self,
        states: tuple[JobState, ...] | None,
        task: str | None,
        queue: str | None,
        key: str | None,
        after: int,
        limit: int,
        tenant: str | None,
    ) -> None:
        answers = []
        for side, store in enumerate((self.model, self.store)):
            start = self.job_id(after, side) if after < NOWHERE else None
            wanted = JobFilter(states, task, queue, key, after=start, limit=limit, tenant=tenant)
            answers.append(self.run(store.find(wanted)))
            answers[-1].append(self.run(store.get(self.job_id(after, side), tenant)))
            answers[-1].append(self.run(store.get_by_key(KEYS[0], tenant or TENANTS[1])))
        self.check("find", *answers)
