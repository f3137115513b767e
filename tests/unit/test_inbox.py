"""The writer's inbox: nothing is lost, and a wait that is over ends."""

from __future__ import annotations

import threading

from tests.patience import PATIENCE
from windlass.stores.sqlite.inbox import Inbox


def test_items_come_out_in_order_and_once() -> None:
    inbox: Inbox[int] = Inbox()
    for n in range(3):
        inbox.put(n)
    assert inbox.take() == [0, 1, 2]
    assert inbox.take() == []


def test_what_was_put_in_before_ends_the_wait() -> None:
    inbox: Inbox[int] = Inbox()
    inbox.put(1)
    inbox.put(2)
    inbox.wait(None)
    assert inbox.take() == [1, 2]


def test_a_timeout_that_has_passed_when_the_wait_begins_ends_it() -> None:
    """Each turn leaves the bell as a `get_nowait` after a put does: this is where a SimpleQueue
    waits for ever, within some thousand turns."""
    ended = threading.Event()

    def turns() -> None:
        inbox: Inbox[int] = Inbox()
        for _ in range(20_000):
            inbox.wait(1e-7)
            inbox.put(1)
            assert inbox.take() == [1]
        ended.set()

    threads = [threading.Thread(target=turns, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert ended.is_set()


def test_no_item_of_many_threads_is_overlooked() -> None:
    inbox: Inbox[int] = Inbox()
    number, each = 4, 5_000

    def put(first: int) -> None:
        for n in range(first, first + each):
            inbox.put(n)

    threads = [threading.Thread(target=put, args=(n * each,)) for n in range(number)]
    for thread in threads:
        thread.start()
    taken: list[int] = []
    while len(taken) < number * each:
        inbox.wait(PATIENCE)
        found = inbox.take()
        assert found or not taken or any(thread.is_alive() for thread in threads)
        taken += found
    for thread in threads:
        thread.join()
    assert sorted(taken) == list(range(number * each))
