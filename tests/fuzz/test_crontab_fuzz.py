"""Crontabs and cron items: schedules that can be shown and fired, or one CrontabError."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.kit import fuzz
from tests.fuzz.values import integers, made, payloads, texts, values
from windlass import CronItem, parse_cron_items, parse_crontab
from windlass.errors import CrontabError
from windlass.model.cron import Schedule
from windlass.model.cron.words import describe
from windlass.store.schedules import jobs_at

pytestmark = pytest.mark.slow

NOW = 1_900_000_000_000_000
OPTIONS = ["id", "fill", "fillmax", "max", "queue", "priority", "jobKey", "jobKeyMode", "tz"]
FIELDS = ["*", "0", "7", "*/5", "1-5", "1-31/2", "mon", "jan", "31", "*/0", "99", "5-1", "1,,2"]
fields = st.sampled_from([*FIELDS, "²", "-1", "9" * 5_000, "@daily", "@", "sat-sun", "30"])
words = st.sampled_from(
    ["t", "a/b", "", "#", "?id=x", "{}", "{a: 1}", "{" * 3_000, '{"a":"\ud800"}']
)
odd_options = st.lists(
    st.tuples(
        st.sampled_from(OPTIONS) | texts, texts | integers.map(str) | st.sampled_from(["2d", "%00"])
    ),
    max_size=3,
).map(lambda pairs: "?" + "&".join(f"{name}={value}" for name, value in pairs))
lines = st.builds(
    lambda pattern, task, options, rest: " ".join([*pattern, task, options, rest]),
    st.lists(fields, min_size=4, max_size=6),
    words | texts,
    odd_options | st.just(""),
    words | texts,
)


def check_each(schedules: list[Schedule]) -> None:
    for schedule in schedules:
        assert describe(schedule)
        schedule.timetable.after(NOW)
        [job] = jobs_at(schedule, [NOW], backfilled=False)
        job.payload.encode()


def refusal(error: CrontabError) -> None:
    assert error.field and error.problems
    for problem in error.problems:
        assert 0 < len(str(problem)) < 20_000
    str(error).encode()


def test_texts() -> None:
    @fuzz(500)
    @given(st.lists(lines | texts, min_size=1, max_size=3).map("\n".join))
    def check(text: str) -> None:
        try:
            found = parse_crontab(text)
        except CrontabError as error:
            refusal(error)
        else:
            check_each(found)

    check()


def test_items() -> None:
    patterns = st.sampled_from(["* * * * *", "@daily", "0 0 30 2 *"]) | lines | values
    options = st.dictionaries(st.sampled_from([*OPTIONS, "max_attempts", "key"]) | texts, values)
    items = st.tuples(
        st.just("t") | values, patterns, options | values, payloads, st.none() | values
    )

    @fuzz(500)
    @given(st.lists(items | values, max_size=2))
    def check(given_items: list[Any]) -> None:
        made_items = [
            CronItem(
                **dict(
                    zip(
                        ("task", "pattern", "options", "payload", "identifier"),
                        map(made, item),
                        strict=True,
                    )
                )
            )
            if isinstance(item, tuple)
            else made(item)
            for item in given_items
        ]
        try:
            found = parse_cron_items(made_items)
        except CrontabError as error:
            refusal(error)
        else:
            check_each(found)

    check()
