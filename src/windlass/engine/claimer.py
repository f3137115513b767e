"""Takes jobs from the store: for free slots at once, and ahead of need where jobs are quick.

`demand` works out how many. What still lies in the buffer after two seconds goes back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from windlass.engine.demand import MOST_AHEAD, Demand, demand, demand_one_by_one
from windlass.engine.handler import EngineHandler, maybe_await
from windlass.engine.slots import Slots
from windlass.engine.tools import Tools
from windlass.store.port import WorkStore
from windlass.store.records import ClaimRequest, Lease

MOST_AT_ONCE = 20_000
MOST_PROMOTED = 2_000
TOO_OLD = 2.0
FENCED_PAUSE = 0.2
SUSPECTS_EVERY = 0.25
"""Seconds after which a slot stays free for suspects, where none was free for longer than that."""

Flags = Sequence[str] | None
ForbiddenFlags = Flags | Callable[[], "Flags | Awaitable[Flags]"]


class ClaimOptions(msgspec.Struct, frozen=True, kw_only=True):
    """For which worker jobs are claimed, and how. Times are seconds."""

    worker_id: str
    lease: float
    poll_interval: float
    prefetch: int | None = None
    """The most jobs to hold beyond what the slots run; None is `demand.MOST_AHEAD`."""
    forbidden_flags: ForbiddenFlags = None
    max_jobs: int | None = None
    once: bool = False
    tenants: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class ClaimerLinks:
    """What the claimer asks the rest of the engine, and tells it."""

    in_hand: Callable[[], int]
    """Deliveries whose settlement is not written yet."""
    is_fenced: Callable[[], bool]
    """Whether leases could not be renewed in time, so that whatever is claimed is lost."""
    finished: Callable[[str], None]
    """There is nothing more to do, and why."""


class Claimer:
    """One claim in flight at a time; everything it takes goes to the slots."""

    def __init__(
        self,
        store: WorkStore,
        slots: Slots,
        handler: EngineHandler,
        options: ClaimOptions,
        tools: Tools,
        links: ClaimerLinks,
    ) -> None:
        self._store = store
        self._slots = slots
        self._options = options
        self._links = links
        self._clock = tools.clock
        self._events = tools.events
        self._worker = tools.worker
        self._logger = tools.logger
        self._instruments = tools.instruments
        self._poll_interval = options.poll_interval
        self._most_ahead = MOST_AHEAD if options.prefetch is None else options.prefetch
        self._left = options.max_jobs
        self._must_promote = options.once and store.capabilities.upkeep
        self._pre_dequeue = getattr(handler, "pre_dequeue", None)
        self._tasks = tuple(handler.tasks)
        self._longer = {
            task: plan_lease
            for task in self._tasks
            if (plan_lease := handler.plan(task).lease) is not None and plan_lease > options.lease
        }
        self._payload_size = 1.0
        self._bound = MOST_AT_ONCE
        self._look_past_at = 0.0
        self._suspects_at = 0.0
        self._hinted = False
        self._dry = False
        self.is_closed = False
        self.is_exhausted = False
        """Whether `max_jobs` were taken; the worker is done when they are settled."""

    def hinted(self) -> None:
        """There may be new jobs."""
        self._hinted = True

    def is_wanting(self) -> bool:
        """Whether a slot that runs out should wake the claimer."""
        return self._slots.asks.are_ripe or (not self._dry and not self.is_closed)

    async def step(self) -> float | None:
        """Claim, and again at once where that was not enough: before the slots run what came."""
        while (pause := await self._claim()) == 0.0 and not self._hinted:
            pass
        return pause

    async def _claim(self) -> float | None:
        asks = self._slots.asks.ripe()
        try:
            return await self._claim_for(len(asks))
        finally:
            self._slots.asks.answer(asks)

    async def _claim_for(self, asking: int) -> float | None:
        """Claim, also for so many slots that ask before they go on with the buffer."""
        self._give_back_old()
        if self.is_closed:
            return self._until_old()
        if self._links.is_fenced():
            return FENCED_PAUSE
        need = self._demand(asking)
        self._slots.low_water = need.low_water
        wanted = min(need.count, self._bound)
        if wanted <= 0:
            self._dry = False  # a slot that runs out must wake this loop, hint or no hint
            return self._until_old()
        conditions = await self._ask_hook()
        if conditions is None:
            return self._poll_interval
        flags = await self._flags()
        now = self._clock.monotonic()
        is_accused = self._slots.accused is not None
        suspects = 0 if is_accused else max(asking, self._slots.load.free)
        if suspects:
            self._suspects_at = now + SUSPECTS_EVERY
        elif now >= self._suspects_at and not is_accused:
            self._slots.asks.for_suspects = True
        past_heads = self._options.once or now >= self._look_past_at
        if past_heads:
            self._look_past_at = now + self._poll_interval
        self._hinted = False
        self._dry = False
        if self._events.wants("worker:getJob:start"):
            self._events.emit("worker:getJob:start", worker=self._worker)
        asked_at = self._clock.monotonic()
        try:
            leases = await self._store.claim(
                ClaimRequest(
                    worker=self._options.worker_id,
                    tasks=self._tasks,
                    limit=wanted,
                    tenants=self._options.tenants,
                    suspects=suspects,
                    lease=self._options.lease,
                    longer_leases=self._longer,
                    forbidden_flags=flags,
                    past_heads=past_heads,
                    conditions=conditions,
                )
            )
        except Exception as error:
            self._events.emit("worker:getJob:error", worker=self._worker, error=error)
            self._bound = max(1, wanted // 2)  # it may have been too much for one answer
            raise
        if self._instruments is not None:
            self._instruments.claimed(len(leases), self._clock.monotonic() - asked_at)
        self._bound = min(2 * self._bound, MOST_AT_ONCE)
        # Leases begin later than `now`, so they end later than this too. They are in the slots'
        # hands before anything else can fail.
        owned_until = {task: now + longer for task, longer in self._longer.items()}
        has_suspects = self._slots.feed(leases, owned_until)
        if suspects:
            self._slots.asks.for_suspects = has_suspects  # there may be more of them
        is_short = len(leases) < wanted
        if self._must_promote and is_short and await self._store.promote(MOST_PROMOTED):
            self._hinted = True  # what was due is ready only now
        return self._took(leases, wanted)

    async def _ask_hook(self) -> tuple[Any, ...] | None:
        """What `pre_dequeue` adds to the next claim; None if there is to be none now."""
        if self._pre_dequeue is None:
            return ()
        try:
            answer = await maybe_await(self._pre_dequeue())
        except Exception:  # the user's hook: jobs wait until it answers again
            self._logger.exception("pre_dequeue raised, so no job is taken")
            return None
        may_claim, conditions = answer if isinstance(answer, tuple | list) else (answer, ())
        if conditions is not None and not isinstance(conditions, list | tuple):
            conditions = (conditions,)  # one of them, by itself
        return tuple(conditions or ()) if may_claim else None

    def _took(self, leases: Sequence[Lease], wanted: int) -> float | None:
        if leases:
            self._weigh(leases)
            if self._left is not None:
                self._left -= len(leases)
        elif self._events.wants("worker:getJob:empty"):
            self._events.emit("worker:getJob:empty", worker=self._worker)
        if self._left is not None and self._left <= 0:
            self.is_closed = self.is_exhausted = True
            return self._until_old()
        if len(leases) >= wanted:
            need = self._demand(asking=0)
            self._slots.low_water = need.low_water
            return self._until_old() if need.count <= 0 else 0.0
        if self._hinted:
            return 0.0
        self._dry = True
        if self._options.once and not leases and self._links.in_hand() == 0:
            self.is_closed = True
            self._links.finished("once")
            return None
        return min(self._poll_interval, self._until_old() or self._poll_interval)

    def _until_old(self) -> float | None:
        """Come back to see whether the buffer got old, if there is one."""
        return TOO_OLD / 2 if self._slots.buffered else None

    def _demand(self, asking: int) -> Demand:
        if self._pre_dequeue is not None:
            return demand_one_by_one(self._slots.load)
        return demand(
            self._slots.load,
            asking=asking,
            left=self._left,
            most_ahead=self._most_ahead,
            size=self._payload_size,
        )

    def _weigh(self, leases: Sequence[Lease]) -> None:
        """Remember how large payloads are, so that the buffer stays small where they are not."""
        mean = sum([len(lease.payload) for lease in leases]) / len(leases)
        self._payload_size = max(mean, self._payload_size * 0.9, 1.0)

    def _give_back_old(self) -> None:
        if self._slots.has_older(TOO_OLD) and self._slots.hand_back(TOO_OLD):
            self._slots.pace = TOO_OLD  # jobs got slow: hold none ahead until some finish again

    async def _flags(self) -> tuple[str, ...]:
        flags = self._options.forbidden_flags
        if callable(flags):
            flags = await maybe_await(flags())
        return tuple(flags or ())
