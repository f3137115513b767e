"""A store that fails on purpose, by a plan that a seed repeats.

    store = FaultyStore(MemoryStore(clock), seed=7, rate=0.2)
    store.fail_next("settle", "after", times=2)
    store.is_down = True                    # from now on every verb fails, until it is False

Three kinds of fault exist: `before` (the verb did nothing and raised), `after` (the verb was
carried out, then reported as failed: the caller cannot know) and `busy` (another connection holds
the database). What the n-th call of a verb meets depends on the seed, the verb and n alone, so a
run can be repeated even where loops interleave differently. `repr(store)` says the seed.
"""

from __future__ import annotations

import random
import threading
from collections import Counter, deque
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, get_args

from windlass.errors import OutcomeUnknownError, StoreBusyError, StoreError, StoreUnavailableError
from windlass.store.hints import Due, ignore_due
from windlass.store.port import Joined, Lifeline, Listening, Store, Transaction
from windlass.store.records import Capabilities, Lease, Renewal

FaultKind = Literal["before", "after", "busy"]

WORKER_VERBS = (
    "claim",
    "settle",
    "note",
    "reap",
    "promote",
    "next_due",
    "prune",
    "renew",
    "check",
    "register",
    "fire",
)
"""What fails by chance unless `verbs` says otherwise."""

UNKNOWN = ("settle", "note", "reap", "promote", "prune", "renew", "register", "fire")
"""What fails *after* by chance unless `unknown` says otherwise: verbs one may simply repeat."""


def _verb(name: str) -> Any:
    """A verb of the port that fails by the plan, and else is the wrapped store's."""

    async def call(self: FaultyStore, *arguments: Any, **options: Any) -> Any:
        return await self._do(name, *arguments, **options)

    call.__name__ = name
    return call


