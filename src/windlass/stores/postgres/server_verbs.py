"""The verbs of `ServerStore`: what servers keep beside jobs, each one call of one SQL function."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from windlass.model.job import DEFAULT_TENANT, JobState
from windlass.store.records import Lease, Verdict
from windlass.store.server import ClaimScope, Request, Requested, Token
from windlass.stores.postgres.adding import Adding
from windlass.stores.postgres.calls import Calls
from windlass.stores.postgres.requests import encode_scopes
from windlass.stores.postgres.waking import Waking

_token = msgspec.json.Decoder(Token).decode
_TOKENS = "SELECT {schema}._token_text(t) FROM {schema}._tokens AS t"


class ServerVerbs:
    """A part of the store, which has these."""

    _calls: Calls
    _adding: Adding
    _waking: Waking

    # ── tokens ──

    async def add_token(self, token: Token) -> bool:
        [is_added] = await self._calls.patient_row(
            "SELECT {schema}._add_token(%s::json)", msgspec.json.encode(token).decode()
        )
        return bool(is_added)

    async def find_token(self, digest: str) -> Token | None:
        found = await self._calls.rows(f"{_TOKENS} WHERE t.digest = %s LIMIT 1", digest)
        return _token(found[0][0]) if found else None

    async def tokens(self) -> list[Token]:
        found = await self._calls.rows(f'{_TOKENS} ORDER BY t.name COLLATE "C"')
        return [_token(text) for [text] in found]

    async def revoke_token(self, name: str) -> Token | None:
        [text] = await self._calls.patient_row(
            "SELECT {schema}._revoke_token(%s, %s)", name, self._calls.now
        )
        return None if text is None else _token(text)

    # ── secrets ──

    async def secret(self, name: str, fresh: str, tenant: str = DEFAULT_TENANT) -> str:
        [value] = await self._calls.patient_row(
            "SELECT {schema}._secret(%s, %s, %s)", tenant, name, fresh
        )
        return str(value)

    async def replace_secret(self, name: str, fresh: str, tenant: str = DEFAULT_TENANT) -> None:
        await self._calls.patient_row(
            "SELECT {schema}._replace_secret(%s, %s, %s)", tenant, name, fresh
        )

    # ── requests that may come twice ──

    async def enqueue_once(self, requests: Sequence[Request]) -> list[Requested]:
        self._calls.refuse_closed()
        if not requests:
            return []
        answers = await self._adding.add_once(requests)
        new = [job for answer in answers if answer.is_new for job in answer.jobs if job is not None]
        if any(job.state is not JobState.SCHEDULED for job in new):
            self._waking.hint_here()
        self._waking.hint_scheduled(new)
        return answers

    # ── deliveries that change hands ──

    async def move(self, lease: Lease, worker: str, seconds: float) -> Verdict:
        [verdict] = await self._calls.row(
            "SELECT {schema}._move(%s, %s, %s, %s, %s, %s)",
            *(lease.job_id, lease.token, lease.chain, worker, seconds),
            self._calls.now,
        )
        return Verdict(verdict)

    # ── a look before claims ──

    async def claimable(self, scopes: Sequence[ClaimScope]) -> list[bool]:
        if not scopes:
            return []
        [answers] = await self._calls.row(
            "SELECT {schema}._may_claim(%s::json)", encode_scopes(scopes)
        )
        return list(answers)
