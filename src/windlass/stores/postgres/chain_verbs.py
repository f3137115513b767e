"""The verbs of `ChainStore`: each one call of one SQL function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.model.chain import Chain
from windlass.model.job import Job, JobState
from windlass.store.records import ChainFilter, Complete, NewChain, Row
from windlass.stores.postgres import find
from windlass.stores.postgres.adding import Adding
from windlass.stores.postgres.calls import Calls
from windlass.stores.postgres.links import Links, decode_chain_rows, decode_chains
from windlass.stores.postgres.refusals import told_plainly
from windlass.stores.postgres.waking import Waking

_row = msgspec.json.Decoder(Row).decode


class ChainVerbs:
    """A part of the store, which has these."""

    _calls: Calls
    _adding: Adding
    _waking: Waking

    async def start_chains(self, chains: Sequence[NewChain]) -> list[Chain[Any]]:
        self._calls.refuse_closed()
        if not chains:
            return []
        started = await self._adding.start(chains)
        jobs = [chain.job for chain in started if chain.job is not None]
        if any(job.state is not JobState.SCHEDULED for job in jobs):
            self._waking.hint_here()
        self._waking.hint_scheduled(jobs)
        return started

    async def get_chain(self, chain_id: int, tenant: str | None = None) -> Chain[Any] | None:
        found = await self._shown(*find.one_chain(chain_id, tenant))
        return found[0] if found else None

    async def find_chains(self, wanted: ChainFilter) -> list[Chain[Any]]:
        return await self._shown(*find.chains(wanted))

    async def _shown(self, statement: str, values: Sequence[Any]) -> list[Chain[Any]]:
        [text] = await self._calls.row(statement, *values)
        return decode_chains(text)

    async def chain_jobs(self, chain_id: int, tenant: str | None = None) -> list[Job]:
        return await self._jobs(find.CHAIN_JOBS, chain_id, tenant, chain_id, tenant)

    async def blocked_jobs(self, chain_id: int, tenant: str | None = None) -> list[Job]:
        return await self._jobs(find.BLOCKED_JOBS, chain_id, tenant)

    async def _jobs(self, statement: str, *values: Any) -> list[Job]:
        found = await self._calls.rows(statement, *values)
        return [_row(text).job() for [text] in found]

    async def blockers(self, job_id: int, tenant: str | None = None) -> list[Chain[Any]]:
        found = await self._calls.rows(find.BLOCKERS, job_id, tenant, job_id, tenant)
        return [chain for [text] in found for chain in decode_chain_rows(text)]

    async def complete_chain(
        self,
        chain_id: int,
        completion: Complete,
        inherits: Sequence[str] = (),
        tenant: str | None = None,
    ) -> Chain[Any]:
        nexts = Links()
        if completion.next is not None:
            nexts.add(completion.next, 1)
        [chain] = await self._change(
            "_complete_chain(%s, %s::json, %s, %s::json, %s::text[], %s, %s)",
            chain_id,
            completion.output,
            completion.keep,
            nexts.text,
            list(inherits),
            tenant,
        )
        return chain

    async def cancel_chains(
        self, ids: Sequence[int], tenant: str | None = None
    ) -> list[Chain[Any]]:
        return await self._change("_cancel_chains(%s::bigint[], %s, %s)", list(ids), tenant)

    async def retry_chains(self, ids: Sequence[int], tenant: str | None = None) -> list[Chain[Any]]:
        return await self._change("_retry_chains(%s::bigint[], %s, %s)", list(ids), tenant)

    async def _change(self, call: str, *values: Any) -> list[Chain[Any]]:
        """Call a function that answers with the chains it changed; `now` is its last argument."""
        with told_plainly():
            [text] = await self._calls.patient_row(
                f"SELECT {{schema}}.{call}", *values, self._calls.now
            )
        self._waking.hint()
        self._waking.hint_due_here()
        changed = decode_chains(text)
        self._waking.hint_scheduled([chain.job for chain in changed if chain.job is not None])
        return changed

    async def delete_chains(
        self, ids: Sequence[int], cascade: bool = False, tenant: str | None = None
    ) -> list[Chain[Any]]:
        with told_plainly():
            [text] = await self._calls.patient_row(
                "SELECT {schema}._delete_chains(%s::bigint[], %s, %s, %s)",
                list(ids),
                cascade,
                tenant,
                self._calls.now,
            )
        self._waking.hint()
        self._waking.hint_due_here()
        return decode_chain_rows(text)
