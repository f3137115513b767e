"""Gives jobs to those who want some, however many they are, for few claims.

A want is an open Ready of a stream, or a waiting claim over REST. Wants with the same scope
(tenants and tasks) are a group, and a group has one claim in flight at a time: it is made for one
worker, for as many jobs as that worker's wants ask for together, and then comes the next worker's
turn. A group whose claim found nothing is *dry*; nothing is claimed for it before the next hint.

A hint means that there may be something for some group. The store is asked which of the groups that
rest may have work, and only those claim. Every poll interval counts as a hint. So wants that wait
cost one query each interval, however many they are, and a new job costs few claims. Where the
groups name very many tasks they are asked about in parts: one half of a part goes to the groups
with the fewest names, the other to those that have waited longest, so that neither waits for all.

What was claimed for a want that cannot take it any more is handed back, uncharged.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from windlass.errors import StoreClosedError
from windlass.observe.instruments import Instruments
from windlass.server.streams.settlements import Settlements
from windlass.store.records import RELEASE, ClaimRequest, Lease
from windlass.store.server import ClaimScope

MOST_AT_ONCE = 1_000
"""Jobs of one claim."""
MOST_NAMES = 2_000
"""Names of tasks in one look at the store."""
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0
RESTS = 3.0
LONGEST_REST = 0.02
"""After a look at the store there is a rest of so many times as long, and of so many seconds at
most, before the next hint is answered."""

_log = logging.getLogger("windlass.server")


class ClaimStore(Protocol):
    """What the dispatcher needs of a store."""

    async def claim(self, request: ClaimRequest) -> list[Lease]: ...

    async def claimable(self, scopes: Sequence[ClaimScope]) -> list[bool]: ...

    def subscribe(self, hint: Callable[[], None]) -> Callable[[], None]: ...


@dataclass(slots=True, eq=False)
class Want:
    """One open request for jobs.

    `worker` is the store's worker that they are claimed for, and `lease` its lease. `give` is
    called once, with 1 to `count` leases, unless the want is removed before. `can_take` says
    whether it may be given something now; when that changes to True, tell the dispatcher by `look`.
    """

    scope: ClaimScope
    worker: str
    lease: float
    count: int
    give: Callable[[list[Lease]], None]
    can_take: Callable[[], bool]


@dataclass(slots=True, eq=False)
class _Group:
    scope: ClaimScope
    queues: dict[str, dict[Want, None]] = field(default_factory=dict)
    """The open wants of each worker; the worker whose turn it is comes first."""
    is_dry: bool = False
    """Whether nothing was found when it was last looked for. The next hint, if it has not come
    already, is answered for this group, too."""
    seen: int = -1
    """How many hints there had been when it was last looked for."""
    task: asyncio.Task[None] | None = None

    @property
    def weight(self) -> int:
        """Names of tasks, as far as a look is dearer for them."""
        return 1 if self.scope.tasks is None else max(1, len(self.scope.tasks))

    def turn(self) -> list[Want] | None:
        """The wants of the next worker that can take something; its turn is over then."""
        for worker, wants in self.queues.items():
            able = [want for want in wants if want.can_take()]
            if able:
                self.queues[worker] = self.queues.pop(worker)
                return able
        return None


class Dispatcher:
    """Made on the event loop that it serves."""

    def __init__(
        self,
        store: ClaimStore,
        settlements: Settlements,
        poll_interval: float,
        instruments: Instruments | None = None,
    ) -> None:
        self._store = store
        self._instruments = instruments or Instruments()
        self._settlements = settlements
        self._poll_interval = poll_interval
        self._groups: dict[ClaimScope, _Group] = {}
        self._claiming: dict[str, list[asyncio.Future[None]]] = {}
        """Workers that claims are in flight for, and the ends of these."""
        self._hints = 0
        self._hinted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._unsubscribe: Callable[[], None] | None = None
        self._is_closed = False

    def start(self) -> None:
        loop = asyncio.get_running_loop()

        def hint() -> None:  # from any thread
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self.hint)

        self._unsubscribe = self._store.subscribe(hint)
        self._task = loop.create_task(self._listen(), name="windlass-dispatcher")

    async def close(self) -> None:
        """Claim nothing more; what is just being claimed is handed back."""
        self._is_closed = True
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None
        tasks = [group.task for group in self._groups.values() if group.task is not None]
        self._groups = {}
        await asyncio.gather(*tasks, return_exceptions=True)

    # ── wants ──

    def add(self, want: Want) -> None:
        group = self._groups.get(want.scope)
        if group is None:
            group = self._groups[want.scope] = _Group(want.scope)
        group.queues.setdefault(want.worker, {})[want] = None
        if not group.is_dry:
            self._wake(group)

    def remove(self, want: Want) -> None:
        """Nothing is given to it any more. Removing one that is gone changes nothing."""
        group = self._groups.get(want.scope)
        if group is None:
            return
        wants = group.queues.get(want.worker)
        if wants is not None:
            wants.pop(want, None)
            if not wants:
                del group.queues[want.worker]
        if not group.queues and group.task is None:
            del self._groups[want.scope]

    def look(self, scopes: Iterable[ClaimScope]) -> None:
        """Wants of these scopes can take something again."""
        for scope in scopes:
            group = self._groups.get(scope)
            if group is not None and not group.is_dry:
                self._wake(group)

    async def rest(self, worker: str) -> None:
        """Wait until no claim is in flight for a worker, and what it found in vain is handed
        back."""
        while claiming := self._claiming.get(worker):
            await asyncio.shield(claiming[0])

    # ── hints ──

    def hint(self) -> None:
        """There may be something new to claim."""
        self._hints += 1
        self._hinted.set()

    async def _listen(self) -> None:
        pause = FIRST_PAUSE
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._poll_interval):
                    await self._hinted.wait()
            if not self._hinted.is_set():
                self._hints += 1  # a poll
            self._hinted.clear()
            try:
                await self._answer_hint()
                pause = FIRST_PAUSE
            except StoreClosedError:
                return
            except Exception as error:  # the dispatcher survives whatever the store does
                _log.warning("looking for jobs failed, and is tried again: %s", error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
                self._hinted.set()

    async def _answer_hint(self) -> None:
        """Wake the groups that rest and may have work. A group that is at work looks by itself.

        Hints may come as fast as jobs end, so the store is asked for a part of the time only.
        """
        time = asyncio.get_running_loop().time
        while part := self._next_part():
            hints = self._hints
            began = time()
            may_have = await self._store.claimable([group.scope for group in part])
            for group, may in zip(part, may_have, strict=True):
                group.seen = max(group.seen, hints)
                if may:
                    group.is_dry = False
                    self._wake(group)
                elif group.task is None:
                    group.is_dry = True
            await asyncio.sleep(min(LONGEST_REST, RESTS * (time() - began)))

    def _next_part(self) -> list[_Group]:
        """The groups to ask about now, of those that rest and have a hint to be answered."""
        left = [
            group
            for group in self._groups.values()
            if group.task is None and group.seen < self._hints
        ]
        if sum(group.weight for group in left) <= MOST_NAMES:
            return left
        small = _first(sorted(left, key=lambda group: group.weight), MOST_NAMES // 2)
        taken = set(map(id, small))
        others = [group for group in left if id(group) not in taken]
        return small + _first(sorted(others, key=lambda group: group.seen), MOST_NAMES // 2)

    # ── claims ──

    def _wake(self, group: _Group) -> None:
        if group.task is None and group.queues and not self._is_closed:
            group.task = asyncio.get_running_loop().create_task(
                self._serve(group), name="windlass-dispatch"
            )

    async def _serve(self, group: _Group) -> None:
        """Claim until nothing is found that was hinted at, or no want can take anything."""
        pause = FIRST_PAUSE
        try:
            while not self._is_closed and (wants := group.turn()) is not None:
                seen = self._hints
                wanted = min(MOST_AT_ONCE, sum(want.count for want in wants))
                try:
                    found = await self._claim(group, wants, wanted)
                except StoreClosedError:
                    return
                except Exception as error:  # as above
                    _log.warning("a claim failed, and is tried again: %s", error)
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, LONGEST_PAUSE)
                    continue
                pause = FIRST_PAUSE
                group.is_dry = found == 0
                group.seen = seen - 1 if found else seen
                if found < wanted:
                    # Looking is cheaper than claiming, and there is probably nothing more.
                    if found or seen != self._hints:
                        self._hinted.set()
                    return
        finally:
            group.task = None
            if not group.queues and self._groups.get(group.scope) is group:
                del self._groups[group.scope]

    async def _claim(self, group: _Group, wants: list[Want], limit: int) -> int:
        """One claim for one worker; how many jobs it found."""
        first = wants[0]
        request = ClaimRequest(
            worker=first.worker,
            tasks=group.scope.tasks,
            tenants=group.scope.tenants,
            limit=limit,
            suspects=min(limit, len(wants)),
            lease=first.lease,
            past_heads=True,
        )
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        in_flight = self._claiming.setdefault(first.worker, [])
        in_flight.append(over)
        try:
            began = asyncio.get_running_loop().time()
            leases = await self._store.claim(request)
            self._instruments.claimed(len(leases), asyncio.get_running_loop().time() - began)
            left = self._share_out(group, wants, leases)
            if left:
                await self._settlements.settle_all([(lease, RELEASE) for lease in left])
        finally:
            in_flight.remove(over)
            if not in_flight:
                del self._claiming[first.worker]
            over.set_result(None)
        return len(leases)

    def _share_out(self, group: _Group, wants: list[Want], leases: list[Lease]) -> deque[Lease]:
        """Give the wants what there is for them, the suspects one each; what is left over."""
        left = deque(leases)
        for want in wants:
            if not left:
                break
            is_open = want in group.queues.get(want.worker, ())
            if self._is_closed or not is_open or not want.can_take():
                continue
            given = [left.popleft() for _ in range(min(want.count, len(left)))]
            self.remove(want)
            try:
                want.give(given)
            except Exception:  # a stream's trouble must not cost the others their jobs
                _log.exception("a stream could not take its jobs")
                left.extend(given)
        return left


def _first(groups: Sequence[_Group], most: int) -> list[_Group]:
    """The first of them that have so many names together; one if that has more."""
    chosen: list[_Group] = []
    weight = 0
    for group in groups:
        weight += group.weight
        if chosen and weight > most:
            break
        chosen.append(group)
    return chosen
