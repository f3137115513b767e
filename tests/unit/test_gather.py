"""Concurrent enqueues share a call; what one of them has wrong is its own caller's affair."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from windlass.clock import SYSTEM
from windlass.errors import OutcomeUnknownError, StoreError
from windlass.model.job import Job
from windlass.store import rules
from windlass.store.records import NewJob
from windlass.stores.postgres import gather
from windlass.stores.postgres.gather import Gather

Answer = asyncio.Task[list[Job]]


class Bench:
    """Writes are let through by hand: while `is_open` is not set they are in flight."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.error: Callable[[list[str]], Exception | None] = lambda tasks: None
        self.is_open = asyncio.Event()
        self.gather = Gather(self._add, lambda new: len(new.payload))

    async def _add(self, jobs: Sequence[NewJob]) -> list[Job]:
        tasks = [job.task for job in jobs]
        self.calls.append(tasks)
        await self.is_open.wait()
        if (error := self.error(tasks)) is not None:
            raise error
        return [rules.new_row(job, SYSTEM.now(), n).job() for n, job in enumerate(jobs)]

    async def submit(self, *tasks: str) -> Answer:
        """An enqueue that has come as far as it does by itself."""
        answer = asyncio.ensure_future(self.gather.add([NewJob(task) for task in tasks]))
        await asyncio.sleep(0)
        return answer


def with_a_bench(scenario: Callable[[Bench], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(30):
            await scenario(Bench())

    asyncio.run(run())


async def tasks(answer: Answer) -> list[str]:
    return [job.task for job in await answer]


def test_what_comes_during_a_call_goes_together_with_the_next() -> None:
    async def scenario(bench: Bench) -> None:
        answers = [await bench.submit(*names) for names in ("a", "b", "cd", "e")]
        bench.is_open.set()
        assert [await tasks(each) for each in answers] == [["a"], ["b"], ["c", "d"], ["e"]]
        assert bench.calls == [["a"], ["b", "c", "d", "e"]]

    with_a_bench(scenario)


def test_one_caller_after_the_other_needs_no_task_besides() -> None:
    async def scenario(bench: Bench) -> None:
        bench.is_open.set()
        seen: list[int] = []
        bench.error = lambda names: seen.append(len(asyncio.all_tasks()))
        for name in "abc":
            await bench.gather.add([NewJob(name)])
        assert bench.calls == [["a"], ["b"], ["c"]]
        assert seen == [1, 1, 1]

    with_a_bench(scenario)


def test_those_who_were_answered_together_go_together_again() -> None:
    async def scenario(bench: Bench) -> None:
        async def add_three(name: str) -> None:
            for _ in range(3):
                await bench.gather.add([NewJob(name)])

        callers = [asyncio.ensure_future(add_three(name)) for name in "abcd"]
        await asyncio.sleep(0)
        bench.is_open.set()
        await asyncio.gather(*callers)
        assert [len(call) for call in bench.calls] == [1, 4, 4, 3]

    with_a_bench(scenario)


def test_a_refusal_is_its_own_callers() -> None:
    async def scenario(bench: Bench) -> None:
        bench.error = lambda names: StoreError("no") if "bad" in names else None
        first, good, bad, fine = [
            await bench.submit(name) for name in ("first", "good", "bad", "fine")
        ]
        bench.is_open.set()
        assert [await tasks(each) for each in (first, good, fine)] == [
            ["first"],
            ["good"],
            ["fine"],
        ]
        with pytest.raises(StoreError, match="no"):
            await bad

    with_a_bench(scenario)


@pytest.mark.parametrize(
    "error", [OutcomeUnknownError("lost"), OverflowError("an answer that cannot be read")]
)
def test_what_is_no_refusal_is_everybodys_and_never_written_again(error: Exception) -> None:
    async def scenario(bench: Bench) -> None:
        bench.error = lambda names: error
        answers = [await bench.submit(name) for name in "abc"]
        bench.is_open.set()
        for answer in answers:
            with pytest.raises(type(error)):
                await answer
        assert bench.calls == [["a"], ["b", "c"]]

    with_a_bench(scenario)


def test_large_payloads_do_not_gather_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "MOST_TEXT", 4)

    async def scenario(bench: Bench) -> None:
        answers = [await bench.submit(name) for name in "abcde"]
        bench.is_open.set()
        await asyncio.gather(*answers)
        assert bench.calls == [["a"], ["b", "c"], ["d", "e"]]

    with_a_bench(scenario)


def test_one_call_has_its_limit_and_a_large_one_goes_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gather, "MOST_AT_ONCE", 3)

    async def scenario(bench: Bench) -> None:
        answers = [await bench.submit(*names) for names in ("0", "a", "bc", "d", "eeeee")]
        bench.is_open.set()
        await asyncio.gather(*answers)
        assert bench.calls == [["0"], ["a", "b", "c"], ["d"], ["e"] * 5]

    with_a_bench(scenario)


def test_a_caller_that_went_away_is_left_out() -> None:
    async def scenario(bench: Bench) -> None:
        first, gone, stays = [await bench.submit(name) for name in ("first", "gone", "stays")]
        gone.cancel()
        bench.is_open.set()
        assert await tasks(first) == ["first"]
        assert await tasks(stays) == ["stays"]
        assert bench.calls == [["first"], ["stays"]]

    with_a_bench(scenario)


@pytest.mark.parametrize("name", ["first", "second"])
def test_who_is_cancelled_during_its_call_takes_nobody_along(name: str) -> None:
    async def scenario(bench: Bench) -> None:
        answers = {each: await bench.submit(each) for each in ("first", "second", "third")}
        if name == "second":
            bench.is_open.set()
            await answers["first"]
            bench.is_open.clear()
            await asyncio.sleep(0)
            assert bench.calls[-1] == ["second", "third"]
        answers.pop(name).cancel()
        await asyncio.sleep(0)
        bench.is_open.set()
        for each, answer in answers.items():
            assert await tasks(answer) == [each]
        assert await tasks(await bench.submit("later")) == ["later"]

    with_a_bench(scenario)


def test_a_loop_that_ends_leaves_nobody_waiting() -> None:
    ended: list[str] = []

    async def run() -> None:
        bench = Bench()
        for name in "abc":
            answer = await bench.submit(name)
            answer.add_done_callback(lambda done: ended.append("cancelled"))
            assert not answer.done()

    asyncio.run(run())
    assert ended == ["cancelled"] * 3
