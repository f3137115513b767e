"""Concurrent enqueues share a call; what one of them has wrong is its own caller's affair."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future

import pytest

from windlass.clock import SYSTEM
from windlass.errors import OutcomeUnknownError, StoreClosedError, StoreError
from windlass.model.job import Job
from windlass.store import rules
from windlass.store.records import NewJob
from windlass.stores.postgres import gather
from windlass.stores.postgres.gather import Gather


class Bench:
    """Writes are done by hand: `write` does what a thread of the crew would do."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.started: list[Callable[[], None]] = []
        self.error: Callable[[list[str]], Exception | None] = lambda tasks: None
        self.gather = Gather(self._add, self.started.append)

    def _add(self, jobs: Sequence[NewJob]) -> list[Job]:
        tasks = [job.task for job in jobs]
        self.calls.append(tasks)
        if (error := self.error(tasks)) is not None:
            raise error
        return [rules.new_row(job, SYSTEM.now(), n).job() for n, job in enumerate(jobs)]

    def submit(self, *tasks: str) -> Future[list[Job]]:
        return self.gather.submit([NewJob(task) for task in tasks])

    def write(self) -> None:
        self.started.pop(0)()


def tasks(answer: Future[list[Job]]) -> list[str]:
    return [job.task for job in answer.result(0)]


def test_what_waits_goes_together_and_comes_back_to_its_callers() -> None:
    bench = Bench()
    answers = [bench.submit("a"), bench.submit("b", "c"), bench.submit("d")]
    assert len(bench.started) == 1
    bench.write()
    assert bench.calls == [["a", "b", "c", "d"]]
    assert [tasks(answer) for answer in answers] == [["a"], ["b", "c"], ["d"]]
    last = bench.submit("e")
    bench.write()
    assert tasks(last) == ["e"]


def test_what_comes_during_a_call_goes_with_the_next() -> None:
    bench = Bench()
    late: list[Future[list[Job]]] = []

    def add_more(names: list[str]) -> Exception | None:
        if names == ["a"]:
            late.append(bench.submit("b"))
        return None

    bench.error = add_more
    bench.submit("a")
    bench.write()
    assert bench.calls == [["a"], ["b"]]
    assert tasks(late[0]) == ["b"]
    assert bench.started == []


def test_a_refusal_is_its_own_callers() -> None:
    bench = Bench()
    bench.error = lambda names: StoreError("no") if "bad" in names else None
    good, bad, fine = bench.submit("good"), bench.submit("bad"), bench.submit("fine")
    bench.write()
    assert (tasks(good), tasks(fine)) == (["good"], ["fine"])
    with pytest.raises(StoreError, match="no"):
        bad.result(0)


def test_an_unknown_outcome_is_everybodys_and_never_written_again() -> None:
    bench = Bench()
    bench.error = lambda names: OutcomeUnknownError("lost")
    answers = [bench.submit("a"), bench.submit("b")]
    bench.write()
    assert bench.calls == [["a", "b"]]
    for answer in answers:
        with pytest.raises(OutcomeUnknownError):
            answer.result(0)


def test_what_is_no_refusal_is_never_written_again() -> None:
    bench = Bench()
    bench.error = lambda names: OverflowError("an answer that cannot be read")
    answers = [bench.submit("a"), bench.submit("b")]
    bench.write()
    assert bench.calls == [["a", "b"]]
    for answer in answers:
        with pytest.raises(OverflowError):
            answer.result(0)


def test_large_payloads_do_not_gather_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "MOST_TEXT", 4)
    bench = Bench()
    for name in "abcd":
        bench.submit(name)
    bench.write()
    assert bench.calls == [["a", "b"], ["c", "d"]]


def test_one_call_has_its_limit_and_a_large_one_goes_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gather, "MOST_AT_ONCE", 3)
    bench = Bench()
    for names in (["a"], ["b", "c"], ["d"], ["e"] * 5):
        bench.submit(*names)
    bench.write()
    assert bench.calls == [["a", "b", "c"], ["d"], ["e"] * 5]


def test_a_caller_that_went_away_is_left_out() -> None:
    bench = Bench()
    gone, stays = bench.submit("gone"), bench.submit("stays")
    assert gone.cancel()
    bench.write()
    assert bench.calls == [["stays"]]
    assert tasks(stays) == ["stays"]


def test_a_closed_store_refuses_and_can_be_opened_again() -> None:
    bench = Bench()
    is_closed = threading.Event()
    is_closed.set()

    def start(write: Callable[[], None]) -> None:
        if is_closed.is_set():
            raise StoreClosedError("closed")
        bench.started.append(write)

    bench.gather = Gather(bench._add, start)
    with pytest.raises(StoreClosedError):
        bench.submit("a").result(0)
    is_closed.clear()
    answer = bench.submit("b")
    bench.write()
    assert tasks(answer) == ["b"]
    assert bench.calls == [["b"]]
