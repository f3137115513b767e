"""Whatever a caller sends is answered: with a problem that names what is wrong, never with a 500,
and nothing is stored."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import msgspec
import pytest

from tests.server.rest.kit import Kit, problem, served
from windlass import errors
from windlass.server.rest.problems import Kind, refusal
from windlass.server.rest.reading import MIB
from windlass.server.rest.routes import BULK
from windlass.store.records import JobFilter

JSON = {"content-type": "application/json"}


async def assert_nothing_stored(kit: Kit) -> None:
    assert await kit.store.find(JobFilter()) == []


@pytest.mark.parametrize(
    ("path", "raw", "field"),
    [
        ("/v1/jobs", b"", "task"),
        ("/v1/jobs", b"{", None),
        ("/v1/jobs", b"[]", None),
        ("/v1/jobs", b'"x"', None),
        ("/v1/jobs", b"\xff\xfe", None),
        ("/v1/jobs", b'{"task": "\xff"}', None),
        ("/v1/jobs", b'{"task": "a"} {}', None),
        ("/v1/jobs", b'{"task": "a", "payload": NaN}', None),
        ("/v1/jobs", b'{"task": "a", "payload": ' + b"[" * 100_000, None),
        ("/v1/jobs", b'{"task": "a", "payload": ' + b"[" * 100 + b"]" * 100 + b"}", "payload"),
        ("/v1/jobs", b'{"task": "a", "payload": "\\u0000"}', "payload"),
        ("/v1/jobs", b'{"task": "a", "payload": 123456789012345678901234567890}', "payload"),
        ("/v1/jobs", b'{"task": 5}', "task"),
        ("/v1/jobs", b'{"task": ""}', "task"),
        ("/v1/jobs", b'{"task": "a\\u0000b"}', "task"),
        ("/v1/jobs", b'{"task": "' + b"x" * 129 + b'"}', "task"),
        ("/v1/jobs", b'{"task": "a", "priority": "5"}', "priority"),
        ("/v1/jobs", b'{"task": "a", "priority": 2147483648}', "priority"),
        ("/v1/jobs", b'{"task": "a", "priority": 1.5}', "priority"),
        ("/v1/jobs", b'{"task": "a", "strict": 1}', "strict"),
        ("/v1/jobs", b'{"task": "a", "color": "red"}', "color"),
        ("/v1/jobs", b'{"task": "a", "tenant": "other"}', "tenant"),
        ("/v1/jobs", b'{"task": "a", "run_at": "2030-01-01T00:00:00"}', "run_at"),
        ("/v1/jobs", b'{"task": "a", "run_at": "tomorrow"}', "run_at"),
        ("/v1/jobs", b'{"task": "a", "delay": -1}', "delay"),
        ("/v1/jobs", b'{"task": "a", "key_mode": "other"}', "key_mode"),
        ("/v1/jobs", b'{"task": "a", "flags": [1]}', "flags[0]"),
        ("/v1/jobs", b'{"task": "a", "blockers": [0]}', "blockers[0]"),
        ("/v1/jobs", b'{"task": "a", "meta": []}', "meta"),
        ("/v1/jobs", b'{"jobs": []}', "jobs"),
        ("/v1/jobs", b'{"jobs": {}}', "jobs"),
        ("/v1/jobs", b'{"jobs": [{"task": "a"}, {}]}', "jobs[1].task"),
        ("/v1/jobs", b'{"jobs": [{"task": "a"}], "task": "b"}', "task"),
        ("/v1/jobs", b'{"jobs": [{"task": "a"}, {"task": "b", "x": 1}]}', "jobs[1].x"),
        ("/v1/chains", b'{"task": "a", "key_mode": "replace"}', "key_mode"),
        ("/v1/chains", b'{"task": "a", "key_window": 5}', "key_window"),
        ("/v1/jobs/cancel", b"", None),
        ("/v1/jobs/cancel", b'{"state": []}', None),
        ("/v1/jobs/cancel", b'{"state": "broken"}', "state"),
        ("/v1/jobs/cancel", b'{"state": null}', None),
        ("/v1/jobs/cancel", b'{"state": ["broken"]}', "state[0]"),
        ("/v1/jobs/delete", b'{"id": 1}', "id"),
        ("/v1/jobs/7/cancel", b'{"x": 1}', "x"),
        ("/v1/claims", b'{"count": 0}', "count"),
        ("/v1/claims", b'{"count": 1001}', "count"),
        ("/v1/claims", b'{"wait": 61}', "wait"),
        ("/v1/claims", b'{"lease": 0}', "lease"),
        ("/v1/claims/settle", b'{"outcomes": [{"lease": "x"}]}', "outcomes[0].outcome"),
        ("/v1/claims/settle", b'{"outcomes": [{"lease": "x", "outcome": "won"}]}', None),
        (
            "/v1/claims/settle",
            b'{"outcomes": [{"lease": "x", "outcome": "completed", "delay": 1}]}',
            "outcomes[0].delay",
        ),
        ("/v1/claims/renew", b"{}", "leases"),
    ],
)
def test_a_bad_body_is_refused_with_its_field(path: str, raw: bytes, field: str | None) -> None:
    async def check(kit: Kit) -> None:
        told = problem(await kit.caller().post(path, content=raw, headers=JSON), 400, "invalid")
        if field is not None:
            assert told.get("field") == field, told
        await assert_nothing_stored(kit)

    served(check)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=10001", "limit"),
        ("limit=ten", "limit"),
        ("limit=", "limit"),
        ("limit=1&limit=2", "limit"),
        ("after=-1", "after"),
        ("after=99999999999999999999", "after"),
        ("state=broken", "state[0]"),
        ("task=", "task"),
        ("task=%00", "task"),
        ("task=%ff", None),
        ("color=red", "color"),
        ("Limit=1", "Limit"),
        ("&".join(f"a{number}=1" for number in range(200)), None),
    ],
)
def test_a_bad_query_is_refused_with_its_parameter(query: str, field: str | None) -> None:
    async def check(kit: Kit) -> None:
        told = problem(await kit.caller().get(f"/v1/jobs?{query}"), 400, "invalid")
        if field is not None:
            assert told.get("field") == field, told

    served(check)


@pytest.mark.parametrize(
    "id", ["x", "-1", "1.0", "99999999999999999999", "9223372036854775808", "%2B1", "%D9%A1", "%FF"]
)
def test_what_is_no_id_is_the_id_of_nothing(id: str) -> None:
    async def check(kit: Kit) -> None:
        await kit.app.client.add_job("a")
        for path in (f"/v1/jobs/{id}", f"/v1/jobs/{id}/result", f"/v1/chains/{id}"):
            problem(await kit.caller().get(path), 404, "not-found")

    served(check)


def test_a_name_may_have_a_slash_and_any_letter() -> None:
    async def check(kit: Kit) -> None:
        caller = kit.caller()
        answer = await caller.post("/v1/tasks/mail%2Fout%20%C3%BC/pause")
        assert answer.json() == {"name": "mail/out ü", "tenant": None, "paused": True}
        assert (await kit.app.client.paused()).tasks == ("mail/out ü",)
        problem(await caller.post("/v1/tasks/a%00b/pause"), 400, "invalid", "task")
        problem(await caller.post(f"/v1/queues/{'x' * 129}/pause"), 400, "invalid", "queue")

    served(check)


def test_addresses_and_methods_that_are_not_there() -> None:
    async def check(kit: Kit) -> None:
        caller = kit.caller()
        for path in ("/", "/v1", "/v1/job", "/v1/jobs/7/result/more", "/v2/jobs", "/docs"):
            problem(await caller.get(path), 404, "not-found")
        for method, path in (("PUT", "/v1/jobs"), ("PATCH", "/v1/jobs/7"), ("GET", "/v1/claims")):
            answer = await caller.request(method, path)
            problem(answer, 405, "method-not-allowed")
            assert answer.headers["allow"]

    served(check)


def test_a_body_that_is_not_said_to_be_json_is_refused() -> None:
    async def check(kit: Kit) -> None:
        caller = await kit.as_role("admin")
        for kind in ("text/plain", "application/x-www-form-urlencoded", "application/xml", ""):
            answer = await caller.post(
                "/v1/jobs", content=b'{"task": "a"}', headers={"content-type": kind}
            )
            problem(answer, 415, "unsupported-media-type", "Content-Type")
        good = {"content-type": "Application/JSON; charset=utf-8"}
        answer = await caller.post("/v1/jobs", content=b'{"task": "a"}', headers=good)
        assert answer.status_code == 201

    served(check)


def test_bodies_have_limits_however_they_are_sent() -> None:
    async def check(kit: Kit) -> None:
        caller = kit.caller()
        read = 0

        async def endless() -> Any:
            nonlocal read
            while True:
                read += 1
                yield b" " * 65_536

        for path, limit in (("/v1/claims", MIB), ("/v1/jobs", BULK)):
            read = 0
            answer = await caller.post(path, content=endless(), headers=JSON)
            problem(answer, 413, "too-large")
            assert read <= limit / 65_536 + 2, "it is not read on"
        one = msgspec.json.encode({"task": "a", "payload": "x" * MIB})
        problem(await caller.post("/v1/jobs", content=one, headers=JSON), 413, "too-large")
        large = {"jobs": [{"task": "a"}, {"task": "b", "payload": "x" * 300_000}]}
        answer = await caller.post("/v1/jobs", json=large)
        problem(answer, 413, "too-large", "jobs[1].payload")
        many = {"jobs": [{"task": "a"}] * 10_001}
        problem(await caller.post("/v1/jobs", json=many), 413, "too-large", "jobs")
        await assert_nothing_stored(kit)
        answer = await caller.post("/v1/jobs", json={"jobs": [{"task": "a"}] * 10_000})
        assert answer.status_code == 201 and len(answer.json()["jobs"]) == 10_000

    served(check)


def test_a_token_past_its_rate_is_told_when_to_come_again() -> None:
    async def check(kit: Kit) -> None:
        slow, other = [await kit.as_role("producer") for _ in range(2)]
        answers = [await slow.get("/v1/jobs") for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 429, 429]
        problem(answers[-1], 429, "too-many-requests")
        await asyncio.sleep(int(answers[-1].headers["retry-after"]))
        assert (await slow.get("/v1/jobs")).status_code == 200
        assert (await other.get("/v1/jobs")).status_code == 200

    served(check, rate=2)


@pytest.mark.parametrize("given", ["Basic dXNlcjpwYXNz", "Bearer", "wl_x", "Bearer  ", "Token x"])
def test_what_is_no_bearer_token_is_refused(given: str) -> None:
    async def check(kit: Kit) -> None:
        answer = await kit.caller().get("/v1/jobs", headers={"Authorization": given})
        problem(answer, 401, "unauthenticated")
        assert answer.headers["www-authenticate"].startswith("Bearer")

    served(check)


def test_health_is_told_without_a_token_on_this_machine_alone() -> None:
    async def check(kit: Kit) -> None:
        far = kit.caller(address="192.0.2.7")
        for path in ("/healthz", "/readyz"):
            assert (await kit.caller().get(path)).status_code == 200
            problem(await far.get(path), 401, "unauthenticated")
        shown = kit.caller(await kit.token("producer"), address="192.0.2.7")
        assert (await shown.get("/readyz")).status_code == 200

    served(check)

    async def open_check(kit: Kit) -> None:
        assert (await kit.caller(address="192.0.2.7").get("/healthz")).status_code == 200

    served(open_check, open_probes=True)


# ── what goes wrong behind the server ──


@pytest.mark.parametrize(
    ("error", "status", "end"),
    [
        (errors.StoreUnavailableError("host db.internal refused"), 503, "unavailable"),
        (errors.StoreBusyError("locked by 4711"), 503, "unavailable"),
        (errors.OutcomeUnknownError("cut in db.internal"), 503, "unknown-outcome"),
        (RuntimeError("secret of db.internal"), 500, "internal"),
    ],
)
def test_failures_are_logged_and_tell_the_caller_nothing_of_the_inside(
    error: Exception, status: int, end: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def check(kit: Kit) -> None:
        async def failing(*_: Any, **__: Any) -> Any:
            raise error

        kit.store.get = failing
        answer = await kit.caller().get("/v1/jobs/7")
        problem(answer, status, end)
        assert "internal" not in answer.json()["detail"] and "Traceback" not in answer.text
        assert (answer.headers.get("retry-after") is not None) == (status == 503)

    with caplog.at_level(logging.WARNING, "windlass.server"):
        served(check)
    assert str(error) in caplog.text


def test_a_database_that_does_not_answer_is_not_ready() -> None:
    async def check(kit: Kit) -> None:
        async def hanging() -> int:
            await asyncio.sleep(3600)
            return 0

        kit.store.now = hanging
        problem(await kit.caller().get("/readyz"), 503, "unavailable")
        assert (await kit.caller().get("/healthz")).status_code == 200

    served(check)


def subclasses(kind: type[Exception]) -> set[type[Exception]]:
    return {kind, *(each for child in kind.__subclasses__() for each in subclasses(child))}


OURS = {
    errors.WindlassError,
    errors.ConfigError,
    errors.MissingExtraError,
    errors.TaskError,
    errors.UnknownTaskError,
    errors.DuplicateTaskError,
    errors.TaskLoadError,
    errors.WaitTimeoutError,
    errors.LeaseLostError,
    errors.HandlerSignal,
    errors.Poison,
    errors.RetryAfter,
    errors.RetryAt,
}
"""Errors that no request can cause: where one comes up it is a fault of the server."""


def test_every_error_of_windlass_is_mapped_or_is_our_fault() -> None:
    here = {kind for kind in subclasses(errors.WindlassError) if kind.__module__ == errors.__name__}
    for kind in here:
        made = kind.__new__(kind)
        made.field = "x"  # type: ignore[attr-defined]
        mapped = refusal(made)
        assert (mapped is None) == (kind in OURS), kind
        assert mapped is None or mapped.kind is not Kind.INTERNAL


@pytest.mark.parametrize("raw", [b"{", b'{"task": "a"} {}', b'{"task": "\xff"}'])
def test_a_body_that_is_no_json_is_called_that(raw: bytes) -> None:
    async def check(kit: Kit) -> None:
        answer = await kit.caller().post("/v1/jobs", content=raw, headers=JSON)
        assert problem(answer, 400, "invalid")["detail"].startswith("the body is not JSON: ")

    served(check)
