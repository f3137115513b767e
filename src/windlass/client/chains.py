"""The verbs of the client that are about chains."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any, Unpack

import msgspec

from windlass.client.around import at_once, through
from windlass.client.caller import Caller
from windlass.client.filters import make_chain_filter
from windlass.client.prepare import checked_specs
from windlass.client.waiting import wait_until
from windlass.errors import ChainNotFoundError, ValidationError
from windlass.model import names
from windlass.model import payload as payloads
from windlass.model.chain import Chain, Next
from windlass.model.job import Job, JobOptions, JobSpec, JsonText
from windlass.store.records import Complete, NewChain, NewJob


class ChainVerbs(Caller):
    """Starts chains, looks at them, changes them."""

    # ── starting ──

    async def start_chain(
        self, task: str, payload: Any = None, **options: Unpack[JobOptions]
    ) -> Chain[Any]:
        """Start a chain by its first task's name; the options are JobSpec's fields, and `key` is
        the chain's. Where an open chain has the key, that one is returned, `deduplicated`."""
        return (await self.start_chains([JobSpec(task=task, payload=payload, **options)]))[0]

    async def start_chains(self, specs: Iterable[JobSpec]) -> list[Chain[Any]]:
        """Start many chains, all or none, in the order given. Two with one key: the first wins."""
        if not self._layers:
            return await self._start(self._preparer.prepare_chains(specs))

        async def store(passed: Sequence[JobSpec]) -> list[Chain[Any]]:
            return await self._start(self._preparer.prepare_chains(passed))

        return list(await through(self._layers, checked_specs(specs), store))

    async def start_typed(self, spec: JobSpec) -> Chain[Any]:
        """Start one chain, whose payload is checked against the task's function."""
        if not self._layers:
            return (await self._start([self._preparer.prepare_chain(spec, is_typed=True)]))[0]

        async def store(passed: Sequence[JobSpec]) -> list[Chain[Any]]:
            new = [self._preparer.prepare_chain(one, is_typed=True) for one in passed]
            return await self._start(new)

        started: Chain[Any] = (await through(self._layers, [spec], store))[0]
        return started

    async def prepare_chains(self, specs: Iterable[JobSpec]) -> list[NewChain]:
        """Chains of this client's tenant as a store takes them, checked and not started: for a
        server, which fills in what it has settings for."""
        new = self._preparer.prepare_chains(specs)
        self._own_jobs(await self._opened(), [chain.job for chain in new])
        return new

    async def _start(self, new: Sequence[NewChain]) -> list[Chain[Any]]:
        store = await self._opened()
        if not new:
            return []
        self._own_jobs(store, [chain.job for chain in new])
        connection = self._connection_in(store)
        if connection is not None:
            return await store.joined(connection).astart_chains(new)
        return await store.start_chains(new)

    def prepare_chain(self, spec: JobSpec) -> NewChain:
        """A chain for a handler to start; its payload is checked where the task is known."""
        return self._preparer.prepare_chain(self._passed(spec), is_typed=False)

    def prepare_next(
        self, spec: JobSpec, meta: JsonText | None = None
    ) -> tuple[NewJob, tuple[str, ...]]:
        """The next job of a chain for a handler to go on with, and what it inherits; `meta` is that
        of the handler's own job."""
        if self._layers and spec.meta is None and meta is not None:
            spec = msgspec.structs.replace(spec, meta=payloads.decode(meta, field="meta"))
        return self._preparer.prepare_next(self._passed(spec))

    def _passed(self, spec: JobSpec) -> JobSpec:
        """What comes through the middleware of a job that is stored with another's completion: it
        runs at once, and is told of nothing that was stored."""
        if not self._layers:
            return spec
        passed = [spec]

        async def note(specs: Sequence[JobSpec]) -> list[None]:
            passed[:] = specs
            return [None]

        at_once(through(self._layers, [spec], note))
        return passed[0]

    # ── looking ──

    async def get_chain(self, id: int) -> Chain[Any] | None:
        wanted = names.check_job(id, kind="chain")
        return await (await self._opened()).get_chain(wanted, self._tenant())

    async def list_chains(
        self,
        *,
        state: str | Sequence[str] | None = None,
        task: str | None = None,
        limit: int = 50,
        after: int | None = None,
    ) -> list[Chain[Any]]:
        """A page of chains, the newest first; pass the last id as `after` for the next page. `task`
        is that of their first jobs."""
        wanted = make_chain_filter(
            state=state, task=task, limit=limit, after=after, tenant=self._tenant()
        )
        return await (await self._opened()).find_chains(wanted)

    async def chain_jobs(self, id: int) -> list[Job]:
        """The jobs of a chain that are still stored, in order; completed ones only where kept."""
        wanted = names.check_job(id, kind="chain")
        return await (await self._opened()).chain_jobs(wanted, self._tenant())

    async def blocked_jobs(self, id: int) -> list[Job]:
        """The jobs that wait for a chain, the newest first."""
        wanted = names.check_job(id, kind="chain")
        return await (await self._opened()).blocked_jobs(wanted, self._tenant())

    async def blockers(self, id: int) -> list[Chain[Any]]:
        """The chains that a job named as its blockers, in the order given."""
        wanted = names.check_job(id, kind="chain")
        return await (await self._opened()).blockers(wanted, self._tenant())

    async def wait_for_chain(self, id: int, timeout: float | timedelta | None = None) -> Chain[Any]:
        """The chain once it has ended, one way or another.

        Raises ChainNotFoundError if there is no such chain, WaitTimeoutError after `timeout`
        seconds.
        """
        wanted = names.check_job(id, kind="chain")
        names.check_seconds(timeout, "timeout")
        store = await self._opened()

        async def ended() -> Chain[Any] | None:
            chain = await store.get_chain(wanted, self._tenant())
            if chain is None:
                raise ChainNotFoundError([wanted])
            return chain if chain.state.is_final else None

        return await wait_until(ended, timeout, lambda: f"chain {id} is still open")

    # ── changing ──

    async def complete_chain(
        self, id: int, output: Any = None, *, then: Next | None = None
    ) -> Chain[Any]:
        """Complete the current job of a chain without a worker, whatever state it is in, with this
        output; or let the chain go on with another job.

        A worker that runs the job is told, and its answer is lost. Raises ChainNotFoundError, and
        ChainClosedError if the chain is completed.
        """
        wanted = names.check_job(id, kind="chain")
        inherits: tuple[str, ...] = ()
        if then is None:
            text = None if output is None else payloads.encode_value(output, field="output")
            completion = Complete(text)
        elif output is not None:
            raise ValidationError("give an output or then=, not both", field="then")
        elif not isinstance(then, Next):
            raise ValidationError(
                f"then must be a Next with a task's name and payload, as in"
                f" Next('ship', {{'order': 7}}), not {names.brief(then)}",
                field="then",
            )
        else:
            new, inherits = self._preparer.prepare_next(JobSpec(**msgspec.structs.asdict(then)))
            completion = Complete(next=new)
        store = await self._opened()
        return await store.complete_chain(wanted, completion, inherits, self._tenant())

    async def cancel_chains(self, ids: Sequence[int]) -> list[Chain[Any]]:
        """Cancel the current jobs of chains, all or none; those that run are told to stop, and
        their chains are cancelled when they do. ChainClosedError if one has ended."""
        chosen = names.check_jobs(ids, "chain")
        return await (await self._opened()).cancel_chains(chosen, self._tenant())

    async def retry_chains(self, ids: Sequence[int]) -> list[Chain[Any]]:
        """Run the failed or cancelled jobs of chains again, all or none; jobs that failed because
        of them wait again. The chains that are open by it: one that was open, or has completed,
        stays as it is."""
        chosen = names.check_jobs(ids, "chain")
        return await (await self._opened()).retry_chains(chosen, self._tenant())

    async def delete_chains(self, ids: Sequence[int], cascade: bool = False) -> list[Chain[Any]]:
        """Delete chains with their jobs, all or none; with `cascade` the chains that these jobs
        named as blockers, too. BlockerReferenceError if an open job outside needs one."""
        chosen = names.check_jobs(ids, "chain")
        if not isinstance(cascade, bool):
            raise ValidationError(
                f"cascade must be True or False, not {names.brief(cascade)}", field="cascade"
            )
        return await (await self._opened()).delete_chains(chosen, cascade, self._tenant())
