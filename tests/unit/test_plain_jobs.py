"""Jobs without keys on their way to PostgreSQL and back."""

from __future__ import annotations

import json

import pytest

from windlass.model.payload import decode
from windlass.store import rules
from windlass.store.fresh import fresh_jobs
from windlass.store.records import NewJob
from windlass.stores.postgres.wire import encode_plain

NOW = 1_700_000_000_123_456
JOBS = [
    NewJob("a"),
    NewJob("a", "null", "q", run_at=NOW + 1),
    NewJob("b", '{"a":[1,"ä"]}', None, run_at=NOW - 5, priority=-3, max_attempts=7),
    NewJob("c", "[]", delay=10_000_000, flags=("x", "y"), keep=1.5),
    NewJob("c", '"[,]"', run_at=rules.LAST_INSTANT + 1),
]
VALUES = [decode(job.payload) for job in JOBS]


def test_a_job_that_was_added_is_what_the_rules_say() -> None:
    ids = range(7, 7 + len(JOBS))
    expected = [rules.new_row(job, NOW, id).job() for job, id in zip(JOBS, ids, strict=True)]
    assert fresh_jobs(JOBS, VALUES, NOW, ids) == expected


def test_an_answer_with_too_few_ids_is_no_answer() -> None:
    with pytest.raises(ValueError, match="shorter"):
        fresh_jobs(JOBS, VALUES, NOW, [1, 2])


def test_what_jobs_have_in_common_is_said_once() -> None:
    jobs = [NewJob("t", f'{{"n":{n}}}', "q", priority=2, flags=("f",)) for n in range(3)]
    assert json.loads(encode_plain(jobs)) == {
        "task": "t",
        "payloads": [{"n": 0}, {"n": 1}, {"n": 2}],
        "queue": "q",
        "priority": 2,
        "flags": ["f"],
    }


@pytest.mark.parametrize(
    "other",
    [
        NewJob("other"),
        NewJob("t", queue="q"),
        NewJob("t", run_at=NOW),
        NewJob("t", delay=1),
        NewJob("t", max_attempts=1),
        NewJob("t", priority=1),
        NewJob("t", flags=("f",)),
        NewJob("t", keep=0.0),
    ],
    ids=str,
)
def test_what_they_have_not_is_said_of_each(other: NewJob) -> None:
    assert [spec["task"] for spec in json.loads(encode_plain([NewJob("t"), other]))] == [
        "t",
        other.task,
    ]
