"""One schedule as a value, and the way people write one in Python."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from windlass.errors import CrontabError, CrontabProblem, ValidationError
from windlass.model import names
from windlass.model import payload as payloads
from windlass.model.cron.fields import RefusedError
from windlass.model.cron.pattern import parse_pattern, parse_zone, timetable
from windlass.model.cron.timetable import Timetable
from windlass.model.names import KeyMode

CRON = "_cron"
"""The key of a payload under which a job finds its instant."""
MOST_FILLED = 1_000
"""The most instants made up for at once where a schedule says nothing."""
_MOST_EVER = 1_000_000

_IDENTIFIER = re.compile(r"[A-Za-z_][\w:./-]*", re.ASCII)
_PHRASE = re.compile(r"(?:\d+[smhdw])+", re.ASCII)
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


class Schedule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of a crontab, understood. Make it with `parse_crontab` or `parse_cron_items`.

    `fill` is in seconds. None is unset, and the task's own option counts.
    """

    identifier: str
    task: str
    pattern: str
    tz: str = "UTC"
    fill: float = 0.0
    fillmax: int = MOST_FILLED
    max_attempts: int | None = None
    queue: str | None = None
    priority: int | None = None
    key: str | None = None
    key_mode: KeyMode = "replace"
    flags: tuple[str, ...] | None = None
    strict: bool | None = None
    payload: dict[str, Any] = {}

    @property
    def timetable(self) -> Timetable:
        return timetable(self.pattern, self.tz)


