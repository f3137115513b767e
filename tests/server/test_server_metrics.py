"""The server's `/metrics`: what it counts, for whom, and of all its processes together."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.cli.program import wait_until
from tests.programs import need
from tests.server.conftest import Serve
from tests.server.rest.kit import Kit, counted, problem, served
from windlass import App, JobSpec
from windlass.errors import StoreUnavailableError
from windlass.observe.metrics import METRICS

Samples = Mapping[tuple[Any, ...], float]


def samples(text: str) -> Samples:
    """Values by the sample's name and the values of its labels, by the labels' names."""
    return {
        (sample.name, *map(sample.labels.get, sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def scraped(caller: httpx.AsyncClient) -> Samples:
    answer = await caller.get("/metrics")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain")
    return samples(answer.text)


def test_from_elsewhere_they_are_for_admins_alone() -> None:
    async def check(kit: Kit) -> None:
        assert (await kit.caller().get("/metrics")).status_code == 200
        problem(await kit.caller(address="192.0.2.7").get("/metrics"), 401, "unauthenticated")
        for role, tenant, status in (("operator", "acme", 403), ("admin", "", 200)):
            caller = kit.caller(await kit.token(role, tenant=tenant), address="192.0.2.7")
            assert (await caller.get("/metrics")).status_code == status

    served(check)

    async def open_check(kit: Kit) -> None:
        assert (await kit.caller(address="192.0.2.7").get("/metrics")).status_code == 200

    served(open_check, open_probes=True)


def test_requests_are_counted_by_operation_and_never_by_address() -> None:
    async def check(kit: Kit) -> None:
        caller = kit.caller()
        await caller.post("/v1/jobs", json={"task": "t"})
        for path in ("/v1/jobs/1", "/v1/jobs/2", "/v1/jobs/3", "/nowhere", "/v1/elsewhere"):
            await caller.get(path)
        found = await scraped(caller)
        requests = {key[1:]: n for key, n in found.items() if key[0].endswith("requests_total")}
        assert requests == {
            ("add_jobs", "201"): 1,
            ("get_job", "200"): 1,
            ("get_job", "404"): 2,
            ("none", "404"): 2,
        }
        assert found["windlass_server_request_seconds_count", "get_job"] == 3
        assert found["windlass_queue_jobs", "ready"] == 1
        assert found["windlass_store_up",] == 1

    served(check)


def test_what_other_programs_did_is_counted_by_task_and_outcome() -> None:
    async def check(kit: Kit) -> None:
        caller = kit.caller()
        await kit.app.client.add_jobs([JobSpec("mail") for _ in range(4)])
        claimed = await caller.post("/v1/claims", json={"tasks": ["mail"], "count": 4})
        leases = [one["lease"] for one in claimed.json()["claims"]]
        outcomes: list[dict[str, Any]] = [
            {"lease": leases[0], "outcome": "completed"},
            {"lease": leases[1], "outcome": "failed", "error": "no"},
            {"lease": leases[2], "outcome": "abandon"},
        ]
        for more in ([], outcomes[:1]):  # asked for again, the first is lost
            answer = await caller.post("/v1/claims/settle", json={"outcomes": more or outcomes})
            assert answer.status_code == 200, answer.text
        found = await scraped(caller)
        processed = {key[1:]: n for key, n in found.items() if key[0].endswith("processed_total")}
        assert {key: n for key, n in processed.items() if n} == {
            ("ok", "mail"): 1,
            ("retry", "mail"): 1,
            ("abandoned", "mail"): 1,
            ("lost", "mail"): 1,
        }
        assert found["windlass_settle_seconds_count",] == 2

    served(check)


def test_a_scrape_asks_the_database_one_question() -> None:
    async def check(kit: Kit) -> None:
        caller = kit.caller()
        await scraped(caller)
        before = {name: counted(kit.store, name) for name in ("depths", "counts", "now", "find")}
        await scraped(caller)
        assert {name: len(calls) for name, calls in before.items()} == {
            "depths": 1,
            "counts": 0,
            "now": 0,
            "find": 0,
        }

    served(check)


@pytest.mark.parametrize("trouble", ["away", "silent"])
def test_a_database_that_does_not_answer_is_told(trouble: str) -> None:
    async def check(kit: Kit) -> None:
        async def depths() -> Any:
            if trouble == "away":
                raise StoreUnavailableError("the database is away")
            await asyncio.sleep(3600)

        kit.store.depths = depths
        found = await scraped(kit.caller())
        assert found["windlass_store_up",] == 0
        assert not any(key[0] in ("windlass_queue_jobs",) for key in found)
        assert ("windlass_claims_total",) in found

    served(check)


def test_each_process_answers_for_all_and_streams_are_counted(serve: Serve) -> None:
    server = serve("--processes", "2")
    server.process.wait_for_line("REST on", times=2)

    def look() -> Samples:
        with server.caller() as caller:
            return samples(caller.get("/metrics").text)

    def requests() -> float:
        return look().get(("windlass_server_requests_total", "list_jobs", "200"), 0.0)

    for _ in range(12):
        with server.caller() as caller:  # connections of their own, so that both have some
            assert caller.get("/v1/jobs").status_code == 200
    wait_until("all requests to be counted", lambda: requests() == 12)
    assert look()["windlass_slots", "idle"] in (32, 64)

    async def work() -> None:
        async with App(f"grpc://{server.streams}") as app:

            @app.task
            async def t() -> None: ...

            runner = await app.run(handle_signals=False)
            await asyncio.to_thread(
                wait_until, "a stream", lambda: look().get(("windlass_server_streams", "worker"))
            )
            await runner.stop()

    asyncio.run(work())
    wait_until("no stream", lambda: look()["windlass_server_streams", "worker"] == 0)
    assert look()["windlass_server_streams_opened_total", "worker"] >= 1
    children = subprocess.run(
        ["pgrep", "-P", str(server.process.pid)], capture_output=True, text=True
    ).stdout.split()
    os.kill(int(children[0]), signal.SIGKILL)

    def both_again() -> bool:
        assert requests() == 12, "also those of the process that was killed"
        return server.process.count("REST on") == 3

    wait_until("another process", both_again)
    assert server.stop() == 0


@pytest.mark.slow
def test_the_text_passes_promtool(serve: Serve) -> None:
    promtool = need("promtool", package="prometheus")
    server = serve()

    async def work() -> None:
        async with App(f"grpc://{server.streams}") as app:
            await app.client.add_job("t")

    asyncio.run(work())
    with server.caller() as caller:
        caller.get("/v1/jobs")
        text = caller.get("/metrics").text
    done = subprocess.run(
        [promtool, "check", "metrics"], input=text, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    named = {line.split()[2] for line in text.splitlines() if line.startswith("# HELP")}
    assert {one.name for one in METRICS} - named == {"windlass_in_flight"}, "nothing runs"
