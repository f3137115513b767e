"""Claims over REST: long polls, settling, renewing, and callers that go away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import msgspec
import pytest

from tests.server.rest.kit import HERE, Kit, counted, problem, served
from windlass import JobState
from windlass.server.tokens import digest_of, make_token
from windlass.store.records import ClaimRequest, Lease, NewJob
from windlass.store.server import Token

Body = dict[str, Any]


async def claim(caller: httpx.AsyncClient, **body: Any) -> list[Any]:
    answer = await caller.post("/v1/claims", json=body)
    assert answer.status_code == 200, answer.text
    claims: list[Any] = answer.json()["claims"]
    return claims


async def settle(caller: httpx.AsyncClient, *outcomes: Body) -> list[str]:
    answer = await caller.post("/v1/claims/settle", json={"outcomes": outcomes})
    assert answer.status_code == 200, answer.text
    results: list[str] = answer.json()["results"]
    return results


def test_each_outcome_does_what_it_says() -> None:
    async def check(kit: Kit) -> None:
        worker = kit.caller()
        client = kit.app.client
        for _ in range(6):
            await client.add_job("mail", keep=60)
        claims = await claim(worker, count=10)
        assert [each["job"]["id"] for each in claims] == [1, 2, 3, 4, 5, 6]
        assert {each["job"]["state"] for each in claims} == {"running"}
        done, failed, nacked, left, poison, kept = [each["lease"] for each in claims]
        results = await settle(
            worker,
            {"lease": done, "outcome": "completed", "output": {"sent": [1, None]}},
            {"lease": failed, "outcome": "failed", "error": "no route"},
            {"lease": nacked, "outcome": "nack", "delay": 40, "reason": "busy"},
            {"lease": left, "outcome": "abandon"},
            {"lease": poison, "outcome": "poison", "error": "bad address"},
            {"lease": "made up", "outcome": "completed"},
            {"lease": kept[:-4] + "AAAA", "outcome": "completed"},
        )
        assert results == ["applied"] * 5 + ["missing"] * 2
        jobs = {job.id: job for job in await client.list_jobs()}
        now = await kit.store.now()
        assert jobs[1].state == "completed" and jobs[1].output == {"sent": [1, None]}
        assert (jobs[2].state, jobs[2].attempts, jobs[2].last_error) == ("scheduled", 1, "no route")
        assert jobs[3].state == "scheduled" and jobs[3].last_error == "busy"
        assert jobs[3].run_at.timestamp() * 1e6 - now == pytest.approx(40e6, abs=1e6)
        assert (jobs[4].state, jobs[4].attempts) == ("ready", 0)
        assert (jobs[5].state, jobs[5].last_error) == ("failed", "bad address")
        assert jobs[6].state == "running"

    served(check)


def test_settling_twice_is_told() -> None:
    async def check(kit: Kit) -> None:
        worker = kit.caller()
        kept = await kit.app.client.add_job("mail", keep=60)
        await kit.app.client.add_job("mail")
        leases = [each["lease"] for each in await claim(worker, count=2)]
        outcomes = [{"lease": lease, "outcome": "completed"} for lease in leases]
        assert await settle(worker, *outcomes) == ["applied", "applied"]
        assert await settle(worker, *outcomes) == ["lost", "missing"]
        assert await settle(worker) == []
        assert (await kit.app.client.get_job(kept.id)).state == "completed"  # type: ignore[union-attr]

    served(check)


def test_a_job_without_attempts_left_has_failed() -> None:
    async def check(kit: Kit) -> None:
        worker = kit.caller()
        job = await kit.app.client.add_job("mail", max_attempts=1)
        [one] = await claim(worker)
        assert await settle(worker, {"lease": one["lease"], "outcome": "nack"}) == ["applied"]
        assert (await kit.app.client.get_job(job.id)).state == "failed"  # type: ignore[union-attr]

    served(check)


def test_an_output_that_cannot_be_kept_settles_nothing() -> None:
    async def check(kit: Kit) -> None:
        worker = kit.caller()
        for _ in range(2):
            await kit.app.client.add_job("mail", keep=60)
        one, two = [each["lease"] for each in await claim(worker, count=2)]
        answer = await worker.post(
            "/v1/claims/settle",
            json={
                "outcomes": [
                    {"lease": one, "outcome": "completed"},
                    {"lease": two, "outcome": "completed", "output": "\x00"},
                ]
            },
        )
        problem(answer, 400, "invalid", "outcomes[1].output")
        assert (await kit.app.client.counts())["running"] == 2

    served(check)


def test_a_claim_waits_for_work() -> None:
    async def check(kit: Kit) -> None:
        waiting = asyncio.create_task(claim(kit.caller(), wait=60, tasks=["mail"]))
        await asyncio.sleep(30)
        assert not waiting.done()
        await kit.app.client.add_job("other")
        await kit.app.client.add_job("mail")
        [one] = await waiting
        assert one["job"]["task"] == "mail"

    served(check)


def test_a_claim_without_work_ends_with_its_wait() -> None:
    async def check(kit: Kit) -> None:
        assert await claim(kit.caller()) == []
        assert await kit.store.workers() == [], "a claim that finds nothing leaves nothing behind"
        began = kit.clock.monotonic()
        assert await claim(kit.caller(), wait=45) == []
        assert kit.clock.monotonic() - began == pytest.approx(45, abs=1)

    served(check)


def test_claims_that_wait_together_cost_one_look_each_poll() -> None:
    async def check(kit: Kit) -> None:
        waits = [
            asyncio.create_task(claim(kit.caller(), wait=60, tasks=["mail"])) for _ in range(50)
        ]
        await asyncio.sleep(1)
        looks, claims = counted(kit.store, "claimable"), counted(kit.store, "claim")
        await asyncio.sleep(20)
        polls = 20 / kit.app.settings.poll_interval
        assert len(looks) <= polls + 2
        assert len(claims) <= 2
        await kit.app.client.add_job("mail")
        done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        assert len(done) == 1 and len(claims) <= 4
        rest = await asyncio.gather(*waits)
        assert sorted(len(found) for found in rest) == [0] * 49 + [1]

    served(check)


def test_a_token_claims_its_tasks_alone() -> None:
    async def check(kit: Kit) -> None:
        for task in ("mail", "other"):
            await kit.app.client.add_job(task)
        worker = await kit.as_role("worker", tasks=("mail", "fax"))
        answer = await worker.post("/v1/claims", json={"tasks": ["other"]})
        problem(answer, 403, "forbidden", "tasks")
        assert await claim(worker, tasks=["other", "fax"]) == []
        [one] = await claim(worker, count=9)
        assert one["job"]["task"] == "mail"
        other = await kit.as_role("worker", tasks=("other",))
        assert await settle(other, {"lease": one["lease"], "outcome": "abandon"}) == ["missing"]
        assert await settle(worker, {"lease": one["lease"], "outcome": "abandon"}) == ["applied"]

    served(check)


def test_a_lease_that_ends_is_taken_back_and_one_that_is_renewed_is_not() -> None:
    async def check(kit: Kit) -> None:
        worker = kit.caller()
        for _ in range(2):
            await kit.app.client.add_job("mail")
        left, kept = [each["lease"] for each in await claim(worker, count=2, lease=10)]
        await asyncio.sleep(8)
        answer = await worker.post("/v1/claims/renew", json={"leases": [kept, kept], "lease": 30})
        assert answer.json() == {"results": ["applied", "applied"], "cancel": []}
        await asyncio.sleep(8)
        assert (await kit.store.reap(10, 5)).requeued == (1,)
        [again] = await claim(worker)
        assert again["job"]["id"] == 1 and again["lease"] != left
        told = await worker.post("/v1/claims/renew", json={"leases": [left, kept, "x"]})
        assert told.json()["results"] == ["lost", "applied", "missing"]
        assert await settle(worker, {"lease": left, "outcome": "completed"}) == ["lost"]
        assert await settle(worker, {"lease": kept, "outcome": "completed"}) == ["applied"]
        await asyncio.sleep(60)
        assert (await kit.store.reap(10, 5)).requeued == (1,)

    served(check)


def test_a_renewal_does_not_end_sooner() -> None:
    async def check(kit: Kit) -> None:
        worker = kit.caller()
        await kit.app.client.add_job("mail")
        [one] = await claim(worker, lease=100)
        await worker.post("/v1/claims/renew", json={"leases": [one["lease"]], "lease": 1})
        await asyncio.sleep(50)
        assert (await kit.store.reap(10, 5)).total == 0

    served(check)


def test_a_renewal_tells_of_cancelled_jobs() -> None:
    async def check(kit: Kit) -> None:
        worker = kit.caller()
        job = await kit.app.client.add_job("mail")
        [one] = await claim(worker)
        await kit.app.client.cancel_jobs([job.id])
        told = await worker.post("/v1/claims/renew", json={"leases": [one["lease"]]})
        assert told.json() == {"results": ["applied"], "cancel": [one["lease"]]}
        assert await settle(worker, {"lease": one["lease"], "outcome": "abandon"}) == ["applied"]
        assert (await kit.app.client.get_job(job.id)).state == "cancelled"  # type: ignore[union-attr]

    served(check)


def test_a_claimed_job_brings_what_it_waited_for() -> None:
    async def check(kit: Kit) -> None:
        client = kit.app.client
        chain = await client.start_chain("resize")
        await client.add_job("mail", blockers=[chain])
        await client.complete_chain(chain.id, {"width": 100})
        [one] = await claim(kit.caller(), tasks=["mail"])
        assert [each["output"] for each in one["job"]["blockers"]] == [{"width": 100}]
        shown = await kit.caller().get(f"/v1/jobs/{one['job']['id']}")
        assert shown.json()["blockers"] == one["job"]["blockers"]

    served(check)


class Visitor:
    """A caller that can hang up, as an ASGI server tells of it."""

    def __init__(self, kit: Kit, path: str, body: Body) -> None:
        self._body = msgspec.json.encode(body)
        self.gone = asyncio.Event()
        self.sent: list[Any] = []
        self._has_sent_body = False
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
            "client": HERE,
            "server": ("127.0.0.1", 8080),
        }
        self.task = asyncio.create_task(kit.asgi(scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        if not self._has_sent_body:
            self._has_sent_body = True
            return {"type": "http.request", "body": self._body, "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        self.sent.append(message)


def test_nothing_is_claimed_for_a_caller_that_has_gone() -> None:
    async def check(kit: Kit) -> None:
        visitor = Visitor(kit, "/v1/claims", {"wait": 60})
        await asyncio.sleep(5)
        visitor.gone.set()
        await visitor.task
        job = await kit.app.client.add_job("mail")
        await asyncio.sleep(10)
        found = await kit.app.client.get_job(job.id)
        assert found is not None and (found.state, found.deliveries) == ("ready", 0)

    served(check)


@pytest.mark.parametrize("wait", [0, 60])
def test_what_was_claimed_for_a_caller_that_leaves_meanwhile_goes_back(wait: float) -> None:
    """It hangs up while the store is claiming for it."""

    async def check(kit: Kit) -> None:
        inner: Callable[[ClaimRequest], Any] = kit.store.claim
        visitors: list[Visitor] = []

        async def leaving(request: ClaimRequest) -> list[Lease]:
            leases: list[Lease] = await inner(request)
            if leases:
                visitors[0].gone.set()
                await asyncio.sleep(1)
            return leases

        kit.store.claim = leaving
        if wait:
            visitors.append(Visitor(kit, "/v1/claims", {"wait": wait}))
            await asyncio.sleep(5)
        job = await kit.app.client.add_job("mail")
        if not wait:
            visitors.append(Visitor(kit, "/v1/claims", {}))
        await visitors[0].task
        await asyncio.sleep(10)
        found = await kit.app.client.get_job(job.id)
        assert found is not None
        assert (found.state, found.attempts, found.deliveries) == (JobState.READY, 0, 1)

    served(check)


def test_a_server_that_stops_hands_out_nothing_more() -> None:
    async def check(kit: Kit) -> None:
        waiting = asyncio.create_task(claim(kit.caller(), wait=60))
        await asyncio.sleep(5)
        began = kit.clock.monotonic()
        kit.service.draining.set()
        assert await waiting == []
        assert kit.clock.monotonic() - began < 1
        answer = await kit.caller().post("/v1/claims", json={})
        problem(answer, 503, "unavailable")
        assert answer.headers["retry-after"] == "1"
        problem(await kit.caller().get("/readyz"), 503, "unavailable")
        assert (await kit.caller().get("/healthz")).status_code == 200

    served(check)


def test_jobs_of_windlass_itself_are_not_claimed() -> None:
    async def check(kit: Kit) -> None:
        worker = await kit.as_role("worker")
        ours = NewJob("windlass.webhook")
        await kit.store.enqueue([ours, NewJob("mail")])
        answer = await worker.post("/v1/claims", json={"tasks": ["windlass.webhook"]})
        problem(answer, 403, "forbidden", "tasks")
        claims = await claim(worker, tasks=["windlass.webhook", "mail"], count=10)
        assert [each["job"]["task"] for each in claims] == ["mail"]

    served(check)


@pytest.mark.parametrize("kind", ["claim", "result"])
def test_a_long_poll_ends_with_its_token(kind: str) -> None:
    async def check(kit: Kit) -> None:
        worker = await kit.as_role("worker")
        job = await kit.app.client.add_job("other", keep=60)
        if kind == "claim":
            body = {"tasks": ["mail"], "wait": 60}
            waiting = asyncio.create_task(worker.post("/v1/claims", json=body))
        else:
            address = f"/v1/jobs/{job.id}/result?wait=60"
            waiting = asyncio.create_task(worker.get(address))
        await asyncio.sleep(1)
        [token] = await kit.store.tokens()
        await kit.store.revoke_token(token.name)
        began = kit.clock.monotonic()
        problem(await waiting, 401, "unauthenticated")
        assert kit.clock.monotonic() - began < 30
        await kit.app.client.add_job("mail")
        assert (await kit.app.client.counts())["running"] == 0

    served(check)


def test_names_of_workers_can_be_printed() -> None:
    async def check(kit: Kit) -> None:
        text = make_token()
        name = "bell\x07" + "x" * 400
        made = Token(name=name, digest=digest_of(text), roles=("worker",), created_at=0)
        await kit.store.add_token(made)
        await kit.app.client.add_job("mail")
        [one] = await claim(kit.caller(text))
        locked_by = one["job"]["locked_by"]
        assert locked_by.startswith("rest-bell?x") and len(locked_by) < 250

    served(check)


def test_a_tenant_sees_the_workers_that_serve_it_alone() -> None:
    async def check(kit: Kit) -> None:
        tenants = ("a", "b")
        workers = {tenant: await kit.as_role("worker", tenant=tenant) for tenant in tenants}
        for tenant in tenants:
            await kit.app.client.for_tenant(tenant).add_job("mail")
            assert len(await claim(workers[tenant])) == 1
            name = f"idle-{tenant}@{'0' * 12}.{'1' * 12}"
            assert await kit.store.claim(ClaimRequest(name, ("x",), 1, tenants=(tenant,))) == []
            await kit.store.introduce(name, ("x",), (tenant,))
        await kit.store.claim(ClaimRequest("of-all", ("x",), 1))
        for tenant, worker in workers.items():
            found = (await worker.get("/v1/workers")).json()["workers"]
            idle, rest = sorted(each["id"] for each in found)
            assert idle == f"idle-{tenant}"
            assert rest.startswith(f"rest-worker-{tenants.index(tenant)}-")
        boss = await kit.as_role("admin")
        assert len((await boss.get("/v1/workers")).json()["workers"]) == 5

    served(check)
