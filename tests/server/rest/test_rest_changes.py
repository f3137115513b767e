"""Operators' verbs over REST: on one job, on all that a filter selects, on chains, schedules,
tasks and queues."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.server.rest.kit import Kit, counted, problem, served
from windlass import App, JobSpec
from windlass.model.cron import parse_crontab


async def ready(kit: Kit) -> int:
    return (await kit.app.client.add_job("mail", keep=60)).id


async def failed(kit: Kit) -> int:
    id = await ready(kit)
    await kit.app.client.permanently_fail_jobs([id])
    return id


async def running(kit: Kit) -> int:
    id = await ready(kit)
    await kit.caller().post("/v1/claims", json={})
    return id


async def completed(kit: Kit) -> int:
    id = await ready(kit)
    await kit.app.client.complete_jobs([id])
    return id


@pytest.mark.parametrize(
    ("verb", "before", "after"),
    [
        ("cancel", ready, "cancelled"),
        ("cancel", running, "running"),
        ("cancel", completed, None),
        ("retry", failed, "ready"),
        ("retry", running, None),
        ("complete", ready, "completed"),
        ("complete", running, None),
        ("complete", completed, None),
        ("fail", ready, "failed"),
        ("fail", running, None),
        ("reschedule", ready, "ready"),
        ("reschedule", running, None),
    ],
)
def test_a_verb_changes_a_job_or_says_why_not(verb: str, before: Any, after: str | None) -> None:
    async def check(kit: Kit) -> None:
        caller = kit.caller()
        id = await before(kit)
        answer = await caller.post(f"/v1/jobs/{id}/{verb}", json={})
        if after is None:
            told = problem(answer, 409, "conflict")
            assert f"job {id} is" in told["detail"]
        else:
            assert answer.status_code == 200, answer.text
            assert (answer.json()["id"], answer.json()["state"]) == (id, after)
        problem(await caller.post(f"/v1/jobs/999/{verb}", json={}), 404, "not-found")

    served(check)


def test_what_a_verb_is_given_counts() -> None:
    async def check(kit: Kit) -> None:
        caller = kit.caller()
        id = await ready(kit)
        body = {
            "run_at": "2040-01-01T00:00:00Z",
            "priority": 0,
            "attempts": 2,
            "max_attempts": 4,
        }
        told = (await caller.post(f"/v1/jobs/{id}/reschedule", json=body)).json()
        assert {name: told[name] for name in body} == body
        assert told["state"] == "scheduled"
        told = (await caller.post(f"/v1/jobs/{id}/fail", json={"reason": "no stock"})).json()
        assert told["last_error"] == "no stock"

    served(check)


def test_a_job_is_deleted_by_its_key() -> None:
    async def check(kit: Kit) -> None:
        caller = kit.caller()
        await kit.app.client.add_job("mail", key="a/ü")
        answer = await caller.delete("/v1/jobs", params={"key": "a/ü"})
        assert (answer.status_code, answer.json()["key"]) == (200, "a/ü")
        problem(await caller.delete("/v1/jobs", params={"key": "a/ü"}), 404, "not-found", "key")
        problem(await caller.delete("/v1/jobs"), 400, "invalid", "key")
        assert await kit.app.client.list_jobs() == []

    served(check)


def test_a_filter_changes_all_that_it_selects_in_steps() -> None:
    async def check(kit: Kit) -> None:
        caller, client = kit.caller(), kit.app.client
        await client.add_jobs([JobSpec(task="mail", keep=60) for _ in range(2_500)])
        await client.add_job("other")
        steps = counted(kit.store, "cancel")
        answer = await caller.post("/v1/jobs/cancel", json={"task": "mail"})
        assert answer.status_code == 200 and answer.json()["next"] is None
        assert [len(ids) for ids, *_ in steps] == [1_000, 1_000, 500]
        assert len({job["id"] for job in answer.json()["jobs"]}) == 2_500
        counts = await client.counts()
        assert (counts["cancelled"], counts["ready"]) == (2_500, 1)
        answer = await caller.post("/v1/jobs/retry", json={"state": "cancelled", "task": "mail"})
        assert len(answer.json()["jobs"]) == 2_500
        answer = await caller.post("/v1/jobs/delete", json={"task": "mail", "state": ["ready"]})
        assert len(answer.json()["jobs"]) == 2_500
        assert [job.task for job in await client.list_jobs()] == ["other"]
        answer = await caller.post("/v1/jobs/delete", json={"task": "nothing"})
        assert answer.json() == {"jobs": [], "next": None}

    served(check)


def test_a_failure_before_the_first_step_is_a_problem() -> None:
    async def check(kit: Kit) -> None:
        from windlass.errors import StoreUnavailableError

        async def failing(*_: Any) -> Any:
            raise StoreUnavailableError("away")

        await ready(kit)
        kit.store.cancel = failing
        problem(await kit.caller().post("/v1/jobs/cancel", json={"task": "mail"}), 503)

    served(check)


def test_chains_are_started_listed_and_ended() -> None:
    async def check(kit: Kit) -> None:
        caller = kit.caller()
        one = await caller.post("/v1/chains", json={"task": "charge", "key": "order-7"})
        assert (one.status_code, one.json()["state"], one.json()["job"]["keep"]) == (
            201,
            "open",
            86_400,
        )
        same = await caller.post("/v1/chains", json={"task": "charge", "key": "order-7"})
        assert (same.status_code, same.json()["deduplicated"]) == (200, True)
        assert same.json()["id"] == one.json()["id"]
        many = await caller.post("/v1/chains", json={"chains": [{"task": "a"}, {"task": "b"}]})
        assert [chain["task"] for chain in many.json()["chains"]] == ["a", "b"]
        refused = await caller.post(
            "/v1/chains", json={"task": "a"}, headers={"Idempotency-Key": "k"}
        )
        problem(refused, 400, "invalid", "Idempotency-Key")

        page = (await caller.get("/v1/chains", params={"limit": 2})).json()
        assert [chain["task"] for chain in page["chains"]] == ["b", "a"]
        rest = (await caller.get("/v1/chains", params={"after": page["next"]})).json()
        assert [chain["id"] for chain in rest["chains"]] == [one.json()["id"]]
        assert rest["next"] is None

        path = f"/v1/chains/{one.json()['id']}"
        then = {"then": {"task": "ship", "payload": {"order": 7}}}
        on = (await caller.post(f"{path}/complete", json=then)).json()
        assert (on["state"], on["length"], on["job"]["task"]) == ("open", 2, "ship")
        both = {"output": 1, **then}
        problem(await caller.post(f"{path}/complete", json=both), 400, "invalid", "then")
        done = (await caller.post(f"{path}/complete", json={"output": {"ok": 1}})).json()
        assert (done["state"], done["output"]) == ("completed", {"ok": 1})
        for verb in ("complete", "cancel", "retry"):
            problem(await caller.post(f"{path}/{verb}", json={}), 409, "conflict")
        deleted = await caller.delete(path)
        assert [chain["id"] for chain in deleted.json()["chains"]] == [one.json()["id"]]
        problem(await caller.delete(path), 404, "not-found")
        problem(await caller.get(path), 404, "not-found")

    served(check)


def test_a_chain_that_a_job_waits_for_is_deleted_with_cascade_alone() -> None:
    async def check(kit: Kit) -> None:
        caller, client = kit.caller(), kit.app.client
        first = await client.start_chain("first")
        second = await client.start_chain("second", blockers=[first])
        problem(await caller.delete(f"/v1/chains/{first.id}"), 409, "conflict")
        answer = await caller.delete(f"/v1/chains/{second.id}", params={"cascade": "true"})
        assert {chain["id"] for chain in answer.json()["chains"]} == {first.id, second.id}

    served(check)


def test_schedules_are_listed_paused_and_triggered() -> None:
    async def check(kit: Kit) -> None:
        caller = kit.caller()
        await kit.store.register(parse_crontab("0 4 * * 1 report ?id=weekly/7 {n: 1}"))
        [known] = (await caller.get("/v1/schedules")).json()["schedules"]
        assert (known["id"], known["task"], known["paused_at"]) == ("weekly/7", "report", None)
        paused = (await caller.post("/v1/schedules/weekly%2F7/pause")).json()
        assert paused["paused_at"] is not None and paused["next_at"] is None
        added = await caller.post("/v1/schedules/weekly%2F7/trigger")
        assert (added.status_code, added.json()["task"]) == (201, "report")
        assert added.json()["payload"]["n"] == 1
        resumed = (await caller.post("/v1/schedules/weekly%2F7/resume")).json()
        assert resumed["paused_at"] is None
        for verb in ("pause", "resume", "trigger"):
            problem(await caller.post(f"/v1/schedules/none/{verb}"), 404, "not-found")

    served(check)


def test_tasks_and_queues_that_are_known_are_listed() -> None:
    app = App("memory://")

    @app.task(queue="line")
    async def mail() -> None: ...

    async def check(kit: Kit) -> None:
        kit.app.registry.add(app.registry.get("mail"))
        caller = kit.caller()
        await kit.app.client.for_tenant("acme").pause(task="fax")
        await caller.post("/v1/queues/line/pause")
        assert (await caller.get("/v1/tasks")).json()["tasks"] == [
            {"name": "mail", "tenant": None, "paused": False},
            {"name": "fax", "tenant": "acme", "paused": True},
        ]
        assert (await caller.get("/v1/queues")).json()["queues"] == [
            {"name": "line", "tenant": None, "paused": True}
        ]
        caller.headers["X-Windlass-Tenant"] = "acme"
        assert (await caller.get("/v1/tasks")).json()["tasks"] == [
            {"name": "fax", "tenant": "acme", "paused": True},
            {"name": "mail", "tenant": "acme", "paused": False},
        ]
        assert (await caller.post("/v1/tasks/fax/resume")).json()["paused"] is False
        problem(
            await caller.get("/v1/tasks", headers={"X-Windlass-Tenant": "x" * 129}),
            400,
            "invalid",
            "X-Windlass-Tenant",
        )

    served(check)


def test_counts_and_workers_are_told() -> None:
    async def check(kit: Kit) -> None:
        caller = kit.caller()
        await running(kit)
        await ready(kit)
        counts = (await caller.get("/v1/counts")).json()["counts"]
        assert (counts["running"], counts["ready"], counts["failed"]) == (1, 1, 0)
        [worker] = (await caller.get("/v1/workers")).json()["workers"]
        assert worker["id"].startswith("rest-anonymous-") and worker["running"] == 1
        await asyncio.sleep(0)

    served(check)


def test_an_admin_names_the_tenant_that_is_meant() -> None:
    async def check(kit: Kit) -> None:
        caller = await kit.as_role("admin", tenant="home")

        async def add(**headers: str) -> Any:
            return (await caller.post("/v1/jobs", json={"task": "a"}, headers=headers)).json()

        assert (await add())["tenant"] == "home"
        named = {"X-Windlass-Tenant": "acme"}
        assert (await add(**named))["tenant"] == "acme"
        assert (await add(**{"X-Windlass-Tenant": ""}))["tenant"] is None

        async def listed(**headers: str) -> int:
            return len((await caller.get("/v1/jobs", headers=headers)).json()["jobs"])

        assert await listed() == 3
        assert await listed(**named) == 1
        assert await listed(**{"X-Windlass-Tenant": ""}) == 1

    served(check)
