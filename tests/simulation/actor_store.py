"""The store as one actor reaches it: every call may fail, hang, or be carried out or answered late.

As any store must, it takes care of claims that its caller hears nothing of: what a cancelled claim
took is handed back, and what a claim took whose answer was lost is given to the next one. A worker
is forgotten after its claims under way, and calls on a lifeline end before the lease does.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from tests.simulation import virtual_threads
from tests.simulation.plan import Fault
from windlass.errors import OutcomeUnknownError, StoreUnavailableError
from windlass.store.figures import FigureStore
from windlass.store.hints import Due, ignore_due
from windlass.store.port import Joined, Lifeline, Listening, Store, Transaction
from windlass.store.records import RELEASE, Capabilities, ClaimRequest, Lease, Outcome, Renewal
from windlass.stores.memory import MemoryStore

VERBS = tuple(
    name
    for protocol in (Store, FigureStore)
    for name, verb in inspect.getmembers(protocol, inspect.iscoroutinefunction)
    if name not in ("open", "close", "claim", "retire")
)
"""Every verb of the port that is called as any other is."""
_SOON = 1e-5


class Wires:
    """What lies between the actors and the store: the faults, and how long calls take."""

    def __init__(
        self, seed: int, faults: Sequence[Fault], delay: float, time: Callable[[], float]
    ) -> None:
        self.time = time
        self._faults = {(fault.actor, fault.verb, fault.nth): fault for fault in faults}
        self._calls: Counter[tuple[str, str]] = Counter()
        self._seed = seed
        self._delay = delay
        self.cut_until: dict[str, float] = {}
        """Until when the calls of an actor get no answer, by the event loop's time."""
        self.told: Callable[[str, str], None] = lambda actor, text: None

    def next(self, actor: str, verb: str) -> tuple[Fault | None, float]:
        """The fault of the next call, and the seconds it takes each way."""
        self._calls[actor, verb] += 1
        nth = self._calls[actor, verb]
        fault = self._faults.get((actor, verb, nth))
        if fault is None and actor in self.cut_until:
            left = self.cut_until[actor] - self.time()
            if left > 0:
                fault = Fault(actor, verb, nth, "request lost", min(left, 0.5))
        if fault is not None:
            self.told(actor, f"{verb}#{nth} {fault.kind} {fault.seconds:g}")
        if not self._delay:
            return fault, 0.0
        # Of the call alone, so that a plan with fewer events leaves the others as they were.
        mixed = (self._seed * 7919 + nth * 104729 + sum(map(ord, actor + verb)) * 1299709) % 1009
        return fault, self._delay * mixed / 1009

    def calm(self) -> None:
        """No more faults."""
        self._faults.clear()
        self.cut_until.clear()


class ActorStore:
    """Implements the whole port over `inner`; `process` says whether the actor is still alive."""

    def __init__(
        self, inner: MemoryStore, wires: Wires, actor: str, process: virtual_threads.Process | None
    ) -> None:
        self.inner = inner
        self.wires = wires
        self.actor = actor
        self.process = process
        self.is_deaf = False
        self._lost_claims: list[Lease] = []
        self._claims_end_at = 0.0
        for verb in VERBS:
            setattr(self, verb, functools.partial(self._do, verb))

    capabilities: Capabilities = MemoryStore.capabilities

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    def subscribe(
        self,
        hint: Callable[[], None],
        listening: Listening = lambda error: None,
        due: Due = ignore_due,
    ) -> Callable[[], None]:
        def heard() -> None:
            if not self.is_deaf and not self.is_gone:
                hint()

        def heard_due(seconds: float | None) -> None:
            if not self.is_deaf and not self.is_gone:
                due(seconds)

        return self.inner.subscribe(heard, listening, heard_due)

    @property
    def is_gone(self) -> bool:
        return self.process is not None and self.process.is_dead

    # ── calls on the event loop ──

    async def _do(self, verb: str, *args: Any, **options: Any) -> Any:
        return await self._call(
            verb, functools.partial(getattr(self.inner, verb), *args, **options)
        )

    async def claim(self, request: ClaimRequest) -> list[Lease]:
        found, self._lost_claims = self._lost_claims, []
        if found := [lease for lease in found if self.inner._owned(lease)]:
            return found
        claimed: list[Lease] = await self._call(
            "claim", functools.partial(self.inner.claim, request), self._unheard
        )
        return claimed

    async def retire(self, worker: str) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(self._claims_end_at - loop.time())
        await self._do("retire", worker)

    def _unheard(self, leases: list[Lease], is_cancelled: bool) -> None:
        if self.is_gone:
            return
        if is_cancelled:
            _carry_out(self.inner.settle([(lease, RELEASE) for lease in leases]))
        else:
            self._lost_claims += leases

    async def _call(
        self,
        verb: str,
        call: Callable[[], Any],
        unheard: Callable[[Any, bool], None] = lambda answer, is_cancelled: None,
    ) -> Any:
        loop = asyncio.get_running_loop()
        if self.is_gone:
            await loop.create_future()
        fault, delay = self.wires.next(self.actor, verb)
        if fault is None and not delay:
            return _carry_out(call())
        answered: asyncio.Future[Any] = loop.create_future()
        if verb == "claim":
            wait_at_most = 2 * delay + (0.0 if fault is None else fault.seconds)
            self._claims_end_at = loop.time() + wait_at_most + _SOON
        kind = "" if fault is None else fault.kind
        wait = 0.0 if fault is None else fault.seconds

        def carry_out() -> None:
            try:
                answer, error = _carry_out(call()), None
            except Exception as raised:
                answer, error = None, raised
            if kind == "answer lost":
                unheard(answer or [], False)
                answer, error = None, _lost(verb)
            loop.call_later(
                delay + (wait if kind in ("late", "answer lost") else 0), tell, answer, error
            )

        def tell(answer: Any, error: BaseException | None) -> None:
            if answered.done():
                if error is None:
                    unheard(answer, True)
            elif error is None:
                answered.set_result(answer)
            else:
                answered.set_exception(error)

        if kind == "refused":
            loop.call_later(_SOON, tell, None, _refused(verb))
        elif kind == "request lost":
            loop.call_later(wait, tell, None, _lost(verb))
        else:
            loop.call_later(delay + (wait if kind == "slow" else 0), carry_out)
        return await answered

    # ── calls in threads ──

    def lifeline(self) -> Lifeline:
        return ActorLifeline(self)

    def call_now(self, verb: str, call: Callable[[], Any], limit: float = 1e9) -> Any:
        """As `_call`, for a virtual thread; StoreUnavailableError after `limit` seconds."""
        fault, delay = self.wires.next(self.actor, verb)
        if fault is None:
            virtual_threads.sleep(delay)
            answer = call()
            virtual_threads.sleep(delay)
            return answer
        wait = min(fault.seconds, limit)
        is_in_time = fault.seconds < limit
        match fault.kind:
            case "refused":
                raise _refused(verb)
            case "request lost":
                virtual_threads.sleep(wait)
            case "slow":
                virtual_threads.sleep(wait)
                answer = call()  # by the database, whether or not it is still waited for
                if is_in_time:
                    return answer
            case "late" | "answer lost":
                answer = call()
                virtual_threads.sleep(wait)
                if fault.kind == "late" and is_in_time:
                    return answer
        raise _lost(verb)

    def connection(self) -> AbstractContextManager[Any]:
        return self.inner.connection()

    def joined(self, connection: Any) -> Joined:
        return self.inner.joined(connection)

    def transaction(self, lease: Lease) -> AbstractContextManager[Transaction]:
        return ActorTransaction(self, self.inner.transaction(lease))


