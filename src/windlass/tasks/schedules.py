"""Which schedules an app's workers have, and what their tasks say about them."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from windlass.errors import (
    ConfigError,
    CrontabError,
    CrontabProblem,
    ValidationError,
)
from windlass.model import payload as payloads
from windlass.model.cron import CronItem, Schedule, parse_cron_items, parse_crontab
from windlass.model.cron.fields import RefusedError
from windlass.model.cron.schedule import check_identifiers, make_schedule, problem_of
from windlass.store.schedules import jobs_at
from windlass.tasks.registry import Registry

CRONTAB = "crontab"
"""The name of the file beside the tasks folder."""

_logger = logging.getLogger("windlass")


class Schedules:
    """The schedules declared on tasks, and those a worker is given when it starts."""

    def __init__(
        self, registry: Registry, task_directory: str | os.PathLike[str] | None = None
    ) -> None:
        self._registry = registry
        self._beside = None if task_directory is None else crontab_beside(task_directory)
        self._declared: list[Schedule] = []

    def make(
        self,
        task: str,
        pattern: str,
        options: Mapping[str, Any],
        payload: Mapping[str, Any] | None,
    ) -> Schedule:
        """A schedule to be declared on a task; CrontabError if it cannot be."""
        source = f"@app.cron on {task!r}"
        try:
            schedule = make_schedule(task, pattern, options, payload)
        except RefusedError as error:
            raise CrontabError([problem_of(error)], source) from None
        check_identifiers([*self._declared, schedule], source)
        return schedule

    def add(self, schedule: Schedule) -> None:
        self._declared.append(schedule)

    def gather(
        self,
        crontab: str | None,
        crontab_file: str | os.PathLike[str] | None,
        cron_items: Sequence[Schedule | CronItem] | None,
        *,
        default_file: str | None = None,
        max_payload: int = payloads.MAX_PAYLOAD,
    ) -> list[Schedule]:
        """All schedules of a worker, checked against the tasks known here.

        One of the first three may be given; without them the crontab is `default_file`, or else
        the one beside the tasks folder. A task's own options count where the schedule says
        nothing. Tasks that are not known here may be known to other workers.
        """
        if sum(value is not None for value in (crontab, crontab_file, cron_items)) > 1:
            raise ConfigError("give one of crontab, crontab_file and cron_items")
        if crontab is not None and not isinstance(crontab, str):
            raise ConfigError("crontab= takes the text of a crontab; its file is crontab_file=")
        if isinstance(cron_items, Schedule | CronItem):
            raise ConfigError("cron_items= takes a list of CronItem")
        if crontab is not None:
            given = parse_crontab(crontab)
        elif cron_items is not None:
            given = _parsed(cron_items)
        else:
            given = self._read(crontab_file or default_file)
        schedules = [self._settled(schedule, max_payload) for schedule in [*self._declared, *given]]
        check_identifiers(schedules, "schedules")
        return schedules

    def _read(self, file: str | os.PathLike[str] | None) -> list[Schedule]:
        if file is not None:
            if not Path(file).exists():
                _logger.warning("there is no crontab %s, so no schedules come from it", file)
                return []
            return read_crontab(file)
        if self._beside is not None and self._beside.exists():
            return read_crontab(self._beside)
        return []

    def _settled(self, schedule: Schedule, max_payload: int) -> Schedule:
        task = self._registry.find(schedule.task)
        if task is None:
            _logger.warning(
                "schedule %s: no task is called %r here; its jobs wait for a worker that has it",
                schedule.identifier,
                schedule.task,
            )
        try:
            # The `_cron` that each job gets counts too, for its size and for the types.
            text = jobs_at(schedule, [0], backfilled=False)[0].payload
            payloads.check_size(text.encode(), max_payload)
            if task is not None:
                task.style.check(text)
        except ValidationError as error:
            problem = CrontabProblem(0, 0, "payload", str(error))
            raise CrontabError([problem], f"schedule {schedule.identifier!r}") from None
        if task is None:
            return schedule
        options = task.options
        return msgspec.structs.replace(
            schedule,
            queue=options.queue if schedule.queue is None else schedule.queue,
            priority=options.priority if schedule.priority is None else schedule.priority,
            flags=options.flags if schedule.flags is None else schedule.flags,
            strict=options.strict if schedule.strict is None else schedule.strict,
            max_attempts=(
                options.max_attempts if schedule.max_attempts is None else schedule.max_attempts
            ),
        )


def crontab_beside(task_directory: str | os.PathLike[str]) -> Path:
    return Path(task_directory).absolute().parent / CRONTAB


def read_crontab(file: str | os.PathLike[str]) -> list[Schedule]:
    """The schedules of a file; ConfigError if it cannot be read."""
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the crontab {file} cannot be read: {error}") from None
    return parse_crontab(text, source=str(file))


def _parsed(items: Sequence[Schedule | CronItem]) -> list[Schedule]:
    parsed = iter(parse_cron_items(item for item in items if not isinstance(item, Schedule)))
    return [item if isinstance(item, Schedule) else next(parsed) for item in items]
