"""What a case is, how a module collects its own, and how one is run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from windlass.clock import Clock
from windlass.store.port import Store
from windlass.testing.clock import FakeClock
from windlass.testing.contract.kit import Kit

Body = Callable[[Kit], Awaitable[None]]
Connect = Callable[[], Store]


class StoreFactory(Protocol):
    """Makes one fresh, empty database; what the context yields makes unopened stores on it."""

    def __call__(
        self, clock: Clock, /
    ) -> AbstractContextManager[Connect] | AbstractAsyncContextManager[Connect]: ...


@dataclass(frozen=True)
class Case:
    """One rule of the contract; `group` is the module it is in."""

    group: str
    name: str
    body: Body

    def __str__(self) -> str:
        return f"{self.group}.{self.name}"


class Group:
    """The cases of one module: call it on a coroutine function, or `each` on a family."""

    def __init__(self, module: str) -> None:
        self._name = module.rpartition(".")[2]
        self.cases: list[Case] = []

    def __call__(self, body: Body) -> Body:
        self._register(body.__name__, body)
        return body

    def each(self, *members: tuple[str, ...]) -> Callable[[Callable[..., Any]], None]:
        """A case for each member: its words are the further arguments, and part of the name."""

        def register(body: Callable[..., Any]) -> None:
            for words in members:
                self._register(f"{body.__name__}[{'-'.join(words)}]", partial(_with, body, words))

        return register

    def _register(self, name: str, body: Body) -> None:
        if any(case.name == name for case in self.cases):
            raise ValueError(f"two cases of {self._name} are called {name}")
        self.cases.append(Case(self._name, name, body))


async def _with(body: Callable[..., Awaitable[None]], words: tuple[str, ...], kit: Kit) -> None:
    await body(kit, *words)


def run(case: Case, factory: StoreFactory) -> None:
    """Run one case on a fresh database of `factory`; AssertionError means the store is wrong.

    Raises RuntimeError under `python -O`, which would drop the assertions and prove nothing.
    """
    if not __debug__:
        raise RuntimeError("the contract suite asserts; run it without -O")
    asyncio.run(_run(case, factory))


async def _run(case: Case, factory: StoreFactory) -> None:
    clock = FakeClock()
    async with AsyncExitStack() as stack:
        database = factory(clock)
        if isinstance(database, AbstractAsyncContextManager):
            connect = await stack.enter_async_context(database)
        else:
            connect = stack.enter_context(database)
        kit = Kit(connect, clock)
        stack.push_async_callback(kit.close)
        await kit.open()
        await case.body(kit)
