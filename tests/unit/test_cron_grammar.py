"""The crontab's grammar: what is understood, and what is said about the rest."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from windlass.errors import CrontabError, CrontabProblem, ValidationError
from windlass.model.cron import CronItem, Schedule, parse_cron_items, parse_crontab
from windlass.model.cron.fields import FIELDS, parse_field
from windlass.model.cron.pattern import WORDS, parse_pattern

MINUTE, HOUR, DAY, MONTH, WEEKDAY = FIELDS
EVERY = "* * * * *"


def one(text: str) -> Schedule:
    (schedule,) = parse_crontab(text)
    return schedule


def problems(text: str) -> tuple[CrontabProblem, ...]:
    with pytest.raises(CrontabError) as caught:
        parse_crontab(text)
    return caught.value.problems


# ── fields ──


@pytest.mark.parametrize(
    ("field", "text", "values"),
    [
        (MINUTE, "*", range(60)),
        (MINUTE, "0", [0]),
        (MINUTE, "59", [59]),
        (MINUTE, "05", [5]),
        (MINUTE, "*/1", range(60)),
        (MINUTE, "*/15", [0, 15, 30, 45]),
        (MINUTE, "*/7", [0, 7, 14, 21, 28, 35, 42, 49, 56]),
        (MINUTE, "*/59", [0, 59]),
        (MINUTE, "*/61", [0]),
        (MINUTE, "1-5", [1, 2, 3, 4, 5]),
        (MINUTE, "5-5", [5]),
        (MINUTE, "1-10/3", [1, 4, 7, 10]),
        (MINUTE, "10-20/100", [10]),
        (MINUTE, "0-59/30", [0, 30]),
        (MINUTE, "3,1,2,1", [1, 2, 3]),
        (MINUTE, "0,*/20,5-6,50-58/4", [0, 5, 6, 20, 40, 50, 54, 58]),
        (HOUR, "*", range(24)),
        (HOUR, "*/4", [0, 4, 8, 12, 16, 20]),
        (HOUR, "0-23", range(24)),
        (HOUR, "9-17/2", [9, 11, 13, 15, 17]),
        (DAY, "*", range(1, 32)),
        # Divisible by n, not every n-th from the first.
        (DAY, "*/10", [10, 20, 30]),
        (DAY, "*/2", range(2, 32, 2)),
        (DAY, "1-31/10", [1, 11, 21, 31]),
        (MONTH, "*/5", [5, 10]),
        (MONTH, "*/12", [12]),
        (MONTH, "jan", [1]),
        (MONTH, "JAN,Feb,mAr", [1, 2, 3]),
        (MONTH, "january,December", [1, 12]),
        (MONTH, "may", [5]),
        (MONTH, "apr-jun", [4, 5, 6]),
        (MONTH, "apr-6,10-dec/2", [4, 5, 6, 10, 12]),
        (WEEKDAY, "*", range(7)),
        (WEEKDAY, "0", [0]),
        (WEEKDAY, "7", [0]),
        (WEEKDAY, "0,7", [0]),
        (WEEKDAY, "5-7", [0, 5, 6]),
        (WEEKDAY, "0-7", range(7)),
        (WEEKDAY, "1-7", range(7)),
        (WEEKDAY, "7-7", [0]),
        (WEEKDAY, "1-7/2", [0, 1, 3, 5]),
        (WEEKDAY, "*/2", [0, 2, 4, 6]),
        (WEEKDAY, "*/7", [0]),
        (WEEKDAY, "sun", [0]),
        (WEEKDAY, "SUNDAY", [0]),
        (WEEKDAY, "Mon-Fri", [1, 2, 3, 4, 5]),
        (WEEKDAY, "sat-sun", [0, 6]),
        (WEEKDAY, "mon-sun", range(7)),
        (WEEKDAY, "saturday-sunday", [0, 6]),
        (WEEKDAY, "sun-sat", range(7)),
        (WEEKDAY, "sun-tue", [0, 1, 2]),
        (WEEKDAY, "sun-sun", [0]),
        (WEEKDAY, "wed-wed", [3]),
        (WEEKDAY, "tue-sun/2", [2, 4, 6]),
        (WEEKDAY, "wed-sun/2", [0, 3, 5]),
    ],
)
def test_fields(field: Any, text: str, values: Any) -> None:
    assert sorted(parse_field(field, text)) == sorted(values)


@pytest.mark.parametrize("word", WORDS)
def test_words_stand_for_five_fields(word: str) -> None:
    assert parse_pattern(word) == parse_pattern(WORDS[word])
    assert parse_pattern(f" {word.upper()} ") == parse_pattern(WORDS[word])
    assert one(f"{word} tidy").pattern == word


# ── lines ──


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "30 4 * * 1 send_weekly_email",
            {"task": "send_weekly_email", "pattern": "30 4 * * 1"},
        ),
        (
            "30 4 * * 1 send_weekly_email ?fill=2d&max=10 {onboarding:false}",
            {"fill": 172_800.0, "max_attempts": 10, "payload": {"onboarding": False}},
        ),
        ("0 */4 * * * rollup", {"task": "rollup", "identifier": "rollup", "payload": {}}),
        # blanks
        ("  0 4 * * * a", {"pattern": "0 4 * * *"}),
        ("\t0\t4  * *\t* \t a \t ?max=3 \t {x: 1} \t ", {"pattern": "0 4 * * *", "task": "a"}),
        ("0 4 * * * a {x: 1}   ", {"payload": {"x": 1}}),
        ("0 4 * * * a\r\n", {"task": "a"}),
        ("\ufeff0 4 * * * a", {"task": "a"}),
        # task names
        ("@daily _a", {"task": "_a"}),
        ("@daily a/b:c-d_e.f9", {"task": "a/b:c-d_e.f9", "identifier": "a/b:c-d_e.f9"}),
        ("@daily users/send_mail ?id=Mail-1", {"identifier": "Mail-1", "task": "users/send_mail"}),
        ("@daily " + "a" * 128, {"task": "a" * 128}),
        # options
        ("@daily a ?queue=mail", {"queue": "mail"}),
        ("@daily a ?queue=a%20b%2Fc%26d%3D", {"queue": "a b/c&d="}),
        ("@daily a ?queue=a+b%2B", {"queue": "a b+"}),
        ("@daily a ?queue=gr%C3%BCn", {"queue": "grün"}),
        ("@daily a ?jobKey=a=b", {"key": "a=b", "key_mode": "replace"}),
        ("@daily a ?jobKey=k&jobKeyMode=preserve_run_at", {"key_mode": "preserve_run_at"}),
        ("@daily a ?jobKeyMode=unsafe_dedupe&jobKey=k", {"key_mode": "unsafe_dedupe"}),
        ("@daily a ?priority=-5", {"priority": -5}),
        ("@daily a ?priority=%2B5", {"priority": 5}),
        ("@daily a ?fillmax=7", {"fillmax": 7}),
        ("@daily a", {"fillmax": 1_000, "fill": 0.0, "tz": "UTC", "max_attempts": None}),
        # zones
        ("@daily a ?tz=UTC", {"tz": "UTC"}),
        ("@daily a ?tz=Europe/Berlin", {"tz": "Europe/Berlin"}),
        ("@daily a ?tz=Europe%2FBerlin", {"tz": "Europe/Berlin"}),
        ("@daily a ?tz=America/Argentina/Buenos_Aires", {"tz": "America/Argentina/Buenos_Aires"}),
        ("@daily a ?tz=Etc/GMT+5", {"tz": "Etc/GMT+5"}),
        ("@daily a ?tz=Etc/GMT%2B5", {"tz": "Etc/GMT+5"}),
        ("@daily a ?tz=Etc/GMT-5", {"tz": "Etc/GMT-5"}),
        # time phrases
        ("@daily a ?fill=4w3d2h1m", {"fill": 44_761 * 60.0}),
        ("@daily a ?fill=90s", {"fill": 90.0}),
        ("@daily a ?fill=1m1m", {"fill": 120.0}),
        ("@daily a ?fill=0s", {"fill": 0.0}),
        # payloads
        ("@daily a {}", {"payload": {}}),
        ("@daily a {'x': 'y',}", {"payload": {"x": "y"}}),
        ('@daily a {"x": [1, 2,], y_$: null}', {"payload": {"x": [1, 2], "y_$": None}}),
        ("@daily a {x: /* why */ 1} // because", {"payload": {"x": 1}}),
        ("@daily a {x: '# ? & {'}", {"payload": {"x": "# ? & {"}}),
        ("@daily a {x: 'it\\'s', h: 0x10, p: +1, d: .5}", {"payload": {
            "x": "it's", "h": 16, "p": 1, "d": 0.5}}),
        ("@daily a {x: 'a\u2028b'}", {"payload": {"x": "a\u2028b"}}),
        ("@daily a {x: 'a\x85b\x0bc'}", {"payload": {"x": "a\x85b\x0bc"}}),
        ("@daily a {x: '  two  blanks  '}", {"payload": {"x": "  two  blanks  "}}),
        ("@daily a {x: 'ünï ☃ 𝄞'}", {"payload": {"x": "ünï ☃ 𝄞"}}),
        ("@daily a {_cron: {ts: 'x'}, x: 1}", {"payload": {"x": 1}}),
        ("@daily a ?max=2 {x: {y: [{z: true}]}}", {"payload": {"x": {"y": [{"z": True}]}}}),
    ],
)  # fmt: skip
def test_lines(line: str, expected: dict[str, Any]) -> None:
    schedule = one(line)
    assert {name: getattr(schedule, name) for name in expected} == expected


def test_a_whole_crontab() -> None:
    text = (
        "\ufeff# ┌ minute\r\n"
        "\r\n"
        "   # indented\r\n"
        "* * * * * a\r\n"
        "\t\r\n"
        "#* * * * * never\n"
        "@hourly b ?id=b2 {x: '#'}\r\n"
        "  0 0 1 jan * a ?id=a-2"
    )
    assert [schedule.identifier for schedule in parse_crontab(text)] == ["a", "b2", "a-2"]


@pytest.mark.parametrize(
    "text", ["", "\n", "\r\n\r\n", "  \t ", "# only\n  # words", "\ufeff", "#"]
)
def test_an_empty_crontab_has_no_schedules(text: str) -> None:
    assert parse_crontab(text) == []


@pytest.mark.parametrize("pattern", ["0 0 31 2 1", "0 0 29 2 *", "0 0 31 1,2 *", "0 0 28-31 2 *"])
def test_dates_that_come(pattern: str) -> None:
    assert one(f"{pattern} a").timetable.after(0) is not None


# ── refusals ──

# `»` stands before the part that cannot be understood; what is told in the last column.
REFUSED = [
    # numbers
    ("»60 * * * * a", "minute", "minute takes 0-59"),
    ("* »24 * * * a", "hour", "hour takes 0-23"),
    ("* * »0 * * a", "day of month", "day of month takes 1-31"),
    ("* * »32 * * a", "day of month", "day of month takes 1-31"),
    ("* * * »0 * a", "month", "month takes 1-12, jan-dec"),
    ("* * * »13 * a", "month", "month takes 1-12, jan-dec"),
    ("* * * * »8 a", "day of week", "takes 0-6 and 7 (0 and 7 are Sunday), sun-sat"),
    ("»99999999999999999999 * * * * a", "minute", "minute takes 0-59"),
    ("»-1 * * * * a", "minute", "minute takes 0-59"),
    ("»+1 * * * * a", "minute", "minute takes 0-59"),
    ("»1.5 * * * * a", "minute", "minute takes 0-59"),
    ("»٣ * * * * a", "minute", "minute takes 0-59"),
    ("»² * * * * a", "minute", "minute takes 0-59"),
    # lists
    ("1,»,2 * * * * a", "minute", "empty minute"),
    ("1,» * * * * a", "minute", "empty minute"),
    ("»,1 * * * * a", "minute", "lists of these with commas"),
    ("1,2,»61,4 * * * * a", "minute", "minute takes 0-59"),
    ("0 1,2,»x * * * a", "hour", "hour takes 0-23"),
    # ranges
    ("»5-1 * * * * a", "minute", "make it two ranges"),
    ("* »22-2 * * * a", "hour", "make it two ranges"),
    ("* * * * »fri-mon a", "day of week", "make it two ranges"),
    ("* * * * »5-0 a", "day of week", "make it two ranges"),
    ("* * * »nov-feb * a", "month", "make it two ranges"),
    ("5-»60 * * * * a", "minute", "minute takes 0-59"),
    ("»5- * * * * a", "minute", "a-b"),
    ("»1-2-3 * * * * a", "minute", "a-b"),
    # steps
    ("*/»0 * * * * a", "minute", "from 1 to 10,000"),
    ("*/»10001 * * * * a", "minute", "from 1 to 10,000"),
    (f"*/»{'0' * 9}1{'9' * 5_000} * * * * a", "minute", "from 1 to 10,000"),
    ("1-5/»0 * * * * a", "minute", "from 1 to 10,000"),
    ("»*/ * * * * a", "minute", "*/n"),
    ("»*/x * * * * a", "minute", "*/n"),
    ("»*/-2 * * * * a", "minute", "*/n"),
    ("»5/15 * * * * a", "minute", "a-b/n"),
    ("»** * * * * a", "minute", "minute takes"),
    ("* * »*/32 * * a", "day of month", "no day of month is divisible by 32"),
    ("* * * »*/13 * a", "month", "no month is divisible by 13"),
    # names
    ("»jan * * * * a", "minute", "minute takes 0-59"),
    ("* * * »mon * a", "month", "jan-dec"),
    ("* * * * »may a", "day of week", "sun-sat"),
    ("* * * »janu * a", "month", "jan-dec"),
    ("* * * * mon-»xyz a", "day of week", "sun-sat"),
    ("* * * * »ſun a", "day of week", "sun-sat"),
    ("* * * * »1#2 a", "day of week", "sun-sat"),
    ("* * »L * * a", "day of month", "day of month takes 1-31"),
    ("* * »? * * a", "day of month", "day of month takes 1-31"),
    # days that never come
    ("0 0 »31 2 * a", "day of month", "would never run"),
    ("0 0 »30-31 feb * a", "day of month", "would never run"),
    ("0 0 »31 4,6,9,11 * a", "day of month", "would never run"),
    ("0 0 »30 2 0-7 a", "day of month", "would never run"),
    # five fields
    ("»*", "pattern", "five fields (minute, hour, day of month, month, day of week)"),
    ("  »* * *", "pattern", "has 3"),
    ("* * * * »a", "day of week", "sun-sat"),
    ("»a", "pattern", "five fields"),
    ("»@reboot a", "pattern", "@hourly, @daily, @midnight, @weekly, @monthly, @yearly"),
    ("»@ a", "pattern", "@hourly"),
    ("  »@every_5m a", "pattern", "@hourly"),
    # tasks
    ("* * * * *»", "task", "then the task, ?options and {payload}"),
    ("@daily»  ", "task", "then the task, ?options and {payload}"),
    ("0 0 * * * »* a", "task", "letters, digits and _ : . / -"),
    ("@daily »0 a", "task", "letters, digits and _ : . / -"),
    ("@daily »9a", "task", "a letter or _"),
    ("@daily »?max=3", "task", "a letter or _"),
    ("@daily »{x: 1}", "task", "a letter or _"),
    ("@daily »naïve", "task", "a letter or _"),
    ("@daily »a,b", "task", "a letter or _"),
    ("@daily »a?max=3", "task", "a letter or _"),
    (f"@daily »{'a' * 129}", "task", "at most 128"),
    # options
    ("@daily a ?»", "options", "name=value"),
    ("@daily a ?»max", "options", "name=value"),
    ("@daily a ?max=3&»", "options", "name=value"),
    ("@daily a ?»colour=red", "options", "id, tz, fill, fillmax, max, queue, priority, jobKey"),
    ("@daily a ?max=3&»Queue=a", "options", "the options are id, tz"),
    ("@daily a ?max=3&»max=3", "max", "given twice"),
    ("@daily a »?max=3&max_attempts=3", "max", "given twice"),
    ("@daily a ?»max=0", "max", "from 1 to 2147483647"),
    ("@daily a ?»max=many", "max", "a whole number from 1"),
    ("@daily a ?»max=٣", "max", "a whole number from 1"),
    ("@daily a ?»max=", "max", "a whole number from 1"),
    ("@daily a ?»max=2147483648", "max", "from 1 to 2147483647"),
    (f"@daily a ?»max={'9' * 5_000}", "max", "from 1 to 2147483647"),
    ("@daily a ?»priority=1.5", "priority", "from -2147483648 to 2147483647"),
    ("@daily a ?»fillmax=0", "fillmax", "from 1 to 1000000"),
    ("@daily a ?»fillmax=1000001", "fillmax", "from 1 to 1000000"),
    ("@daily a ?»fill=2", "fill", "s, m, h, d or w"),
    ("@daily a ?»fill=2y", "fill", "s, m, h, d or w"),
    ("@daily a ?»fill=", "fill", "s, m, h, d or w"),
    ("@daily a ?»fill=1.5h", "fill", "s, m, h, d or w"),
    ("@daily a ?»fill=-1h", "fill", "s, m, h, d or w"),
    ("@daily a ?»fill=1h+2m", "fill", "s, m, h, d or w"),
    ("@daily a ?»fill=2D", "fill", "s, m, h, d or w"),
    ("@daily a ?»fill=٣d", "fill", "s, m, h, d or w"),
    (f"@daily a ?»fill={'9' * 400}w", "fill", "fill must be"),
    ("@daily a ?»id=", "id", "a letter or _"),
    ("@daily a ?»id=9", "id", "a letter or _"),
    ("@daily a ?»id=a%20b", "id", "letters, digits and _ : . / -"),
    (f"@daily a ?»id={'a' * 129}", "id", "at most 128"),
    ("@daily a ?»queue=", "queue", "must not be empty"),
    ("@daily a ?»queue=%00", "queue", "NUL"),
    (f"@daily a ?»queue={'q' * 129}", "queue", "the limit is 128"),
    ("@daily a ?»jobKey=", "jobKey", "must not be empty"),
    (f"@daily a ?»jobKey={'k' * 513}", "jobKey", "the limit is 512"),
    ("@daily a ?jobKey=k&»jobKeyMode=keep", "jobKeyMode", "replace, preserve_run_at, unsafe"),
    ("@daily a »?jobKeyMode=replace", "jobKeyMode", "without jobKey"),
    ("@daily a ?»tz=", "tz", "names such as UTC or Europe/Berlin"),
    ("@daily a ?»tz=Europe/Berln", "tz", "did you mean Europe/Berlin?"),
    ("@daily a ?»tz=Europe", "tz", "names such as UTC or Europe/Berlin"),
    ("@daily a ?»tz=zzzzz", "tz", "write Area/City; tz takes names such as"),
    ("@daily a ?»tz=../../etc/passwd", "tz", "names such as"),
    ("@daily a ?»tz=/etc/localtime", "tz", "names such as"),
    ("@daily a ?»tz=%00", "tz", "names such as"),
    (f"@daily a ?»tz={'a' * 5_000}", "tz", "names such as"),
    ("@daily a ?max=3 »?queue=a", "payload", "?options without blanks, then a payload in braces"),
    ("@daily a ?max=3 »& queue=a", "payload", "?options without blanks"),
    # payloads
    ("@daily a »[1]", "payload", "a payload in braces"),
    ("@daily a »# remark", "payload", "a payload in braces"),
    ("@daily a »'x'", "payload", "a payload in braces"),
    ("@daily a {x: »}", "payload", "an object such as {onboarding: false}"),
    ("@daily a {x: 1»", "payload", "an object such as {onboarding: false}"),
    ("@daily a {x: 1} »# remark", "payload", "not JSON5"),
    ("@daily a {x: 1} »{y: 2}", "payload", "not JSON5"),
    ("@daily a »{x: NaN}", "payload", "NaN or infinity"),
    ("@daily a »{x: 1e999}", "payload", "NaN or infinity"),
    ("@daily a »{x: '\\u0000'}", "payload", "NUL"),
    ("@daily a »{x: '\\ud800'}", "payload", "not JSON"),
    (f"@daily a »{{x: 1{'0' * 30}}}", "payload", "64 bits"),
    (f"@daily a »{{x: {'9' * 5_000}}}", "payload", "not JSON5"),
    (f"@daily a »{{x: {'[' * 2_000}{']' * 2_000}}}", "payload", "nested too deeply"),
]


@pytest.mark.parametrize(
    ("marked", "field", "told"), REFUSED, ids=[marked[:40] for marked, _, _ in REFUSED]
)
@pytest.mark.parametrize("above", ["", "# remark\r\n\n@hourly other\r\n"], ids=["alone", "below"])
def test_a_refusal_names_line_column_field_and_what_is_allowed(
    above: str, marked: str, field: str, told: str
) -> None:
    line = marked.replace("»", "")
    assert len(line) == len(marked) - 1
    (problem,) = problems(f"{above}{line}\r\n")
    assert (problem.line, problem.column) == (1 + above.count("\n"), marked.index("»") + 1)
    assert problem.field == field
    assert told in problem.message
    assert str(problem).startswith(f"line {problem.line}, column {problem.column}, {field}: ")


def test_every_broken_line_is_told() -> None:
    text = "60 * * * * a\n@daily fine\n* * * * * b ?max=x\n# remark\n@never c\n0 0 30 2 * d {"
    found = problems(text)
    assert [(p.line, p.column, p.field) for p in found] == [
        (1, 1, "minute"),
        (3, 14, "max"),
        (5, 1, "pattern"),
        (6, 5, "day of month"),
    ]
    with pytest.raises(ValidationError, match=r"my/crontab: line 1, column 1, .*and 3 more") as e:
        parse_crontab(text, source="my/crontab")
    assert isinstance(e.value, CrontabError)
    assert e.value.source == "my/crontab"


@pytest.mark.parametrize(
    ("first", "second", "column"),
    [
        ("@daily a", "@hourly a", 9),
        ("0 0 * * sun s", "0 0 * * sun s", 13),
        ("@daily a", "@hourly b ?id=a", 12),
        ("@daily a ?id=x", "@hourly b ?max=3&id=x {id: 'id=x'}", 18),
        ("@daily b ?id=a", "@hourly a {x: 'id=1'}", 9),
        ("@daily a ?id=x", "@hourly grid ?jobKey=id=1&id=x", 27),
    ],
)
def test_an_identifier_is_used_once(first: str, second: str, column: int) -> None:
    (problem,) = problems(f"{first}\n\n{second}")
    assert (problem.line, problem.column, problem.field) == (3, column, "id")
    assert "each needs an id of its own" in problem.message


def test_identifiers_are_case_sensitive() -> None:
    assert len(parse_crontab("@daily a\n@daily A\n@daily a ?id=B\n@daily a ?id=b")) == 4


# ── items ──


def item(**changed: Any) -> Schedule:
    (schedule,) = parse_cron_items([CronItem(**{"task": "a", "pattern": "@daily", **changed})])
    return schedule


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (None, {}),
        ({}, {}),
        ({"fill": "2d", "max": 3}, {"fill": 172_800.0, "max_attempts": 3}),
        ({"fill": timedelta(hours=2)}, {"fill": 7_200.0}),
        ({"fill": 90}, {"fill": 90.0}),
        ({"backfill_period": 1.5, "max_attempts": 3}, {"fill": 1.5, "max_attempts": 3}),
        ({"max": "3", "priority": "-2"}, {"max_attempts": 3, "priority": -2}),
        ({"queue_name": "q", "priority": -2}, {"queue": "q", "priority": -2}),
        ({"jobKey": "k", "jobKeyMode": "unsafe_dedupe"}, {"key": "k", "key_mode": "unsafe_dedupe"}),
        ({"key": "k", "key_mode": "preserve_run_at"}, {"key": "k", "key_mode": "preserve_run_at"}),
        ({"job_key": "k", "job_key_mode": "replace"}, {"key": "k", "key_mode": "replace"}),
        ({"id": "x", "tz": "Europe/Berlin"}, {"identifier": "x", "tz": "Europe/Berlin"}),
        ({"identifier": "x", "tz": "Etc/GMT+5"}, {"identifier": "x", "tz": "Etc/GMT+5"}),
        ({"queue": None, "fill": None, "fillmax": 5}, {"queue": None, "fillmax": 5}),
    ],
)
def test_items(options: Any, expected: dict[str, Any]) -> None:
    schedule = item(options=options)
    plain = item()
    assert {name: getattr(schedule, name) for name in expected} == expected
    others = set(Schedule.__struct_fields__) - set(expected)
    assert all(getattr(schedule, name) == getattr(plain, name) for name in others)


def test_items_and_lines_say_the_same() -> None:
    line = "0  4 * * mon  a/b ?id=x&fill=2d&max=10&queue=q&tz=Asia/Tokyo {onboarding: false}"
    options = {"fill": "2d", "max": 10, "queue": "q", "tz": "Asia/Tokyo"}
    assert one(line) == item(
        task="a/b",
        pattern=" 0 4 * *\tmon ",
        options=options,
        payload={"onboarding": False},
        identifier="x",
    )


@pytest.mark.parametrize(
    ("changed", "field", "told"),
    [
        ({"task": 3}, "task", "text, not int"),
        ({"task": "9"}, "task", "a letter or _"),
        ({"task": "a b"}, "task", "a letter or _"),
        ({"task": "a\n"}, "task", "a letter or _"),
        ({"pattern": None}, "pattern", "text, not NoneType"),
        ({"pattern": ""}, "pattern", "five fields"),
        ({"pattern": "* * * *"}, "pattern", "five fields"),
        ({"pattern": "* * * * * a"}, "pattern", "has 6"),
        ({"pattern": "60 * * * *"}, "minute", "0-59"),
        ({"pattern": "0 0 31 2 *"}, "day of month", "never run"),
        ({"pattern": "@reboot"}, "pattern", "@hourly"),
        ({"options": "fill=2d"}, "options", "a mapping such as {'fill': '2d'}, not str"),
        ({"options": ["fill"]}, "options", "a mapping"),
        ({"options": {"colour": 1}}, "options", "the options are id, tz"),
        ({"options": {"colour": None}}, "options", "the options are id, tz"),
        ({"options": {3: 4}}, "options", "the options are id, tz"),
        ({"options": {"max": 3, "max_attempts": 3}}, "max", "given twice"),
        ({"options": {"max": True}}, "max", "a whole number from 1"),
        ({"options": {"max": 2.0}}, "max", "a whole number from 1"),
        ({"options": {"max": 0}}, "max", "a whole number from 1"),
        ({"options": {"priority": [1]}}, "priority", "a whole number"),
        ({"options": {"fillmax": 0}}, "fillmax", "from 1 to 1000000"),
        ({"options": {"fill": "2 days"}}, "fill", "s, m, h, d or w"),
        ({"options": {"fill": -1}}, "fill", "at least 0"),
        ({"options": {"fill": float("nan")}}, "fill", "finite"),
        ({"options": {"fill": timedelta(seconds=-1)}}, "fill", "at least 0"),
        ({"options": {"fill": True}}, "fill", "seconds or a timedelta, not bool"),
        ({"options": {"fill": [2]}}, "fill", "seconds or a timedelta, not list"),
        ({"options": {"queue": 3}}, "queue", "a string, not int"),
        ({"options": {"key": 3}}, "jobKey", "a string, not int"),
        ({"options": {"key": "k", "key_mode": []}}, "jobKeyMode", "replace, preserve_run_at"),
        ({"options": {"key_mode": "replace"}}, "jobKeyMode", "without jobKey"),
        ({"options": {"tz": 3}}, "tz", "text, not int"),
        ({"options": {"tz": "Mars/Base"}}, "tz", "no time zone 'Mars/Base'"),
        ({"options": {"id": 3}}, "id", "text, not int"),
        ({"identifier": ""}, "id", "a letter or _"),
        ({"identifier": 3}, "id", "text, not int"),
        ({"identifier": "x", "options": {"id": "y"}}, "id", "given twice"),
        ({"payload": [1]}, "payload", "an object, not list"),
        ({"payload": "x"}, "payload", "an object, not str"),
        ({"payload": {"x": object()}}, "payload", "not JSON"),
        ({"payload": {"x": float("inf")}}, "payload", "NaN or infinity"),
    ],
)
def test_items_refused(changed: dict[str, Any], field: str, told: str) -> None:
    fine = CronItem(task="fine", pattern="@daily")
    with pytest.raises(CrontabError) as caught:
        parse_cron_items([fine, CronItem(**{"task": "a", "pattern": "@daily", **changed})])
    (problem,) = caught.value.problems
    assert (problem.line, problem.column, problem.field) == (0, 0, field)
    assert told in problem.message
    assert "item 2 of cron_items" in str(caught.value)


def test_items_are_items_with_identifiers_of_their_own() -> None:
    wrong: Any = {"task": "a", "pattern": "@daily"}
    with pytest.raises(CrontabError, match=r"item 1 .*CronItem\(…\), not dict"):
        parse_cron_items([wrong])
    twice = [CronItem(task="a", pattern="@daily"), CronItem(task="a", pattern="@hourly")]
    with pytest.raises(CrontabError, match="two schedules 'a'"):
        parse_cron_items(twice)
    assert parse_cron_items([]) == []


def test_an_item_does_not_keep_the_payload_it_was_given() -> None:
    payload = {"x": [1]}
    schedule = item(payload=payload)
    payload["x"].append(2)
    assert schedule.payload == {"x": [1]}


# ── any text ──


def checked(text: str) -> list[Schedule]:
    """What is understood; what is refused must be told in a place that is in the text."""
    try:
        schedules = parse_crontab(text)
    except CrontabError as error:
        lines = re.split(r"\r\n|\n|\r", text.removeprefix("\ufeff"))
        assert error.problems
        for problem in error.problems:
            assert 1 <= problem.line <= len(lines)
            assert 1 <= problem.column <= len(lines[problem.line - 1]) + 1
            assert problem.field
            assert problem.message
        return []
    assert all(isinstance(schedule, Schedule) for schedule in schedules)
    return schedules


LINES = (
    "30 4 * * 1 send_weekly_email ?fill=2d&max=10 {onboarding:false}",
    "0,15,30-40/2 */4 1-31 jan-dec mon-sun a/b:c ?id=x&tz=Etc/GMT+5&jobKey=k&jobKeyMode=replace",
    "@weekly rollup ?queue=a%20b&priority=-3&fillmax=9 {'x': [1, 0x1f, .5e3,], y: \"\\u0041\"}",
    "# remark",
    "0 0 29 2 * leap",
)
ODD = " \t\r\n#?&=%+{}[]'\"\\/*,-@:.09aZ_٣\u2028\u00a0\x00\x1c\ud800é"


@st.composite
def mutated(draw: st.DrawFn) -> str:
    text = "\n".join(draw(st.lists(st.sampled_from(LINES), min_size=1, max_size=3)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(text)))
        gone = draw(st.integers(0, 3))
        new = draw(st.text(st.sampled_from(ODD), max_size=3))
        text = text[:at] + new + text[at + gone :]
    return text


@settings(max_examples=60, deadline=None)
@given(st.text() | st.text(st.sampled_from(ODD), max_size=60))
@example("*/" + "9" * 5_000)
@example("@")
@example("\x1c\x1d#")
def test_any_text_is_understood_or_refused_with_its_place(text: str) -> None:
    checked(text)


@settings(max_examples=120, deadline=None)
@given(mutated())
def test_broken_lines_are_understood_or_refused_with_their_place(text: str) -> None:
    for schedule in checked(text):
        assert schedule.timetable.after(0) is not None
        encoded = msgspec.json.encode(schedule)
        assert msgspec.json.decode(encoded, type=Schedule) == schedule


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["id", "tz", "fill", "fillmax", "max", "queue", "jobKey"]), st.text())
def test_any_value_of_an_option_is_understood_or_refused(name: str, value: str) -> None:
    try:
        schedule = item(options={name: value})
    except CrontabError as error:
        assert error.problems[0].field == name
    else:
        assert msgspec.json.decode(msgspec.json.encode(schedule), type=Schedule) == schedule


@pytest.mark.parametrize(
    "line",
    [
        "@daily a",
        "0 4 * * 1 a/b ?id=x&tz=Asia/Tokyo&fill=1d&fillmax=3&max=2&queue=q&priority=-1"
        "&jobKey=k&jobKeyMode=unsafe_dedupe {x: [1, 2.5, null, true, 'ü'], y: 9007199254740993}",
    ],
)
def test_a_schedule_survives_json(line: str) -> None:
    schedule = one(line)
    again = msgspec.json.decode(msgspec.json.encode(schedule), type=Schedule)
    assert again == schedule
    assert again.timetable == schedule.timetable