class ActorLifeline:
    """The liveness of one worker."""

    def __init__(self, store: ActorStore) -> None:
        self._store = store
        self._held_until = 0.0
        self.renewed_at = store.wires.time()
        """When the last renewal that was answered had begun."""

    def renew(
        self,
        worker: str,
        lease: float,
        leases: Sequence[Lease],
        extend: Sequence[tuple[Lease, float]] = (),
    ) -> Renewal:
        began = self._store.wires.time()
        renewal: Renewal = self._store.call_now(
            "renew",
            lambda: self._store.inner.renew(worker, lease, leases, extend),
            self._limit(lease),
        )
        self.renewed_at = began
        self._held_until = began + lease - min(lease / 5, 5.0) / 2
        self._lease = lease
        return renewal

    def check(self, worker: str, leases: Sequence[Lease]) -> Renewal:
        renewal: Renewal = self._store.call_now(
            "check", lambda: self._store.inner.check(worker, leases), self._limit(self._lease)
        )
        return renewal

    _lease = 6.0

    def _limit(self, lease: float) -> float:
        left = self._held_until - self._store.wires.time()
        return min(lease / 3, left) if left > 0 else lease / 6

    def close(self) -> None: ...


class ActorTransaction:
    """A handler's transaction, whose begin and commit go over the wires."""

    def __init__(self, store: ActorStore, opened: AbstractContextManager[Transaction]) -> None:
        self._store = store
        self._opened = opened
        self._inner: Transaction
        self._is_ended = False

    def __enter__(self) -> ActorTransaction:
        self._inner = self._store.call_now("begin", self._opened.__enter__)
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool | None:
        if kind is not None:
            return self._opened.__exit__(kind, error, trace)
        try:
            return bool(self._store.call_now("commit", self._commit))
        finally:
            if not self._is_ended:  # the database rolls back what a lost connection left open
                self._opened.__exit__(StoreUnavailableError, None, None)

    def _commit(self) -> bool | None:
        self._is_ended = True
        return self._opened.__exit__(None, None, None)

    @property
    def connection(self) -> Any:
        return self._inner.connection

    def execute(self, sql: str, values: Sequence[Any] | dict[str, Any] = ()) -> list[Any]:
        return self._inner.execute(sql, values)

    def complete(self, outcome: Outcome) -> None:
        self._inner.complete(outcome)

    def interrupt(self) -> None:
        self._inner.interrupt()


def _carry_out(verb: Any) -> Any:
    """Run a verb of the store in memory, which waits for nothing."""
    try:
        verb.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("a verb of the store in memory waited for something")


def _refused(verb: str) -> StoreUnavailableError:
    return StoreUnavailableError(f"{verb}: the database does not answer (a planned fault)")


def _lost(verb: str) -> OutcomeUnknownError:
    return OutcomeUnknownError(f"{verb}: the connection was lost (a planned fault)")
