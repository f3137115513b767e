"""Slots that ask for jobs before they go on with what was taken ahead.

The buffer holds what was claimable at the last claim. Two kinds of jobs become claimable later and
must not wait until it is used up:

* The next job of a serial queue, once the settlement of the one before is written. The slot that
  ran that one does not start a less urgent job before a claim that began after the settlement was
  answered. So with one slot jobs run in order of priority, queues or not.
* Suspects, which are claimed for free slots only. Where jobs are always taken ahead no slot is ever
  free, so once in a while one stays free for the time of a claim.

A slot that asks is free: it takes what the claim brings, or else goes on with the buffer. It waits
for one try to settle and for one claim, however they end, and for no other slot.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from windlass.engine.delivery import Delivery


class Ask:
    """One slot's question. It `is_ripe` when a claim that begins now can answer it.

    `after` is the job of a serial queue that the slot ran last; none is for suspects.
    """

    __slots__ = ("after", "answered", "is_ripe")

    def __init__(self, after: Delivery | None, *, is_ripe: bool) -> None:
        self.after = after
        self.is_ripe = is_ripe
        self.answered: asyncio.Future[bool] = asyncio.get_running_loop().create_future()


class Asks:
    """The questions of one worker's slots; `hungry` wakes the claimer."""

    def __init__(self, hungry: Callable[[], None]) -> None:
        self._hungry = hungry
        self._open: list[Ask] = []
        self.for_suspects = False
        """Whether the next slot that ends a job is to ask for suspects."""

    @property
    def are_ripe(self) -> bool:
        return any(ask.is_ripe for ask in self._open)

    def ripe(self) -> list[Ask]:
        """Those that the next claim answers."""
        return [ask for ask in self._open if ask.is_ripe]

    def put(self, after: Delivery | None, *, is_ripe: bool) -> asyncio.Future[bool]:
        """Ask: True when a claim has answered, False when the buffer has a job that will do."""
        ask = Ask(after, is_ripe=is_ripe)
        self._open.append(ask)
        self._hungry()
        return ask.answered

    def settled(self, batch: Sequence[Delivery]) -> None:
        """These settlements are written, or could not be for now: what follows may be there."""
        if self._open:
            tried = set(map(id, batch))
            for ask in self._open:
                ask.is_ripe = ask.is_ripe or id(ask.after) in tried
            if self.are_ripe:
                self._hungry()

    def answer(self, asks: Sequence[Ask], *, by_claim: bool = True) -> None:
        """Let their slots go on."""
        for ask in asks:
            if not ask.answered.done():
                ask.answered.set_result(by_claim)
        if self._open:
            self._open = [ask for ask in self._open if not ask.answered.done()]

    def answer_all(self) -> None:
        self.answer(self._open)

    def satisfy(self, head: Delivery) -> None:
        """There is a job in the buffer that slots may take without an answer: let those go on."""
        if self._open:
            fitting = [ask for ask in self._open if may_follow(head, ask.after)]
            self.answer(fitting, by_claim=False)


def may_follow(head: Delivery, after: Delivery | None) -> bool:
    """Whether a slot may start `head`, the first in the buffer, after it ran `after`."""
    lease = head.lease
    return lease.suspect or (after is not None and lease.priority <= after.lease.priority)