class CronItem(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as a program writes it; `parse_cron_items` makes `Schedule`s of them.

    `options` has the names of the crontab's own options, or those of `@app.cron`.
    """

    task: str
    pattern: str
    options: Mapping[str, Any] | None = None
    payload: Mapping[str, Any] | None = None
    identifier: str | None = None


def parse_cron_items(items: Iterable[CronItem]) -> list[Schedule]:
    """Schedules from items; CrontabError says what cannot be understood, and in which item."""
    schedules: list[Schedule] = []
    for number, item in enumerate(items, 1):
        if not isinstance(item, CronItem):
            problem = CrontabProblem(0, 0, "item", f"give CronItem(…), not {type(item).__name__}")
            raise CrontabError([problem], f"item {number} of cron_items")
        source = f"item {number} of cron_items ({item.task})"
        try:
            schedules.append(
                make_schedule(
                    item.task, item.pattern, item.options or {}, item.payload, item.identifier
                )
            )
        except RefusedError as error:
            raise CrontabError([problem_of(error)], source) from None
    check_identifiers(schedules, "cron_items")
    return schedules


def make_schedule(
    task: str,
    pattern: str,
    options: Mapping[str, Any],
    payload: Mapping[str, Any] | None,
    identifier: str | None = None,
) -> Schedule:
    """A schedule of these parts; RefusedError names the one that cannot be used."""
    chosen: dict[str, Any] = {}
    if not isinstance(options, Mapping):
        raise RefusedError(
            f"they must be a mapping such as {{'fill': '2d'}}, not {type(options).__name__}",
            "options",
        )
    for name, value in options.items():
        word = option_word(name)
        if value is not None:
            field, checked = read_option(word, value)
            if field in chosen:
                raise RefusedError(f"{word} is given twice", word)
            chosen[field] = checked
    if identifier is not None:
        if "identifier" in chosen:
            raise RefusedError("id is given twice", "id")
        chosen["identifier"] = _identifier(identifier)
    if "key_mode" in chosen and "key" not in chosen:
        raise RefusedError("jobKeyMode means nothing without jobKey", "jobKeyMode")
    parse_pattern(_text(pattern, "pattern"), parse_zone(chosen.get("tz", "UTC")))
    name = read_task(task)
    return Schedule(
        task=name,
        pattern=" ".join(pattern.split()),
        payload=read_payload(payload),
        **{"identifier": name, **chosen},
    )


def problem_of(error: RefusedError, line: int = 0) -> CrontabProblem:
    column = error.offset + 1 if line else 0
    return CrontabProblem(line, column, error.field, error.message)


def check_identifiers(schedules: Iterable[Schedule], source: str) -> None:
    """Refuse two schedules of one identifier."""
    seen: set[str] = set()
    for schedule in schedules:
        if schedule.identifier in seen:
            problem = CrontabProblem(0, 0, "id", twice(schedule.identifier))
            raise CrontabError([problem], source)
        seen.add(schedule.identifier)


def twice(identifier: str) -> str:
    return (
        f"there are two schedules {identifier!r}; each needs an id of its own,"
        " and without one its task's name counts"
    )


# ── parts ──


def read_task(value: Any) -> str:
    name = _named(value, "task")
    if name.startswith(names.RESERVED):
        raise RefusedError(names.refusal_of_reserved(name), "task")
    return name


def read_payload(value: Mapping[str, Any] | None) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise RefusedError(f"it must be an object, not {type(value).__name__}", "payload")
    try:
        decoded = payloads.decode(payloads.encode(dict(value), limit=names.MAX_INT32))
    except ValidationError as error:
        raise RefusedError(str(error), "payload") from None
    assert isinstance(decoded, dict)
    decoded.pop(CRON, None)  # ours to say
    return decoded


def option_word(name: str) -> str:
    """The crontab's word for an option; RefusedError if there is none of that name."""
    word = _ALIASES.get(name, name)
    if word not in _OPTIONS:
        near = difflib.get_close_matches(str(name).lower(), [*WORDS, *_ALIASES], n=1)
        hint = f"did you mean {_ALIASES.get(near[0], near[0])}? " if near else ""
        raise RefusedError(
            f"there is no option {name!r}; {hint}the options are {', '.join(WORDS)}", "options"
        )
    return word


def read_option(name: str, value: Any) -> tuple[str, Any]:
    """The field of Schedule an option is for, and its checked value.

    Values come as text from a crontab and as they are from a program.
    """
    word = option_word(name)
    field, read = _OPTIONS[word]
    try:
        return field, read(value)
    except ValidationError as error:
        raise RefusedError(str(error), word) from None


def _text(value: Any, field: str) -> str:
    if not isinstance(value, str):
        raise RefusedError(f"it must be text, not {type(value).__name__}", field)
    return value


def _identifier(value: Any) -> str:
    return _named(value, "id")


def _named(value: Any, field: str) -> str:
    text = _text(value, field)
    if not _IDENTIFIER.fullmatch(text) or len(text) > names.MAX_TASK:
        raise RefusedError(
            f"{text!r} is no {field}; it takes a letter or _, then letters, digits and _ : . / -,"
            f" at most {names.MAX_TASK}",
            field,
        )
    return text


def _fill(value: Any) -> float:
    if not isinstance(value, str):
        return names.check_seconds(value, "fill") or 0.0
    if not _PHRASE.fullmatch(value):
        raise RefusedError(
            f"{value!r} is not a time; it takes numbers with s, m, h, d or w, such as 2d or 4w3d2h",
            "fill",
        )
    parts = re.findall(r"(\d+)([smhdw])", value)
    seconds = math.fsum(min(float(count), 1e15) * _UNITS[unit] for count, unit in parts)
    return names.check_seconds(seconds, "fill") or 0.0


def _whole(value: Any, field: str, least: int, most: int) -> int:
    if isinstance(value, str) and re.fullmatch(r"[+-]?[0-9]{1,12}", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise RefusedError(
            f"{value!r} is not possible; it takes a whole number from {least} to {most}", field
        )
    return value


def _zone(value: Any) -> str:
    if isinstance(value, ZoneInfo) and value.key:
        return value.key
    # A query string has a space where a zone such as Etc/GMT+5 has its plus.
    text = _text(value, "tz").replace(" ", "+")
    parse_zone(text)
    return text


def _key_mode(value: Any) -> KeyMode:
    return names.check_key_mode(value)


_OPTIONS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "id": ("identifier", _identifier),
    "tz": ("tz", _zone),
    "fill": ("fill", _fill),
    "fillmax": ("fillmax", lambda value: _whole(value, "fillmax", 1, _MOST_EVER)),
    "max": ("max_attempts", lambda value: _whole(value, "max", 1, names.MAX_INT32)),
    "queue": ("queue", names.check_queue),
    "priority": (
        "priority",
        lambda value: _whole(value, "priority", -names.MAX_INT32 - 1, names.MAX_INT32),
    ),
    "jobKey": ("key", names.check_key),
    "jobKeyMode": ("key_mode", _key_mode),
}
WORDS = tuple(_OPTIONS)
_ALIASES = {
    "identifier": "id",
    "max_attempts": "max",
    "key": "jobKey",
    "key_mode": "jobKeyMode",
    "job_key": "jobKey",
    "job_key_mode": "jobKeyMode",
    "queue_name": "queue",
    "backfill_period": "fill",
}
