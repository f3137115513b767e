"""The OpenAPI document: it tells everything, and the server does as it says.

Schemathesis makes requests from the document, good and bad ones, and holds the answers against it.
Each request meets a fresh server in memory with a few things in it, in virtual time, so that long
polls cost nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import msgspec
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode, checks
from schemathesis.specs.openapi import checks as openapi_checks

from tests.server.fuzz.conftest import SECONDS, fuzz
from tests.server.rest.kit import Kit, served
from tests.server.rest.test_rest_matrix import make_world
from windlass.server.rest import ROUTES
from windlass.server.rest.openapi import document, route
from windlass.server.rest.reading import Either
from windlass.server.rest.routes import Nothing, Open

ALL = (*ROUTES, route(ROUTES))
DOCUMENT = document(ALL)

IDS = [
    "add_jobs",
    "cancel_chain",
    "cancel_job",
    "cancel_jobs",
    "claim_jobs",
    "complete_chain",
    "complete_job",
    "count_jobs",
    "delete_chain",
    "delete_job_by_key",
    "delete_jobs",
    "fail_job",
    "get_chain",
    "get_health",
    "get_job",
    "get_job_result",
    "get_metrics",
    "get_openapi_document",
    "get_readiness",
    "list_chains",
    "list_jobs",
    "list_queues",
    "list_schedules",
    "list_tasks",
    "list_workers",
    "pause_queue",
    "pause_schedule",
    "pause_task",
    "renew_claims",
    "reschedule_job",
    "resume_queue",
    "resume_schedule",
    "resume_task",
    "retry_chain",
    "retry_job",
    "retry_jobs",
    "settle_claims",
    "start_chains",
    "trigger_schedule",
]


def operations() -> Iterator[tuple[str, str, Any]]:
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def test_ids_of_operations_are_stable() -> None:
    """Generated clients have functions of these names: one is never renamed."""
    assert sorted(operation["operationId"] for _, _, operation in operations()) == IDS


def test_every_operation_parameter_and_field_is_described() -> None:
    for path, method, operation in operations():
        where = f"{method} {path}"
        assert operation["summary"].endswith("."), where
        for parameter in operation["parameters"]:
            assert parameter["description"], (where, parameter["name"])
        for status, answer in operation["responses"].items():
            assert answer["description"], (where, status)
    for name, schema in DOCUMENT["components"]["schemas"].items():
        assert schema["description"] and "\n " not in schema["description"], name
        for field, one in schema.get("properties", {}).items():
            assert one["description"], (name, field)


def test_every_body_has_an_example_that_is_good() -> None:
    for each in ALL:
        if each.body in (None, Nothing):
            continue
        operation = DOCUMENT["paths"][each.path][each.method.lower()]
        examples = operation["requestBody"]["content"]["application/json"]["examples"]
        kinds = (each.body.one, each.body.many) if isinstance(each.body, Either) else (each.body,)
        assert len(examples) >= len(kinds), each.id
        for example in examples.values():
            fits = 0
            for kind in kinds:
                try:
                    msgspec.json.decode(msgspec.json.encode(example["value"]), type=kind)
                except msgspec.ValidationError:
                    continue
                fits += 1
            assert fits == 1, (each.id, example)


def test_every_operation_names_its_problems_and_its_token() -> None:
    assert DOCUMENT["security"] == [{"token": []}]
    for each in ALL:
        operation = DOCUMENT["paths"][each.path][each.method.lower()]
        if each.power is Open.ALWAYS:
            assert operation["security"] == []
            continue
        assert {"400", "401", "403", "429", "500", "503"} <= operation["responses"].keys()
        assert ("{id}" not in each.path) or "404" in operation["responses"], each.id
        assert each.method != "POST" or {"413", "415"} <= operation["responses"].keys()


def test_the_document_is_served_as_it_is() -> None:
    async def check(kit: Kit) -> None:
        answer = await kit.caller().get("/v1/openapi.json")
        assert answer.headers["content-type"] == "application/json"
        assert answer.json() == json.loads(json.dumps(DOCUMENT))

    served(check)


# ── requests made from the document ──

SCHEMA = schemathesis.openapi.from_dict(json.loads(json.dumps(DOCUMENT)))
SCHEMA.config.generation.with_security_parameters = False
SCHEMA.config.generation.allow_x00 = False
SCHEMA.config.checks.negative_data_rejection.expected_statuses = ["4xx", "5xx"]
CHECKS = [
    checks.not_a_server_error,
    openapi_checks.status_code_conformance,
    openapi_checks.content_type_conformance,
    openapi_checks.response_headers_conformance,
    openapi_checks.response_schema_conformance,
    openapi_checks.negative_data_rejection,
]


def send(case: Any) -> httpx.Response:
    """The answer of a fresh server to a request."""
    answers: list[httpx.Response] = []
    kwargs = case.as_transport_kwargs(base_url="http://127.0.0.1:8080")
    known = ("method", "url", "headers", "params", "json", "data", "cookies")
    prepared = requests.Request(**{name: kwargs.get(name) for name in known}).prepare()
    body: Any = prepared.body or b""

    async def check(kit: Kit) -> None:
        await make_world(kit, "")
        caller = await kit.as_role("admin")
        headers = {
            name.encode(): value.encode("latin-1") if isinstance(value, str) else value
            for name, value in prepared.headers.items()
            if name.lower() != "content-length"
        }
        request = caller.build_request(
            prepared.method or "", prepared.url or "", headers=headers, content=body
        )
        answers.append(await caller.send(request))
        answers[0].request = request

    served(check)
    return answers[0]


def try_operation(path: str, method: str, mode: GenerationMode, examples: int) -> None:
    operation = SCHEMA[path][method]

    @settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def one(case: Any) -> None:
        case.validate_response(send(case), checks=CHECKS)

    one()


MANY = 25
GOOD, BAD = GenerationMode.POSITIVE, GenerationMode.NEGATIVE
EVERY = [
    (path, method, mode)
    for path, method, operation in operations()
    for mode in (GOOD, BAD)
    if mode is GOOD or operation["parameters"]
]
"""Without parameters there is nothing to get wrong."""


@pytest.mark.parametrize(("path", "method", "mode"), EVERY, ids=str)
def test_answers_are_as_the_document_says(path: str, method: str, mode: GenerationMode) -> None:
    try_operation(path, method, mode, 6)


@pytest.mark.rig
@pytest.mark.parametrize(("path", "method", "mode"), EVERY, ids=str)
def test_many_answers_are_as_the_document_says(
    path: str, method: str, mode: GenerationMode
) -> None:
    """`make fuzz` divides its time among the operations."""

    def one(case: Any) -> None:
        case.validate_response(send(case), checks=CHECKS)

    requests_of = SCHEMA[path][method].as_strategy(generation_mode=mode)
    fuzz(requests_of, one, MANY, SECONDS / len(EVERY))
