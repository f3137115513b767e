"""Takes jobs from the store: for free slots at once, and ahead of need where jobs are quick.

How far ahead is worked out from how long jobs take: a quarter of a second of work, at most
`MOST_AHEAD` jobs or `MOST_TEXT` characters of payload, and nothing where a job takes longer than
that or none has shown its length. So a worker with slow jobs holds no more than its slots run, and
one with quick jobs never runs dry. What still lies in the buffer after two seconds goes back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from windlass.clock import Clock
from windlass.engine.handler import Handler, maybe_await
from windlass.engine.slots import Slots
from windlass.observe.events import Events
from windlass.observe.logs import Scoped
from windlass.store.port import WorkStore
from windlass.store.records import ClaimRequest, Lease

AHEAD_SECONDS = 0.25
MOST_AHEAD = 2_000
REFILL = 1_000
MOST_AT_ONCE = 20_000
MOST_TEXT = 16_000_000
TOO_OLD = 2.0
FENCED_PAUSE = 0.2
SUSPECTS_EVERY = 0.25
"""Seconds after which a slot stays free for suspects, where none was free for longer than that."""

Flags = Sequence[str] | None
ForbiddenFlags = Flags | Callable[[], "Flags | Awaitable[Flags]"]


class Claimer:
    """One claim in flight at a time; everything it takes goes to the slots."""

    def __init__(
        self,
        store: WorkStore,
        slots: Slots,
        handler: Handler,
        *,
        worker: Any,
        worker_id: str,
        lease: float,
        poll_interval: float,
        prefetch: int | None,
        forbidden_flags: ForbiddenFlags,
        max_jobs: int | None,
        once: bool,
        events: Events,
        clock: Clock,
        finished: Callable[[str], None],
        logger: Scoped,
        held: Callable[[], int],
        is_fenced: Callable[[], bool],
    ) -> None:
        self._store = store
        self._slots = slots
        self._handler = handler
        self._worker = worker
        self._worker_id = worker_id
        self._lease = lease
        self._poll_interval = poll_interval
        self._most_ahead = MOST_AHEAD if prefetch is None else prefetch
        self._forbidden_flags = forbidden_flags
        self._left = max_jobs
        self._once = once
        self._events = events
        self._clock = clock
        self._finished = finished
        self._logger = logger
        self._held = held
        self._is_fenced = is_fenced
        self._pre_dequeue = getattr(handler, "pre_dequeue", None)
        self._tasks = tuple(handler.tasks)
        self._longer = {
            task: plan_lease
            for task in self._tasks
            if (plan_lease := handler.plan(task).lease) is not None and plan_lease > lease
        }
        self._weight = 1.0
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
        if self._is_fenced():
            return FENCED_PAUSE
        wanted = min(self._wanted(asking), self._bound)
        if wanted <= 0:
            self._dry = False  # a slot that runs out must wake this loop, hint or no hint
            return self._until_old()
        conditions = await self._ask_hook()
        if conditions is None:
            return self._poll_interval
        flags = await self._flags()
        now = self._clock.monotonic()
        is_accused = self._slots.accused is not None
        suspects = 0 if is_accused else max(asking, self._slots.free)
        if suspects:
            self._suspects_at = now + SUSPECTS_EVERY
        elif now >= self._suspects_at and not is_accused:
            self._slots.asks.for_suspects = True
        past_heads = self._once or now >= self._look_past_at
        if past_heads:
            self._look_past_at = now + self._poll_interval
        self._hinted = False
        self._dry = False
        if self._events.wants("worker:getJob:start"):
            self._events.emit("worker:getJob:start", worker=self._worker)
        try:
            leases = await self._store.claim(
                ClaimRequest(
                    worker=self._worker_id,
                    tasks=self._tasks,
                    limit=wanted,
                    suspects=suspects,
                    lease=self._lease,
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
        self._bound = min(2 * self._bound, MOST_AT_ONCE)
        # Leases begin later than `now`, so they end later than this too. They are in the slots'
        # hands before anything else can fail.
        owned_until = {task: now + longer for task, longer in self._longer.items()}
        has_suspects = self._slots.feed(leases, owned_until)
        if suspects:
            self._slots.asks.for_suspects = has_suspects  # there may be more of them
        if self._once and len(leases) < wanted and await self._store.promote(MOST_AHEAD):
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
            return self._until_old() if self._wanted(0) <= 0 else 0.0
        if self._hinted:
            return 0.0
        self._dry = True
        if self._once and not leases and self._held() == 0:
            self.is_closed = True
            self._finished("once")
            return None
        return min(self._poll_interval, self._until_old() or self._poll_interval)

    def _until_old(self) -> float | None:
        """Come back to see whether the buffer got old, if there is one."""
        return TOO_OLD / 2 if self._slots.buffered else None

    def _wanted(self, asking: int) -> int:
        """How many to ask for now; nothing while no slot asks and the buffer lacks less than half,
        or `REFILL`."""
        if self._pre_dequeue is not None:
            # One by one, and only after the last one's `pre_handle`, which may change the answer.
            self._slots.low_water = 0
            is_settled = self._slots.buffered == 0 and self._slots.preparing == 0
            return min(1, self._slots.free) if is_settled else 0
        ahead = self._ahead()
        self._slots.low_water = max((ahead + 1) // 2, ahead - REFILL + 1)
        free = self._slots.free
        if free == 0 and asking == 0 and self._slots.buffered >= self._slots.low_water:
            return 0
        # Beyond what free slots need, claims of one size: one is under way while the last one's
        # jobs run, and none is so large that the slots run dry meanwhile.
        wanted = self._slots.count - self._slots.running + ahead - self._slots.buffered
        wanted = max(asking, min(wanted, max(free, REFILL)))
        return wanted if self._left is None else min(wanted, self._left)

    def _ahead(self) -> int:
        pace = self._slots.pace
        if pace is None or pace > AHEAD_SECONDS:
            return 0
        by_pace = int(AHEAD_SECONDS * self._slots.count / max(pace, 1e-6))
        return min(self._most_ahead, by_pace, int(MOST_TEXT / self._weight))

    def _weigh(self, leases: Sequence[Lease]) -> None:
        """Remember how large payloads are, so that the buffer stays small where they are not."""
        mean = sum([len(lease.payload) for lease in leases]) / len(leases)
        self._weight = max(mean, self._weight * 0.9, 1.0)

    def _give_back_old(self) -> None:
        if self._slots.has_older(TOO_OLD) and self._slots.hand_back(TOO_OLD):
            self._slots.pace = TOO_OLD  # jobs got slow: hold none ahead until some finish again

    async def _flags(self) -> tuple[str, ...]:
        flags = self._forbidden_flags
        if callable(flags):
            flags = await maybe_await(flags())
        return tuple(flags or ())
