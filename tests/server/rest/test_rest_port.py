"""REST of a real `windlass serve` process: what only sockets and other processes can show."""

from __future__ import annotations

import concurrent.futures
import json
import socket
from typing import Any

from tests.cli.program import wait_until
from tests.server.conftest import Serve
from tests.server.served import Served
from windlass.server.rest.routes import BULK


def test_jobs_go_round(served: Served) -> None:
    token = served.token("producer", "worker", "operator")
    with served.caller(token) as caller:
        added = caller.post("/v1/jobs", json={"task": "mail", "payload": {"to": "ada"}})
        assert added.status_code == 201
        [claim] = caller.post("/v1/claims", json={"tasks": ["mail"], "wait": 30}).json()["claims"]
        assert claim["job"]["payload"] == {"to": "ada"}
        path = f"/v1/jobs/{added.json()['id']}/result"
        assert caller.get(path).status_code == 202
        renewed = caller.post("/v1/claims/renew", json={"leases": [claim["lease"]], "lease": 60})
        assert renewed.json() == {"results": ["applied"], "cancel": []}
        outcome = {"lease": claim["lease"], "outcome": "completed", "output": [1]}
        settled = caller.post("/v1/claims/settle", json={"outcomes": [outcome]})
        assert settled.json() == {"results": ["applied"]}
        result = caller.get(path, params={"wait": 30})
        assert (result.status_code, result.json()["output"]) == (200, [1])


def test_one_waits_while_another_adds_and_ends(served: Served) -> None:
    token = served.token("producer", "worker")

    def work() -> Any:
        with served.caller(token) as caller:
            [claim] = caller.post("/v1/claims", json={"tasks": ["slow"], "wait": 60}).json()[
                "claims"
            ]
            outcome = {"lease": claim["lease"], "outcome": "completed", "output": "done"}
            return caller.post("/v1/claims/settle", json={"outcomes": [outcome]}).json()

    with concurrent.futures.ThreadPoolExecutor(1) as pool, served.caller(token) as caller:
        working = pool.submit(work)
        job = caller.post("/v1/jobs", json={"task": "slow"}).json()
        result = caller.get(f"/v1/jobs/{job['id']}/result", params={"wait": 60})
        assert (result.status_code, result.json()["output"]) == (200, "done")
        assert working.result() == {"results": ["applied"]}


def sent(served: Served, token: str, path: str, body: Any) -> socket.socket:
    """A request that was sent, and whose answer is not read."""
    raw = json.dumps(body).encode()
    host = served.rest.removeprefix("http://")
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(raw)}\r\n\r\n"
    )
    address, _, port = host.rpartition(":")
    connection = socket.create_connection((address, int(port)))
    connection.sendall(head.encode() + raw)
    return connection


def test_what_is_claimed_for_a_caller_that_hung_up_is_still_there(served: Served) -> None:
    token = served.token("producer", "worker")
    with served.caller(token) as caller:
        for _ in range(5):
            sent(served, token, "/v1/claims", {"tasks": ["left"], "wait": 60}).close()
        job = caller.post("/v1/jobs", json={"task": "left"}).json()
        [claim] = caller.post("/v1/claims", json={"tasks": ["left"], "wait": 60}).json()["claims"]
        assert (claim["job"]["id"], claim["job"]["attempts"]) == (job["id"], 1)


def test_a_body_past_its_limit_is_not_read_on(served: Served) -> None:
    token = served.token("producer")
    with served.caller(token) as caller:
        answer = caller.post(
            "/v1/jobs",
            content=b" " * (BULK + 1),
            headers={"content-type": "application/json"},
        )
        assert answer.status_code == 413
        assert caller.get("/v1/counts").status_code == 200


def test_the_same_request_from_many_connections_adds_once(served: Served) -> None:
    token = served.token("producer")

    def add(number: int) -> int:
        with served.caller(token) as caller:
            answer = caller.post(
                "/v1/jobs", json={"task": "once"}, headers={"Idempotency-Key": "the same"}
            )
            assert answer.status_code == 201
            id: int = answer.json()["id"]
            return id

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(add, range(16)))) == 1


def test_many_jobs_are_deleted_in_one_call(served: Served) -> None:
    token = served.token("operator")
    with served.caller(token) as caller:
        added = caller.post("/v1/jobs", json={"jobs": [{"task": "heap"}] * 2_500})
        assert added.status_code == 201
        deleted = caller.post("/v1/jobs/delete", json={"task": "heap"})
        assert len(deleted.json()["jobs"]) == 2_500
        assert caller.get("/v1/jobs", params={"task": "heap"}).json()["jobs"] == []


def test_names_with_slashes_arrive(served: Served) -> None:
    with served.caller(served.token("operator")) as caller:
        answer = caller.post("/v1/tasks/mail%2Fout/pause")
        assert answer.json() == {"name": "mail/out", "tenant": None, "paused": True}
        caller.post("/v1/tasks/mail%2Fout/resume")


def test_a_server_that_is_told_to_stop_answers_long_polls_first(serve: Serve) -> None:
    served = serve("--grace", "60")
    token = served.token("worker")
    with concurrent.futures.ThreadPoolExecutor(1) as pool, served.caller(token) as caller:
        body = {"tasks": ["x"], "wait": 60}
        claiming = pool.submit(caller.post, "/v1/claims", json=body)
        # The first claim for those who wait makes their worker known.
        wait_until("a claim waits", lambda: _claims_wait(served))
        assert served.stop() == 0
        assert claiming.result().json() == {"claims": []}


def _claims_wait(served: Served) -> bool:
    workers = served.call(lambda store: store.workers())
    return any(worker.id.startswith("rest-") for worker in workers)
