"""Adding jobs and looking at them over REST."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.server.rest.kit import Kit, counted, problem, served, serving
from windlass import App, JobSpec
from windlass.cli import cli
from windlass.model.job import JobOptions


def test_one_spec_is_answered_with_the_job_and_many_with_a_list() -> None:
    async def check(kit: Kit) -> None:
        caller = kit.caller()
        one = await caller.post("/v1/jobs", json={"task": "mail", "payload": {"to": "ada"}})
        assert one.status_code == 201
        assert (one.json()["task"], one.json()["payload"]) == ("mail", {"to": "ada"})
        many = await caller.post("/v1/jobs", json={"jobs": [{"task": "a"}, {"task": "b"}]})
        assert many.status_code == 201
        assert [job["task"] for job in many.json()["jobs"]] == ["a", "b"]
        assert many.json()["next"] is None

    served(check)


def test_every_field_of_a_spec_arrives() -> None:
    async def check(kit: Kit) -> None:
        chain = await kit.app.client.start_chain("first")
        spec = {
            "task": "mail",
            "payload": [1, "two", None],
            "queue": "line",
            "run_at": "2031-02-03T04:05:06+01:00",
            "max_attempts": 3,
            "key": "k",
            "key_mode": "preserve_run_at",
            "priority": -4,
            "flags": ["gpu", "eu"],
            "keep": 12.5,
            "meta": {"user": "ada"},
            "strict": True,
            "blockers": [chain.id],
            "on_blocker_failure": "wait",
            "webhook": "https://example.com/ended",
        }
        answer = await kit.caller().post("/v1/jobs", json=spec)
        assert answer.status_code == 201, answer.text
        told = answer.json()
        for name, value in spec.items():
            match name:
                case "key_mode" | "blockers" | "on_blocker_failure" | "webhook":
                    pass
                case "meta":
                    assert told[name] == {"user": "ada", "webhook": "https://example.com/ended"}
                case "run_at":
                    instant = datetime(2031, 2, 3, 3, 5, 6, tzinfo=UTC)
                    assert datetime.fromisoformat(told[name]) == instant
                case _:
                    assert told[name] == value, name
        assert told["state"] == "blocked"
        assert [blocker["id"] for blocker in told["blockers"]] == [chain.id]

    served(check)


def test_a_spec_has_every_option_of_the_python_client() -> None:
    from windlass.server.rest.specs import ChainSpec, Spec

    options = set(JobOptions.__annotations__) | {"task", "payload", "webhook"}
    assert set(Spec.__struct_fields__) == options - {"key_window"}
    assert set(ChainSpec.__struct_fields__) == options - {"key_mode"}


def test_a_list_with_one_bad_spec_adds_nothing() -> None:
    async def check(kit: Kit) -> None:
        specs = [{"task": "a"}, {"task": "b", "run_at": "2030-01-01T00:00:00Z", "delay": 1}]
        answer = await kit.caller().post("/v1/jobs", json={"jobs": specs})
        problem(answer, 400, "invalid", "jobs[1].run_at")
        assert await kit.app.client.list_jobs() == []
        answer = await kit.caller().post(
            "/v1/jobs", json={"jobs": [{"task": "a"}, {"task": "b", "blockers": [99]}]}
        )
        problem(answer, 400, "invalid", "blockers")
        assert await kit.app.client.list_jobs() == []

    served(check)


def test_job_json_is_that_of_the_command_line(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"

    async def ask() -> tuple[Any, Any]:
        async with serving(url) as kit:
            chain = await kit.app.client.start_chain("first", {"n": 1})
            job = await kit.app.client.add_job("mail", {"to": "ada"}, blockers=[chain], key="k")
            shown = await kit.caller().get(f"/v1/jobs/{job.id}")
            listed = await kit.caller().get("/v1/jobs", params={"key": "k"})
            return shown.json(), listed.json()["jobs"]

    def told(*words: str) -> Any:
        return json.loads(CliRunner().invoke(cli, ["jobs", *words, "--json", "-c", url]).stdout)

    shown, listed = asyncio.run(ask())
    assert told("show", str(shown["id"])) == shown
    assert told("list", "--key", "k") == listed


def test_pages_go_on_where_they_ended_while_jobs_are_added() -> None:
    async def check(kit: Kit) -> None:
        caller, client = kit.caller(), kit.app.client
        await client.add_jobs([JobSpec(task="mail") for _ in range(25)])
        seen: list[int] = []
        query: dict[str, Any] = {"limit": 10, "task": "mail"}
        while True:
            page = (await caller.get("/v1/jobs", params=query)).json()
            seen += [job["id"] for job in page["jobs"]]
            await client.add_jobs([JobSpec(task="mail") for _ in range(7)])
            if page["next"] is None:
                break
            query["after"] = page["next"]
        assert seen == list(range(25, 0, -1))

    served(check)


def test_filters_select() -> None:
    async def check(kit: Kit) -> None:
        caller, client = kit.caller(), kit.app.client
        await client.add_job("mail", key="k")
        await client.add_job("mail", queue="line")
        await client.add_job("fax", delay=60)
        await client.permanently_fail_jobs([2])

        async def ids(**query: Any) -> list[int]:
            answer = await caller.get("/v1/jobs", params=query)
            return [job["id"] for job in answer.json()["jobs"]]

        assert await ids() == [3, 2, 1]
        assert await ids(task="mail") == [2, 1]
        assert await ids(queue="line") == [2]
        assert await ids(key="k") == [1]
        assert await ids(state="failed") == [2]
        assert await ids(state=["failed", "scheduled"]) == [3, 2]
        assert await ids(limit=1) == [3]
        assert await ids(after=2) == [1]

    served(check)


def test_pages_of_a_worker_for_some_tasks_are_merged() -> None:
    async def check(kit: Kit) -> None:
        for number in range(12):
            await kit.app.client.add_job(("a", "b", "c")[number % 3])
        worker = await kit.as_role("worker", tasks=("a", "c"))
        first = (await worker.get("/v1/jobs", params={"limit": 5})).json()
        assert [job["id"] for job in first["jobs"]] == [12, 10, 9, 7, 6]
        rest = (await worker.get("/v1/jobs", params={"limit": 5, "after": first["next"]})).json()
        assert [job["id"] for job in rest["jobs"]] == [4, 3, 1]
        assert rest["next"] is None

    served(check)


# ── what is kept ──


def test_jobs_are_kept_for_a_day_unless_they_say_otherwise() -> None:
    app = App("memory://")

    @app.task(keep=5)
    async def known() -> None: ...

    async def check(kit: Kit) -> None:
        kit.app.registry.add(app.registry.get("known"))
        caller = kit.caller()

        async def keep(**spec: Any) -> Any:
            return (await caller.post("/v1/jobs", json=spec)).json()["keep"]

        assert await keep(task="mail") == 24 * 3600
        assert await keep(task="mail", keep=None) == 24 * 3600
        assert await keep(task="mail", keep=0) == 0
        assert await keep(task="mail", keep=7) == 7
        assert await keep(task="known") == 5

    served(check)


# ── idempotency ──


def test_a_request_that_comes_twice_adds_its_jobs_once() -> None:
    async def check(kit: Kit) -> None:
        caller = kit.caller()
        key = {b"Idempotency-Key": "order-7 ü".encode()}
        spec = {"task": "mail", "payload": {"a": 1, "b": 2}}
        first = await caller.post("/v1/jobs", json=spec, headers=key)
        await kit.app.client.permanently_fail_jobs([first.json()["id"]])
        same = {"payload": {"b": 2, "a": 1}, "task": "mail", "priority": None}
        again = await caller.post("/v1/jobs", json=same, headers=key)
        assert first.status_code == again.status_code == 201
        assert "idempotency-replayed" not in first.headers
        assert again.headers["idempotency-replayed"] == "true"
        assert again.json()["id"] == first.json()["id"]
        assert again.json()["state"] == "failed", "as it is now"
        as_list = await caller.post("/v1/jobs", json={"jobs": [spec]}, headers=key)
        assert [job["id"] for job in as_list.json()["jobs"]] == [first.json()["id"]]
        for other in ({**spec, "payload": {}}, {**spec, "delay": 1}, {**spec, "task": "fax"}):
            told = await caller.post("/v1/jobs", json=other, headers=key)
            problem(told, 409, "idempotency-key-reused", "Idempotency-Key")
        assert len(await kit.app.client.list_jobs()) == 1

    served(check)


def test_keys_of_requests_belong_to_a_tenant() -> None:
    async def check(kit: Kit) -> None:
        ours, theirs = [await kit.as_role("producer", tenant=name) for name in ("acme", "beta")]
        key = {"Idempotency-Key": "k"}
        one = await ours.post("/v1/jobs", json={"task": "a", "keep": 10**6}, headers=key)
        two = await theirs.post("/v1/jobs", json={"task": "b"}, headers=key)
        assert one.json()["id"] != two.json()["id"]

    served(check)


def test_a_request_whose_job_is_gone_is_told_so() -> None:
    async def check(kit: Kit) -> None:
        key = {"Idempotency-Key": "k"}
        caller = kit.caller()
        added = await caller.post("/v1/jobs", json={"task": "a"}, headers=key)
        await kit.app.client.delete_jobs([added.json()["id"]])
        told = problem(await caller.post("/v1/jobs", json={"task": "a"}, headers=key), 410, "gone")
        assert str(added.json()["id"]) in told["detail"]

    served(check)


@pytest.mark.parametrize("key", [b"", b"x" * 513, b"\xff"])
def test_a_bad_key_is_refused(key: bytes) -> None:
    async def check(kit: Kit) -> None:
        headers = {b"Idempotency-Key": key}
        answer = await kit.caller().post("/v1/jobs", json={"task": "a"}, headers=headers)
        problem(answer, 400, "invalid", "Idempotency-Key")

    served(check)


# ── webhooks ──


@pytest.mark.parametrize(
    "spec",
    [
        {"webhook": "http://127.0.0.1/x"},
        {"webhook": "http://[::1]:9/x"},
        {"webhook": "http://169.254.169.254/latest"},
        {"webhook": "ftp://example.com/x"},
        {"webhook": "example.com"},
        {"meta": {"webhook": "http://10.0.0.1/"}},
        {"webhook": "https://example.com/a", "meta": {"webhook": "https://example.com/b"}},
    ],
)
def test_an_address_that_webhooks_may_not_reach_is_refused(spec: dict[str, Any]) -> None:
    async def check(kit: Kit) -> None:
        for path, name in (("/v1/jobs", "jobs"), ("/v1/chains", "chains")):
            one = {"task": "a", **spec}
            told = problem(await kit.caller().post(path, json=one), 400, "invalid")
            assert told["field"] == "webhook"
            told = problem(await kit.caller().post(path, json={name: [one]}), 400, "invalid")
            assert told["field"] == f"{name}[0].webhook"
        assert await kit.app.client.list_jobs() == []

    served(check)


def test_an_address_that_was_allowed_is_taken() -> None:
    async def check(kit: Kit) -> None:
        answer = await kit.caller().post(
            "/v1/jobs", json={"task": "a", "webhook": "http://10.1.2.3/x"}
        )
        assert answer.status_code == 201

    served(check, webhook_allow=["10.0.0.0/8"])


# ── results ──


def test_a_result_is_waited_for() -> None:
    async def check(kit: Kit) -> None:
        caller = kit.caller()
        job = await kit.app.client.add_job("mail", keep=60)
        path = f"/v1/jobs/{job.id}/result"
        assert (await caller.get(path)).status_code == 202
        waiting = asyncio.create_task(caller.get(path, params={"wait": 30}))
        await asyncio.sleep(3)
        await kit.app.client.complete_jobs([job.id])
        ended = kit.clock.monotonic()
        answer = await waiting
        assert kit.clock.monotonic() - ended < 0.25
        assert (answer.status_code, answer.json()["state"]) == (200, "completed")
        assert (await caller.get(path)).status_code == 200

    served(check)


def test_a_wait_ends_with_the_job_as_it_is() -> None:
    async def check(kit: Kit) -> None:
        job = await kit.app.client.add_job("mail", keep=60)
        began = kit.clock.monotonic()
        answer = await kit.caller().get(f"/v1/jobs/{job.id}/result", params={"wait": 7})
        assert kit.clock.monotonic() - began == pytest.approx(7, abs=0.5)
        assert (answer.status_code, answer.json()["state"]) == (202, "ready")

    served(check)


def test_what_is_not_kept_is_not_waited_for() -> None:
    async def check(kit: Kit) -> None:
        job = await kit.app.client.add_job("mail")
        began = kit.clock.monotonic()
        answer = await kit.caller().get(f"/v1/jobs/{job.id}/result", params={"wait": 7})
        problem(answer, 409, "not-kept")
        problem(await kit.caller().get("/v1/jobs/99/result", params={"wait": 7}), 404)
        assert kit.clock.monotonic() - began < 1
        await kit.app.client.permanently_fail_jobs([job.id])
        assert (await kit.caller().get(f"/v1/jobs/{job.id}/result")).status_code == 200

    served(check)


def test_all_waiters_of_a_process_share_one_look() -> None:
    async def check(kit: Kit) -> None:
        client = kit.app.client
        jobs = await client.add_jobs([JobSpec(task="mail", keep=60) for _ in range(20)])
        waits = [
            asyncio.create_task(
                kit.caller().get(f"/v1/jobs/{jobs[number % 20].id}/result", params={"wait": 60})
            )
            for number in range(100)
        ]
        await asyncio.sleep(1)
        looks, gets = counted(kit.store, "find"), counted(kit.store, "get")
        await asyncio.sleep(10)
        assert 90 <= len(looks) <= 101
        assert gets == []
        await client.complete_jobs([job.id for job in jobs])
        answers = await asyncio.gather(*waits)
        assert {answer.status_code for answer in answers} == {200}
        assert len(gets) == 100
        looks.clear()
        await asyncio.sleep(10)
        assert looks == [], "without waiters there is nothing to look for"

    served(check)


def test_a_stopping_server_answers_those_who_wait() -> None:
    async def check(kit: Kit) -> None:
        job = await kit.app.client.add_job("mail", keep=60)
        waiting = asyncio.create_task(
            kit.caller().get(f"/v1/jobs/{job.id}/result", params={"wait": 60})
        )
        await asyncio.sleep(1)
        kit.service.draining.set()
        assert (await waiting).status_code == 202

    served(check)


def test_a_worker_of_some_tasks_learns_nothing_of_others_by_adding() -> None:
    async def check(kit: Kit) -> None:
        boss, mine = await kit.as_role("operator"), await kit.as_role("worker", tasks=("mail",))
        secret = {"payload": {"secret": 1}}
        chain = (await boss.post("/v1/chains", json={"task": "pay", "key": "c", **secret})).json()
        await boss.post("/v1/jobs", json={"task": "pay", "key": "k", **secret})
        for path in ("/v1/jobs", "/v1/chains"):
            answer = await mine.post(path, json={"task": "mail", "blockers": [chain["id"]]})
            problem(answer, 400, "invalid", "blockers")
        for mode in ("replace", "unsafe_dedupe"):
            answer = await mine.post(
                "/v1/jobs", json={"task": "mail", "key": "k", "key_mode": mode}
            )
            problem(answer, 400, "invalid", "key")
        again = (await mine.post("/v1/chains", json={"task": "mail", "key": "c"})).json()
        assert (again["id"], again["state"], again["deduplicated"]) == (chain["id"], "open", True)
        assert again["payload"] is None and again["job"] is None
        job = (await boss.post("/v1/jobs", json={"task": "mail", "blockers": [chain["id"]]})).json()
        assert job["blockers"][0]["payload"] == {"secret": 1}
        for path in (f"/v1/jobs/{job['id']}", f"/v1/jobs/{job['id']}/result"):
            [seen] = (await mine.get(path)).json()["blockers"]
            assert (seen["id"], seen["state"], seen["payload"]) == (chain["id"], "open", None)
            assert seen["job"] is None
        own = (await mine.post("/v1/jobs", json={"task": "mail", "key": "m", **secret})).json()
        assert own["payload"] == {"secret": 1}

    served(check)
