"""Stores that a server cannot work with, each because of one named thing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from tests.contract.mutant import killed_by
from windlass.model.chain import KEEP_CHAINS, KEEP_FAILED_CHAINS
from windlass.model.job import DEFAULT_TENANT, Job, JobState
from windlass.model.names import RESERVED
from windlass.store.records import ClaimRequest, Lease, NewJob, Row, Verdict
from windlass.store.server import ClaimScope, Request, Requested, Token
from windlass.stores.memory import MemoryStore, _Remembered

# ── tokens ──


@killed_by("server.a_token_is_found_by_its_digest")
class CapitalsOfDigestsDoNotCount(MemoryStore):
    async def find_token(self, digest: str) -> Token | None:
        found = (it for it in self._access.values() if it.digest.lower() == digest.lower())
        return next(found, None)


@killed_by("server.a_token_is_found_by_its_digest")
class TokensAreOfTheDefaultTenant(MemoryStore):
    async def add_token(self, token: Token) -> bool:
        return await super().add_token(replace(token, tenant=DEFAULT_TENANT))


@killed_by(
    "server.a_token_without_tasks_may_run_all",
    "server.a_token_is_found_by_its_digest",
)
class NoTasksAreAllTasks(MemoryStore):
    async def add_token(self, token: Token) -> bool:
        return await super().add_token(replace(token, tasks=token.tasks or None))


@killed_by("server.tokens_are_listed_by_name")
class TokensAreListedAsTheyCame(MemoryStore):
    async def tokens(self) -> list[Token]:
        return [*self._access.values()]


@killed_by(
    "server.tokens_are_listed_by_name",
    "server.a_token_is_revoked_once",
    "server.a_name_is_taken_for_good",
)
class RevokedTokensAreForgotten(MemoryStore):
    async def revoke_token(self, name: str) -> Token | None:
        revoked = await super().revoke_token(name)
        self._access.pop(name, None)
        return revoked


@killed_by("server.a_name_is_taken_for_good", "server.one_of_many_gets_a_name")
class ALaterTokenTakesTheName(MemoryStore):
    async def add_token(self, token: Token) -> bool:
        self._access[token.name] = token
        return True


@killed_by("server.a_token_is_revoked_once")
class RevokingAgainMovesTheInstant(MemoryStore):
    async def revoke_token(self, name: str) -> Token | None:
        token = self._access.get(name)
        if token is not None:
            token = self._access[name] = replace(token, revoked_at=self._clock.now())
        return token


@killed_by("server.a_token_ends_on_the_microsecond")
class TokensEndASecondLater(MemoryStore):
    async def add_token(self, token: Token) -> bool:
        later = None if token.expires_at is None else token.expires_at + 1_000_000
        return await super().add_token(replace(token, expires_at=later))


# ── secrets ──


@killed_by(
    "server.a_secret_is_kept_as_it_was_first",
    "server.all_get_the_same_secret",
    "server.tokens_and_secrets_outlive_their_process",
)
class SecretsAreFreshEachTime(MemoryStore):
    async def secret(self, name: str, fresh: str, tenant: str = DEFAULT_TENANT) -> str:
        return fresh


@killed_by("server.a_secret_is_kept_as_it_was_first", "server.a_secret_is_replaced")
class TenantsShareSecrets(MemoryStore):
    async def secret(self, name: str, fresh: str, tenant: str = DEFAULT_TENANT) -> str:
        return await super().secret(name, fresh)


@killed_by("server.a_secret_is_replaced")
class ASecretIsForGood(MemoryStore):
    async def replace_secret(self, name: str, fresh: str, tenant: str = DEFAULT_TENANT) -> None:
        await self.secret(name, fresh, tenant)


# ── requests that may come twice ──


@killed_by("server.a_request_adds_its_jobs")
class OneJobOfARequestIsAdded(MemoryStore):
    def _request(self, request: Request, now: int) -> Requested:
        return super()._request(replace(request, jobs=request.jobs[:1]), now)


@killed_by(
    "server.the_same_request_again_is_answered_with_its_jobs",
    "server.requests_outlive_their_process",
    "server.one_of_many_requests_is_the_first",
    "server.two_of_one_key_in_one_call",
)
class RequestsAreNotRemembered(MemoryStore):
    def _remembered(self, request: Request, now: int) -> _Remembered | None:
        return None


@killed_by("server.it_is_answered_with_them_as_they_are")
class KeptJobsAreGone(MemoryStore):
    def _jobs_now(self, ids: Sequence[int]) -> tuple[Job | None, ...]:
        return super()._jobs_now([job_id for job_id in ids if job_id in self._rows])


@killed_by("server.all_gone_it_still_is_no_new_request")
class ARequestLastsAsLongAsItsJobs(MemoryStore):
    def _remembered(self, request: Request, now: int) -> _Remembered | None:
        known = super()._remembered(request, now)
        return known if known is not None and any(self._jobs_now(known.ids)) else None


@killed_by("server.another_digest_is_a_conflict", "server.one_of_many_digests_wins")
class DigestsDoNotCount(MemoryStore):
    def _request(self, request: Request, now: int) -> Requested:
        return super()._request(replace(request, digest=""), now)


@killed_by("server.a_conflict_hinders_no_other")
class AConflictIsCheckedLikeANewRequest(MemoryStore):
    async def enqueue_once(self, requests: Sequence[Request]) -> list[Requested]:
        asked = [job for request in requests for job in request.jobs]
        self._chaining(self._clock.now()).require(asked)
        return await super().enqueue_once(requests)


@killed_by("server.a_conflict_hinders_no_other")
class AConflictStopsTheCall(MemoryStore):
    async def enqueue_once(self, requests: Sequence[Request]) -> list[Requested]:
        now = self._clock.now()
        known = [(request, self._remembered(request, now)) for request in requests]
        if any(it is not None and it.digest != request.digest for request, it in known):
            return [Requested(is_conflict=True)] * len(requests)
        return await super().enqueue_once(requests)


@killed_by("server.two_of_one_key_in_one_call")
class TheLastOfTwoCounts(MemoryStore):
    async def enqueue_once(self, requests: Sequence[Request]) -> list[Requested]:
        return (await super().enqueue_once(requests[::-1]))[::-1]


@killed_by("server.a_bulk_of_requests")
class NewRequestsAreAnsweredFirst(MemoryStore):
    async def enqueue_once(self, requests: Sequence[Request]) -> list[Requested]:
        answers = await super().enqueue_once(requests)
        return sorted(answers, key=lambda answer: not answer.is_new)


@killed_by("server.keys_of_requests_belong_to_tenants")
class TenantsShareKeysOfRequests(MemoryStore):
    def _remembered(self, request: Request, now: int) -> _Remembered | None:
        same = (it for (_, key), it in self._requests.items() if key == request.key)
        return next(same, None)


@killed_by("server.keys_of_requests_are_compared_exactly")
class CapitalsOfRequestsDoNotCount(MemoryStore):
    async def enqueue_once(self, requests: Sequence[Request]) -> list[Requested]:
        return await super().enqueue_once([replace(it, key=it.key.lower()) for it in requests])


@killed_by("server.keys_of_requests_are_no_keys_of_jobs")
class ARequestsKeyIsItsJobs(MemoryStore):
    def _request(self, request: Request, now: int) -> Requested:
        jobs = tuple(replace(new, key=new.key or request.key) for new in request.jobs)
        return super()._request(replace(request, jobs=jobs), now)


@killed_by("server.jobs_of_requests_have_keys_of_their_own")
class EachRequestIsAnsweredAtItsTime(MemoryStore):
    async def enqueue_once(self, requests: Sequence[Request]) -> list[Requested]:
        return [(await super(type(self), self).enqueue_once([it]))[0] for it in requests]


@killed_by("server.a_request_that_cannot_be_added_stores_nothing")
class RequestsAreAddedOneByOne(MemoryStore):
    async def enqueue_once(self, requests: Sequence[Request]) -> list[Requested]:
        return [(await super(type(self), self).enqueue_once([it]))[0] for it in requests]


@killed_by("server.a_request_may_wait_for_chains")
class AKnownRequestIsCheckedAgain(MemoryStore):
    async def enqueue_once(self, requests: Sequence[Request]) -> list[Requested]:
        for request in requests:
            self._chaining(self._clock.now()).require(request.jobs)
        return await super().enqueue_once(requests)


@killed_by("server.a_request_is_forgotten_after_a_day", "server.old_requests_are_pruned")
class RequestsAreKeptForEver(MemoryStore):
    def _remembered(self, request: Request, now: int) -> _Remembered | None:
        return super()._remembered(request, 0)

    async def prune(
        self,
        limit: int,
        keep_chains: float = KEEP_CHAINS,
        keep_failed_chains: float = KEEP_FAILED_CHAINS,
    ) -> int:
        known = dict(self._requests)
        self._requests.clear()
        pruned = await super().prune(limit, keep_chains, keep_failed_chains)
        self._requests.update(known)
        return pruned


@killed_by("server.old_requests_are_pruned")
class YoungRequestsArePruned(MemoryStore):
    async def prune(
        self,
        limit: int,
        keep_chains: float = KEEP_CHAINS,
        keep_failed_chains: float = KEEP_FAILED_CHAINS,
    ) -> int:
        known = list(self._requests)[:limit]
        for place in known:
            del self._requests[place]
        return len(known) + await super().prune(limit, keep_chains, keep_failed_chains)


@killed_by("server.a_request_is_forgotten_after_a_day")
class RequestsAreForgottenWhenTheyArePruned(MemoryStore):
    def _remembered(self, request: Request, now: int) -> _Remembered | None:
        return self._requests.get((request.tenant, request.key))


# ── a look before claims ──


@killed_by(
    "server.nothing_is_claimable_of_nothing",
    *(
        f"server.a_job_that_is_not_ready_is_not[{state}]"
        for state in ("scheduled", "failed", "cancelled", "blocked", "completed")
    ),
    *(f"server.jobs_of_a_paused_task_are_not[{which}]" for which in ("default", "acme", "all")),
    *(
        f"server.{case}[{tenant}]"
        for case in ("a_queue_whose_head_runs_is_not", "a_paused_queue_is_not")
        for tenant in ("", "acme")
    ),
    "server.a_queue_that_is_held_is_not",
    "server.what_is_said_of_every_state_is_true",
)
class EverythingIsClaimable(MemoryStore):
    def _may_claim(self, scope: ClaimScope) -> bool:
        return True


@killed_by(
    "server.a_ready_job_is_claimable_until_it_is_claimed",
    "server.many_scopes_are_answered_in_their_order",
    "server.a_suspect_is",
    "server.what_is_said_of_every_state_is_true",
    *(f"server.a_job_behind_a_foreign_head_is[{tenant}]" for tenant in ("", "acme")),
)
class NothingIsClaimable(MemoryStore):
    def _may_claim(self, scope: ClaimScope) -> bool:
        return False


@killed_by("server.many_scopes_are_answered_in_their_order")
class TenantsDoNotCountInALook(MemoryStore):
    def _may_claim(self, scope: ClaimScope) -> bool:
        return super()._may_claim(replace(scope, tenants=None))


@killed_by("server.many_scopes_are_answered_in_their_order")
class TheBestScopesComeFirst(MemoryStore):
    async def claimable(self, scopes: Sequence[ClaimScope]) -> list[bool]:
        return sorted(await super().claimable(scopes), reverse=True)


class _Looking(MemoryStore):
    """A store whose looks choose otherwise than its claims."""

    def _may_claim(self, scope: ClaimScope) -> bool:
        request = ClaimRequest("", scope.tasks, 1, scope.tenants, suspects=1)
        return any(True for _ in self._looked_at(list(self._choose(request)), scope))

    def _looked_at(self, rows: list[Row], scope: ClaimScope) -> Iterable[Row]:
        return rows


@killed_by("server.a_suspect_is")
class SuspectsAreNotClaimable(_Looking):
    def _looked_at(self, rows: list[Row], scope: ClaimScope) -> Iterable[Row]:
        return [row for row in rows if not row.suspect]


@killed_by(
    "server.a_job_behind_a_foreign_head_is[]",
    "server.a_job_behind_a_foreign_head_is[acme]",
)
class ALookSeesHeadsAlone(_Looking):
    def _looked_at(self, rows: list[Row], scope: ClaimScope) -> Iterable[Row]:
        ready = [row for row in self._rows.values() if row.state is JobState.READY]
        heads: dict[Any, Row] = {}
        for row in sorted(ready, key=lambda row: row.order):
            heads.setdefault(row.place or row.id, row)
        return [row for row in rows if heads[row.place or row.id] is row]


@killed_by("server.tasks_of_windlass_are_claimable_by_name_alone")
class AWorkerOfEveryTaskRunsThoseOfWindlass(MemoryStore):
    def _claimable(self, request: ClaimRequest) -> Iterable[Row]:
        if request.tasks is not None:
            return super()._claimable(request)
        tasks = tuple({row.task for row in self._rows.values()})
        return super()._claimable(replace(request, tasks=tasks))


@killed_by("server.tasks_of_windlass_are_claimable_by_name_alone")
class TasksOfWindlassAreNeverClaimable(_Looking):
    def _looked_at(self, rows: list[Row], scope: ClaimScope) -> Iterable[Row]:
        return [row for row in rows if not row.task.startswith(RESERVED)]


@killed_by("server.tasks_of_windlass_are_claimable_by_name_alone")
class TasksThatBeginAlikeAreNotClaimable(_Looking):
    def _looked_at(self, rows: list[Row], scope: ClaimScope) -> Iterable[Row]:
        everyone = scope.tasks is None
        return [row for row in rows if not (everyone and row.task.startswith(RESERVED[:7]))]


@killed_by(
    *(f"server.jobs_of_a_paused_task_are_not[{which}]" for which in ("default", "acme", "all"))
)
class PausesAreNotLookedAt(MemoryStore):
    def _may_claim(self, scope: ClaimScope) -> bool:
        paused, self._paused = self._paused, set()
        try:
            return super()._may_claim(scope)
        finally:
            self._paused = paused


@killed_by("server.a_request_adds_its_jobs")
class RequestedJobsAreDueAtOnce(MemoryStore):
    def _add(self, new: NewJob, now: int) -> Row:
        return super()._add(replace(new, delay=0), now)


# ── deliveries that change hands ──


@killed_by(
    "server.a_delivery_that_moved_goes_back_with_its_new_worker",
    "server.a_delivery_that_moved_lives_with_its_new_worker",
)
class AMoveIsARenewal(MemoryStore):
    async def move(self, lease: Lease, worker: str, seconds: float) -> Verdict:
        self.renew(worker, seconds, [])
        return Verdict.APPLIED if self._owned(lease) else self._refusal(lease)


@killed_by("server.only_the_delivery_that_owns_the_job_moves")
class AnyDeliveryMoves(MemoryStore):
    async def move(self, lease: Lease, worker: str, seconds: float) -> Verdict:
        row = self._rows.get(lease.job_id)
        return await super().move(lease if row is None else _lease_of(lease, row), worker, seconds)


def _lease_of(lease: Lease, row: Row) -> Lease:
    return replace(lease, token=row.token or 0)


@killed_by("server.a_delivery_that_moved_lives_with_its_new_worker")
class AMoveGivesNoLease(MemoryStore):
    async def move(self, lease: Lease, worker: str, seconds: float) -> Verdict:
        return await super().move(lease, worker, 0.0)


@killed_by("server.a_delivery_that_moved_is_proved_by_the_same_lease")
class AMoveChangesTheToken(MemoryStore):
    async def move(self, lease: Lease, worker: str, seconds: float) -> Verdict:
        verdict = await super().move(lease, worker, seconds)
        if (row := self._owned(lease)) is not None:
            row.token = (row.token or 0) + 1
        return verdict
