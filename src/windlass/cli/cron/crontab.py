"""`windlass cron check`: a crontab in words, with its next runs."""

from __future__ import annotations

import sys
from datetime import datetime, tzinfo
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from windlass.cli.base import USAGE, Command, CommandFailed
from windlass.cli.locate import find_app
from windlass.cli.output import compact, print_json, say
from windlass.cli.place import json_option
from windlass.clock import SYSTEM, to_datetime
from windlass.errors import CrontabError
from windlass.model.cron.crontab import parse_numbered
from windlass.model.cron.schedule import MOST_FILLED
from windlass.model.cron.words import describe

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from windlass.model.cron import Schedule

_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_UNITS = (("w", 604_800), ("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


@click.command(
    cls=Command,
    examples=(
        "windlass cron check",
        "windlass cron check deploy/crontab --count 20",
        "echo '30 4 * * 1 report ?tz=Europe/Berlin' | windlass cron check -",
        "windlass cron check --json | jq '.[].next[0]'",
        "windlass cron check shop:app               # the @app.cron of shop.py",
    ),
)
@click.argument("file", metavar="[FILE|MODULE:APP]", default="crontab")
@click.option(
    "--count",
    type=click.IntRange(1, 1_000),
    default=5,
    show_default=True,
    metavar="N",
    help="How many runs of each schedule to show.",
)
@json_option
@click.pass_context
def check(ctx: click.Context, /, file: str, count: int, as_json: bool) -> None:
    """Show each schedule of a crontab in words, and its next runs.

    FILE is `crontab` unless given; - is standard input, and MODULE:APP are the schedules that an
    app's tasks have by @app.cron. No database is opened. If there are
    mistakes, each is named with its line and column, and nothing is shown.
    """
    source = "standard input" if file == "-" else file
    found: Sequence[tuple[int | None, Schedule]]
    try:
        if ":" in file and not Path(file).exists():
            found = [(None, schedule) for schedule in find_app(file).schedules]
        else:
            found = parse_numbered(_read(file, source), source=source)
    except CrontabError as error:
        for problem in error.problems:
            say(f"{source}: {problem}")
        ctx.exit(USAGE)
    now = SYSTEM.now()
    if as_json:
        print_json([_data(line, schedule, _next(schedule, now, count)) for line, schedule in found])
    elif not found:
        say("no schedules")
    for number, (line, schedule) in enumerate([] if as_json else found):
        click.echo("\n" * (number > 0) + _block(line, schedule, _next(schedule, now, count)))


def _read(file: str, source: str) -> str:
    try:
        content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return content.decode()
    except FileNotFoundError:
        message = f"there is no crontab {file}; name one, or - for standard input"
    except OSError as error:
        message = f"{source} cannot be read: {error.strerror}"
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        message = f"{source}: line {line} is not UTF-8; save it as that"
    raise CommandFailed(message, USAGE)


def _next(schedule: Schedule, now: int, count: int) -> list[datetime]:
    def instants() -> Iterator[int]:
        instant = schedule.timetable.after(now)
        while instant is not None:
            yield instant
            instant = schedule.timetable.after(instant)

    return [to_datetime(instant) for instant in islice(instants(), count)]


def _data(line: int | None, schedule: Schedule, runs: list[datetime]) -> dict[str, Any]:
    options = msgspec.structs.asdict(schedule)
    return {
        "line": line,
        "id": options.pop("identifier"),
        "task": options.pop("task"),
        "pattern": options.pop("pattern"),
        "tz": options.pop("tz"),
        "words": describe(schedule),
        "next": runs,
        **options,
    }


# ── for people ──


def _block(line: int | None, schedule: Schedule, runs: list[datetime]) -> str:
    task = "" if schedule.task == schedule.identifier else f" (task {schedule.task})"
    where = "" if line is None else f"line {line}: "
    lines = [f"{where}{schedule.identifier}{task}", f"  {describe(schedule)}"]
    if options := _options(schedule):
        lines.append(f"  {options}")
    if schedule.payload:
        lines.append(f"  payload {compact(schedule.payload)}")
    lines.append("  next:" if runs else "  never again")
    lines += [f"    {_run(run, schedule.tz, schedule.timetable.zone)}" for run in runs]
    return "\n".join(lines)


def _options(schedule: Schedule) -> str:
    """What the line sets, in the order of its own options."""
    said = {
        "fill": _duration(schedule.fill) if schedule.fill else None,
        "fillmax": None if schedule.fillmax == MOST_FILLED else schedule.fillmax,
        "max attempts": schedule.max_attempts,
        "queue": schedule.queue,
        "priority": schedule.priority,
        "key": schedule.key,
        "key mode": None if schedule.key_mode == "replace" else schedule.key_mode,
    }
    return ", ".join(f"{name} {value}" for name, value in said.items() if value is not None)


def _duration(seconds: float) -> str:
    """As a crontab writes it: 1w2d."""
    left = int(seconds)
    words = ""
    for unit, length in _UNITS:
        many, left = divmod(left, length)
        words += f"{many}{unit}" if many else ""
    return words


def _run(run: datetime, tz: str, zone: tzinfo) -> str:
    local = run.astimezone(zone)
    shown = local.isoformat(sep=" ", timespec="minutes")
    text = f"{_WEEKDAYS[local.weekday()]} {shown[:16]} {shown[16:]}"
    return text if tz == "UTC" else f"{text}  ({run:%Y-%m-%d %H:%M} UTC)"
