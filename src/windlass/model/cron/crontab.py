"""A crontab as text: `minute hour day month weekday task ?options {payload}`, a line each."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote_plus

import msgspec

from windlass.errors import CrontabError, CrontabProblem
from windlass.model.cron.fields import FIELDS, RefusedError
from windlass.model.cron.pattern import WORDS, parse_pattern
from windlass.model.cron.schedule import (
    Schedule,
    make_schedule,
    problem_of,
    read_option,
    read_payload,
    read_task,
    twice,
)

_WORD = re.compile(r"\S+")
_ID = re.compile(r"(?:^\?|&)(?=id=|identifier=)")
_FIELD = re.compile(r"[\d*,/-]+$", re.ASCII)
_COLUMN = re.compile(r" at column (\d+)")


def parse_crontab(text: str, *, source: str = "crontab") -> list[Schedule]:
    """The schedules of a crontab. CrontabError has every line that cannot be understood, each
    with its line, column, field and what is allowed there; `source` names the text in it."""
    return [schedule for _, schedule in parse_numbered(text, source=source)]


def parse_numbered(text: str, *, source: str = "crontab") -> list[tuple[int, Schedule]]:
    """As `parse_crontab`, each schedule with the number of its line, from 1."""
    schedules: list[tuple[int, Schedule]] = []
    problems: list[CrontabProblem] = []
    seen: set[str] = set()
    for number, line in numbered_lines(text):
        try:
            schedule = parse_line(line)
            if schedule.identifier in seen:
                raise RefusedError(twice(schedule.identifier), "id", _identified_at(line))
        except RefusedError as error:
            problems.append(problem_of(error, number))
        else:
            seen.add(schedule.identifier)
            schedules.append((number, schedule))
    if problems:
        raise CrontabError(problems, source)
    return schedules


def numbered_lines(text: str) -> list[tuple[int, str]]:
    """The lines that say something. Nothing else ends one: payloads may hold other separators."""
    lines = re.split(r"\r\n|\n|\r", text.removeprefix("\ufeff"))
    return [
        (number, line)
        for number, line in enumerate(lines, 1)
        if line.strip() and not line.lstrip().startswith("#")
    ]


def parse_line(line: str) -> Schedule:
    """RefusedError says what cannot be understood, and where in the line it begins."""
    words = [(found.group(), found.start()) for found in _WORD.finditer(line)]
    count = 1 if words[0][0].startswith("@") else len(FIELDS)
    pattern_words, rest = words[:count], words[count:]
    begin = pattern_words[0][1]
    end = pattern_words[-1][1] + len(pattern_words[-1][0])
    try:
        parse_pattern(line[begin:end])
    except RefusedError as error:
        raise _hinted(error, _hint_for_pattern(words)).moved(begin) from None
    if not rest:
        allowed = f"five fields or {', '.join(WORDS)}, then the task, ?options and {{payload}}"
        raise RefusedError(f"there is no task on this line; it takes {allowed}", "task", end)
    task, task_at = rest[0]
    try:
        read_task(task)
    except RefusedError as error:
        hint = "a pattern has five fields, none of them for seconds; " if _FIELD.match(task) else ""
        raise _hinted(error, hint).moved(task_at) from None
    options, payload_at = _parse_options(line, rest[1:])
    payload = None if payload_at is None else _parse_payload(line[payload_at:].rstrip(), payload_at)
    try:
        return make_schedule(task, line[begin:end], options, payload)
    except RefusedError as error:
        raise error.moved(line.find("?", task_at)) from None


def _hint_for_pattern(words: list[tuple[str, int]]) -> str:
    if len(words) == len(FIELDS):
        return "is a field missing? A line has five, and then the task; "
    if "=" in words[0][0]:
        return "there are no variables; a zone is written ?tz=Europe/Berlin, behind its task; "
    return ""


def _hinted(error: RefusedError, hint: str) -> RefusedError:
    return RefusedError(hint + error.message, error.field, error.offset)


def _identified_at(line: str) -> int:
    """Where a line that was understood says its identifier: its option, or else its task."""
    words = list(_WORD.finditer(line))
    task, *rest = words[1 if words[0].group().startswith("@") else len(FIELDS) :]
    if rest and (option := _ID.search(rest[0].group())):
        return rest[0].start() + option.start() + 1
    return task.start()


def _parse_options(line: str, rest: list[tuple[str, int]]) -> tuple[dict[str, Any], int | None]:
    """The options as text, and where the payload begins."""
    options: dict[str, Any] = {}
    if rest and rest[0][0].startswith("?"):
        text, at = rest.pop(0)
        at += 1
        for part in text[1:].split("&"):
            name, equals, value = part.partition("=")
            try:
                if not equals:
                    raise RefusedError(f"{part!r} is not an option; write name=value", "options")
                if name in options:
                    raise RefusedError(f"{name} is given twice", name)
                options[name] = unquote_plus(value)
                read_option(name, options[name])
            except RefusedError as error:
                raise error.moved(at) from None
            at += len(part) + 1
    if not rest:
        return options, None
    word, at = rest[0]
    if not word.startswith("{"):
        hint = "comments need a line of their own; " if word.startswith("#") else ""
        raise RefusedError(
            f"{word!r} is not expected here; {hint}after the task come ?options without blanks,"
            " then a payload in braces",
            "payload",
            at,
        )
    return options, at


def _parse_payload(text: str, at: int) -> dict[str, Any]:
    try:
        value = _decode(text)
    except RecursionError:
        raise RefusedError("it is nested too deeply", "payload", at) from None
    except ValueError as error:
        hint = "options go before the payload; " if re.search(r"\}\s*\?", text) else ""
        column = _COLUMN.search(str(error))
        where = int(column[1]) - 1 if column else 0
        raise RefusedError(
            f"it is not JSON5 ({_reason(error)}); {hint}it takes an object such as"
            " {onboarding: false}",
            "payload",
            at + where,
        ) from None
    try:
        return read_payload(value)
    except RefusedError as error:
        raise error.moved(at) from None


def _decode(text: str) -> Any:
    """JSON5; plain JSON is read by a parser that is a thousand times as fast."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        import json5

        return json5.loads(text)


def _reason(error: Exception) -> str:
    """What is wrong, without the place: that is said in columns of the whole line."""
    return " ".join(_COLUMN.sub("", str(error).replace("<string>:1 ", "")).split())
