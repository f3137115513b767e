"""Every pair of verbs that write: one is stopped inside its transaction while the other runs.

The verbs come from the port (see `verbs`), so a new one is in all pairs by itself. For each pair:
neither call fails, a worker's call does not wait for what a user may hold, and afterwards no job
is lost, doubled, stranded or held by a lease that no claim was given.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator

import pytest

from tests import leaks
from tests.postgres.cluster import Cluster, fresh_database, shared_cluster
from tests.postgres.pairs import gates
from tests.postgres.pairs.gates import GATES, Deadline, Gate
from tests.postgres.pairs.verbs import FORMS, READS, Form, Told
from tests.postgres.pairs.world import World
from windlass.errors import StoreBusyError
from windlass.store.port import Store
from windlass.store.server import ServerStore
from windlass.stores.postgres import PostgresStore

PAUSE = 0.001
QUICK = ("claim", "settle fail")
"""The forms that are stopped at once; the others are for `make test-all`."""


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    with asyncio.Runner() as runner:
        yield runner.get_loop()


@pytest.fixture(scope="module")
@leaks.grows
def world(loop: asyncio.AbstractEventLoop) -> Iterator[World]:
    cluster: Cluster = shared_cluster(18)
    with fresh_database(cluster) as url:
        made = World(url)
        loop.run_until_complete(made.open())
        yield made
        loop.run_until_complete(made.close())


def test_every_verb_of_the_port_that_writes_has_a_form() -> None:
    verbs = {
        name
        for kind in (*Store.__mro__, ServerStore)
        for name, member in vars(kind).items()
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property))
    }
    written = {form.verb for form in FORMS}
    assert verbs - READS - written == set(), "give the new verb a form in verbs.py"
    assert (written | READS) - verbs == set(), "there is no such verb in the port any more"
    assert len({form.name for form in FORMS}) == len(FORMS)


def _pairs() -> Iterator[object]:
    for gate in GATES:
        for held in FORMS:
            is_quick = gate == "commit" and held.name in QUICK
            marks = () if is_quick else (pytest.mark.rig,)
            yield pytest.param(held, gate, marks=marks, id=f"{held}-{gate}")


@pytest.mark.parametrize(("held", "gate"), list(_pairs()))
def test_pairs(loop: asyncio.AbstractEventLoop, world: World, held: Form, gate: Gate) -> None:
    wrong: dict[str, str] = {}
    for other in FORMS:
        try:
            loop.run_until_complete(_meet(world, held, other, gate))
        except Exception as error:  # every pair is tried, and all that fail are told
            wrong[f"{held}, stopped at its {gate}, beside {other}"] = (
                f"{type(error).__name__}: {error}"
            )
    assert wrong == {}


async def _meet(world: World, held: Form, other: Form, gate: Gate) -> None:
    await world.begin()
    with gates.shut(world.watcher, gate):
        first = asyncio.ensure_future(_call(world, held, world.held))
        holders = await _until_stopped(world, first, gate)
        # What a user may hold must not keep a worker or an enqueue for long: it ends by itself.
        may_wait = not (held.in_user_transaction and other.never_waits)
        second = asyncio.ensure_future(_call(world, other, world.free, may_be_busy=may_wait))
        await _until_done_or_waiting(world, second, holders if may_wait else [])
    answers = await asyncio.gather(first, second)
    await world.check(
        [job_id for answer in answers for job_id in answer.added],
        [job_id for answer in answers for job_id in answer.ended],
        [lease for answer in answers for lease in answer.leases],
    )


async def _call(
    world: World, form: Form, store: PostgresStore, *, may_be_busy: bool = True
) -> Told:
    """What it says; nothing, where it says that the other one is in the way."""
    try:
        return await form.call(world, store, "first" if store is world.held else "second")
    except StoreBusyError:
        if not may_be_busy:
            raise
        return Told()


async def _until_stopped(world: World, call: asyncio.Future[Told], gate: Gate) -> list[int]:
    """Wait until the call is at the gate, or over because it has nothing to write."""
    deadline = Deadline(f"the call to reach its {gate}")
    while True:
        stopped = gates.stopped_at(world.watcher, gate)
        if stopped or call.done():
            return stopped
        deadline.check()
        await asyncio.sleep(PAUSE)


async def _until_done_or_waiting(
    world: World, call: asyncio.Future[Told], holders: list[int]
) -> None:
    """Wait until the call is over, or waits for a lock of these processes."""
    deadline = Deadline("the other call to end or to wait for a lock")
    while not call.done() and not (holders and gates.waiting_for(world.watcher, holders)):
        deadline.check()
        await asyncio.sleep(PAUSE)
