"""Who may call what, and what of another tenant a caller can reach: nothing.

The cases are made from the table of routes. A route without a row here fails the first test, so
that none can be forgotten.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from tests.server.rest.kit import Kit, problem, served
from windlass import JobSpec
from windlass.model.cron import parse_crontab
from windlass.server.rest import ROUTES
from windlass.server.rest.openapi import route as document_route
from windlass.server.rest.routes import Route
from windlass.store.records import ChainFilter, JobFilter

ALL = {"producer", "worker", "operator", "admin"}
CLAIM = {"worker", "admin"}
OPERATE = {"operator", "admin"}
OPEN = {*ALL, "stranger"}
TASK, HIDDEN = "mail", "hidden"
OURS, THEIRS = "acme", "beta"


@dataclass(frozen=True)
class Row:
    """Who may call a route; with what; and its status on what is one's own, and on another's."""

    roles: set[str]
    status: int = 200
    body: Callable[[World], Any] = lambda world: None
    query: dict[str, str] = field(default_factory=dict)
    name: Callable[[World], object] = lambda world: world.job
    theirs: int = 404


@dataclass
class World:
    """What one tenant has."""

    job: int
    failed: int
    running: int
    chain: int
    failed_chain: int
    lease: str


ROWS: dict[str, Row] = {
    "add_jobs": Row(ALL, 201, lambda w: {"task": TASK}, theirs=201),
    "list_jobs": Row(ALL, query={"task": TASK}, theirs=200),
    "get_job": Row(ALL),
    "get_job_result": Row(ALL, 202),
    "cancel_jobs": Row(OPERATE, 200, lambda w: {"task": TASK}, theirs=200),
    "retry_jobs": Row(OPERATE, 200, lambda w: {"task": TASK}, theirs=200),
    "delete_jobs": Row(OPERATE, 200, lambda w: {"state": ["failed"]}, theirs=200),
    "cancel_job": Row(OPERATE),
    "retry_job": Row(OPERATE, name=lambda w: w.failed),
    "complete_job": Row(OPERATE),
    "fail_job": Row(OPERATE, 200, lambda w: {"reason": "no"}),
    "reschedule_job": Row(OPERATE, 200, lambda w: {"priority": 3}),
    "delete_job_by_key": Row(OPERATE, query={"key": "only"}),
    "claim_jobs": Row(CLAIM, 200, lambda w: {"count": 100}, theirs=200),
    "settle_claims": Row(
        CLAIM, 200, lambda w: {"outcomes": [{"lease": w.lease, "outcome": "nack"}]}, theirs=200
    ),
    "renew_claims": Row(CLAIM, 200, lambda w: {"leases": [w.lease]}, theirs=200),
    "start_chains": Row(ALL, 201, lambda w: {"task": TASK}, theirs=201),
    "list_chains": Row(ALL, query={"task": TASK}, theirs=200),
    "get_chain": Row(ALL, name=lambda w: w.chain),
    "complete_chain": Row(OPERATE, 200, lambda w: {"output": 1}, name=lambda w: w.chain),
    "cancel_chain": Row(OPERATE, name=lambda w: w.chain),
    "retry_chain": Row(OPERATE, name=lambda w: w.failed_chain),
    "delete_chain": Row(OPERATE, name=lambda w: w.chain),
    "list_schedules": Row(ALL, theirs=200),
    "pause_schedule": Row(OPERATE, name=lambda w: "weekly"),
    "resume_schedule": Row(OPERATE, name=lambda w: "weekly"),
    "trigger_schedule": Row(OPERATE, 201, name=lambda w: "weekly"),
    "list_tasks": Row(ALL, theirs=200),
    "list_queues": Row(ALL, theirs=200),
    "list_workers": Row(ALL, theirs=200),
    "count_jobs": Row(ALL, theirs=200),
    "pause_task": Row(OPERATE, name=lambda w: TASK, theirs=200),
    "resume_task": Row(OPERATE, name=lambda w: TASK, theirs=200),
    "pause_queue": Row(OPERATE, name=lambda w: "line", theirs=200),
    "resume_queue": Row(OPERATE, name=lambda w: "line", theirs=200),
    "get_health": Row(OPEN, theirs=200),
    "get_readiness": Row(OPEN, theirs=200),
    "get_metrics": Row(OPEN, theirs=200),
    "get_openapi_document": Row(OPEN, theirs=200),
}

EVERY = (*ROUTES, document_route(ROUTES))
BY_ID = {route.id: route for route in EVERY}
MEANT_BY_NAME = {"schedules", "names"}
"""Tags whose paths name what belongs to the caller's own tenant, an admin's too."""


def test_every_route_has_a_row() -> None:
    assert set(ROWS) == set(BY_ID)
    assert len(BY_ID) == len(EVERY)


async def make_world(kit: Kit, tenant: str, *, has_names: bool = True) -> World:
    client = kit.app.client.for_tenant(tenant)
    jobs = await client.add_jobs(
        [
            JobSpec(task=TASK, keep=60),
            JobSpec(task=TASK, keep=60),
            JobSpec(task=TASK, keep=60, priority=-9),
            JobSpec(task=HIDDEN, keep=60),
        ]
    )
    await client.permanently_fail_jobs([jobs[1].id])
    chains = await client.start_chains([JobSpec(task=TASK), JobSpec(task=TASK)])
    await client.cancel_chains([chains[1].id])
    if has_names:
        await client.add_job(TASK, key="only", queue="line")
        await kit.store.register(parse_crontab("0 4 * * 1 mail ?id=weekly"), tenant)
    worker = await kit.as_role("worker", tenant=tenant)
    answer = await worker.post("/v1/claims", json={"tasks": [TASK]})
    [claim] = answer.json()["claims"]
    assert claim["job"]["id"] == jobs[2].id
    return World(jobs[0].id, jobs[1].id, jobs[2].id, chains[0].id, chains[1].id, claim["lease"])


async def snapshot(kit: Kit, tenant: str) -> Any:
    """Everything of a tenant that a call could change."""
    return (
        await kit.store.find(JobFilter(limit=1000, tenant=tenant)),
        await kit.store.find_chains(ChainFilter(limit=1000, tenant=tenant)),
        await kit.store.schedules(tenant),
        await kit.store.paused(tenant),
    )


async def call(caller: httpx.AsyncClient, route: Route, world: World) -> httpx.Response:
    row = ROWS[route.id]
    path = route.path
    for name in route.parameters:
        path = path.replace(f"{{{name}}}", str(row.name(world)))
    body = row.body(world)
    return await caller.request(
        route.method, path, params=row.query, json=body if route.method == "POST" else None
    )


@pytest.mark.parametrize("role", sorted(ALL))
@pytest.mark.parametrize("name", sorted(ROWS))
def test_a_role_may_call_what_its_row_says(name: str, role: str) -> None:
    async def check(kit: Kit) -> None:
        world = await make_world(kit, OURS)
        answer = await call(await kit.as_role(role, tenant=OURS), BY_ID[name], world)
        if role in ROWS[name].roles:
            assert answer.status_code == ROWS[name].status, answer.text
        else:
            problem(answer, 403, "forbidden")

    served(check)


@pytest.mark.parametrize("name", sorted(ROWS))
def test_no_caller_is_served_without_a_token_where_there_is_one(name: str) -> None:
    async def check(kit: Kit) -> None:
        world = await make_world(kit, OURS)
        for caller in (kit.caller(), kit.caller("wl_" + 43 * "a"), kit.caller("nonsense")):
            before = await snapshot(kit, OURS)
            answer = await call(caller, BY_ID[name], world)
            if "stranger" in ROWS[name].roles:
                assert answer.status_code == 200
            else:
                problem(answer, 401, "unauthenticated")
                assert answer.headers["www-authenticate"].startswith("Bearer")
                assert "wl_aaa" not in answer.text and "nonsense" not in answer.text
            assert await snapshot(kit, OURS) == before

    served(check)


@pytest.mark.parametrize("role", sorted(ALL - {"admin"}))
@pytest.mark.parametrize("name", sorted(ROWS))
def test_another_tenants_things_are_not_there(name: str, role: str) -> None:
    async def check(kit: Kit) -> None:
        world = await make_world(kit, THEIRS)
        before = await snapshot(kit, THEIRS)
        answer = await call(await kit.as_role(role, tenant=OURS), BY_ID[name], world)
        row = ROWS[name]
        if role not in row.roles:
            problem(answer, 403, "forbidden")
        elif row.theirs == 404:
            problem(answer, 404, "not-found")
        else:
            assert answer.status_code == row.theirs, answer.text
            assert THEIRS not in answer.text
            assert_shows_nothing(name, None if name == "get_metrics" else answer.json())
        assert await snapshot(kit, THEIRS) == before

    served(check)


def assert_shows_nothing(name: str, value: Any) -> None:
    match name:
        case "settle_claims" | "renew_claims":
            assert value["results"] == ["missing"]
        case "count_jobs":
            assert not any(value["counts"].values())
        case "add_jobs" | "start_chains":
            assert value["tenant"] == OURS
        case "pause_task" | "pause_queue" | "resume_task" | "resume_queue":
            assert value["tenant"] == OURS
        case "get_health" | "get_readiness" | "get_metrics" | "get_openapi_document":
            pass
        case "list_workers":
            assert all(worker["running"] == 0 for worker in value["workers"])
        case _:
            lists = [each for each in value.values() if isinstance(each, list)]
            assert lists and not any(lists), value


@pytest.mark.parametrize("name", sorted(name for name in ROWS if ROWS[name].theirs == 404))
def test_an_admin_reaches_every_tenants_things_by_id(name: str) -> None:
    async def check(kit: Kit) -> None:
        world = await make_world(kit, THEIRS)
        route = BY_ID[name]
        admin = await kit.as_role("admin", tenant=OURS)
        is_own = route.tag in MEANT_BY_NAME or "key" in ROWS[name].query
        answer = await call(admin, route, world)
        assert answer.status_code == (404 if is_own else ROWS[name].status), answer.text
        if is_own:
            admin.headers["X-Windlass-Tenant"] = THEIRS
            answer = await call(admin, route, world)
            assert answer.status_code == ROWS[name].status, answer.text

    served(check)


@pytest.mark.parametrize("name", sorted(set(ROWS) - {"get_openapi_document"}))
def test_only_an_admin_names_another_tenant(name: str) -> None:
    async def check(kit: Kit) -> None:
        world = await make_world(kit, THEIRS)
        before = await snapshot(kit, THEIRS)
        for role in ALL - {"admin"}:
            caller = await kit.as_role(role, tenant=OURS)
            caller.headers["X-Windlass-Tenant"] = THEIRS
            answer = await call(caller, BY_ID[name], world)
            if "stranger" not in ROWS[name].roles:
                problem(answer, 403, "forbidden")
        assert await snapshot(kit, THEIRS) == before

    served(check)


@pytest.mark.parametrize("name", sorted(name for name in ROWS if ROWS[name].roles >= ALL))
def test_a_worker_for_some_tasks_sees_these_alone(name: str) -> None:
    async def check(kit: Kit) -> None:
        await make_world(kit, OURS)
        world = await make_world(kit, OURS, has_names=False)
        worker = await kit.as_role("worker", tenant=OURS, tasks=("other",))
        answer = await call(worker, BY_ID[name], world)
        if name in ("list_queues", "list_workers", "count_jobs"):
            problem(answer, 403, "forbidden")
        elif ROWS[name].theirs == 404:
            problem(answer, 404, "not-found")
        elif name in ("list_jobs", "list_chains", "list_schedules", "list_tasks"):
            assert not any(each for each in answer.json().values() if each), answer.text
        else:
            assert answer.status_code == ROWS[name].status

    served(check)