class FaultyStore:
    """Wraps any store. `rate` of the calls of `verbs` fail; those in `unknown` may do so *after*.

    `calls` counts every verb called, `faults` lists what was done, as `settle#3 after`.
    """

    def __init__(
        self,
        store: Store,
        seed: int | str = 0,
        *,
        rate: float = 0.0,
        verbs: Collection[str] = WORKER_VERBS,
        unknown: Collection[str] = UNKNOWN,
    ) -> None:
        self.inner = store
        self.seed = seed
        self.rate = rate
        self.is_down = False
        self.calls: Counter[str] = Counter()
        self.faults: list[str] = []
        self._verbs = frozenset(verbs)
        self._unknown = frozenset(unknown)
        self._planned: dict[str, deque[FaultKind]] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"FaultyStore({self.inner!r}, seed={self.seed!r}, rate={self.rate})"

    def fail_next(self, verb: str, kind: FaultKind = "before", *, times: int = 1) -> None:
        """The next `times` calls of `verb` fail, whatever the seed says."""
        if kind not in get_args(FaultKind):
            raise ValueError(f"no fault is called {kind!r}; there are before, after and busy")
        self._planned.setdefault(verb, deque()).extend([kind] * times)

    def _next(self, verb: str) -> FaultKind | None:
        with self._lock:
            self.calls[verb] += 1
            count = self.calls[verb]
            kind = self._choose(verb, count)
            if kind is not None:
                self.faults.append(f"{verb}#{count} {kind}")
            return kind

    def _choose(self, verb: str, count: int) -> FaultKind | None:
        if self.is_down:
            return "before"
        if planned := self._planned.get(verb):
            return planned.popleft()
        if verb not in self._verbs:
            return None
        chance = random.Random(f"{self.seed}:{verb}:{count}")  # noqa: S311 - a plan, not a secret
        if chance.random() >= self.rate:
            return None
        return "after" if verb in self._unknown and chance.random() < 0.5 else "before"

    async def _do(self, verb: str, *args: Any, **options: Any) -> Any:
        kind = self._next(verb)
        if kind in ("before", "busy"):
            raise _error(verb, kind)
        answer = await getattr(self.inner, verb)(*args, **options)
        if kind == "after":
            raise _error(verb, kind)
        return answer

    def _do_now(self, verb: str, call: Callable[[], Any]) -> Any:
        kind = self._next(verb)
        if kind in ("before", "busy"):
            raise _error(verb, kind)
        answer = call()
        if kind == "after":
            raise _error(verb, kind)
        return answer

    # ── the port ──

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities

    async def close(self) -> None:
        await self.inner.close()

    def subscribe(
        self,
        hint: Callable[[], None],
        listening: Listening = lambda error: None,
        due: Due = ignore_due,
    ) -> Callable[[], None]:
        return self.inner.subscribe(hint, listening, due)

    def joined(self, connection: Any) -> Joined:
        return self.inner.joined(connection)

    def lifeline(self) -> Lifeline:
        return _FaultyLifeline(self, self.inner.lifeline())

    def connection(self) -> AbstractContextManager[Any]:
        return self.inner.connection()

    def transaction(self, lease: Lease) -> AbstractContextManager[Transaction]:
        return self.inner.transaction(lease)

    open = _verb("open")
    now = _verb("now")
    enqueue = _verb("enqueue")
    claim = _verb("claim")
    settle = _verb("settle")
    note = _verb("note")
    retire = _verb("retire")
    reap = _verb("reap")
    expire = _verb("expire")
    promote = _verb("promote")
    next_due = _verb("next_due")
    prune = _verb("prune")
    register = _verb("register")
    fire = _verb("fire")
    schedules = _verb("schedules")
    pause_schedule = _verb("pause_schedule")
    resume_schedule = _verb("resume_schedule")
    forget_schedule = _verb("forget_schedule")
    get = _verb("get")
    get_by_key = _verb("get_by_key")
    find = _verb("find")
    counts = _verb("counts")
    cancel = _verb("cancel")
    complete = _verb("complete")
    fail = _verb("fail")
    reschedule = _verb("reschedule")
    retry = _verb("retry")
    delete = _verb("delete")
    remove = _verb("remove")
    unlock = _verb("unlock")
    pause = _verb("pause")
    resume = _verb("resume")
    paused = _verb("paused")
    workers = _verb("workers")
    introduce = _verb("introduce")
    stranded = _verb("stranded")
    delete_failed = _verb("delete_failed")
    start_chains = _verb("start_chains")
    get_chain = _verb("get_chain")
    find_chains = _verb("find_chains")
    chain_jobs = _verb("chain_jobs")
    blocked_jobs = _verb("blocked_jobs")
    blockers = _verb("blockers")
    complete_chain = _verb("complete_chain")
    cancel_chains = _verb("cancel_chains")
    retry_chains = _verb("retry_chains")
    delete_chains = _verb("delete_chains")
    depths = _verb("depths")
    note_rates = _verb("note_rates")
    rates = _verb("rates")
    error_groups = _verb("error_groups")
    add_token = _verb("add_token")
    find_token = _verb("find_token")
    tokens = _verb("tokens")
    revoke_token = _verb("revoke_token")
    secret = _verb("secret")
    replace_secret = _verb("replace_secret")
    enqueue_once = _verb("enqueue_once")
    claimable = _verb("claimable")
    move = _verb("move")


class _FaultyLifeline:
    """The lifeline of a faulty store: `renew` and `check` fail by the same plan."""

    def __init__(self, store: FaultyStore, inner: Lifeline) -> None:
        self._store = store
        self._inner = inner

    def renew(
        self,
        worker: str,
        lease: float,
        leases: Sequence[Lease],
        extend: Sequence[tuple[Lease, float]] = (),
    ) -> Renewal:
        renewal: Renewal = self._store._do_now(
            "renew", lambda: self._inner.renew(worker, lease, leases, extend)
        )
        return renewal

    def check(self, worker: str, leases: Sequence[Lease]) -> Renewal:
        renewal: Renewal = self._store._do_now("check", lambda: self._inner.check(worker, leases))
        return renewal

    def close(self) -> None:
        self._inner.close()


def _error(verb: str, kind: FaultKind | None) -> StoreError:
    if kind == "busy":
        return StoreBusyError(f"{verb}: another connection holds the database (a planned fault)")
    if kind == "after":
        return OutcomeUnknownError(f"{verb}: its answer was lost (a planned fault)")
    return StoreUnavailableError(f"{verb}: the database does not answer (a planned fault, {kind})")
