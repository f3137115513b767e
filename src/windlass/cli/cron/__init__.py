"""`windlass cron`: crontab files before they run, and schedules that a database knows.

crontab   what a file says, and when that would run; it opens no database
known     the schedules of a database: list, pause, resume, trigger, remove
"""

from __future__ import annotations

import click

from windlass.cli.base import ExitCodes
from windlass.cli.cron.crontab import check
from windlass.cli.cron.known import list_schedules, pause, remove, resume, trigger


class Group(ExitCodes, click.Group):
    """A group with examples in its help."""


@click.group(
    cls=Group,
    examples=(
        "windlass cron check                # what the file crontab says, and when it runs next",
        "windlass cron list",
        "windlass cron pause weekly_report",
    ),
)
def cron() -> None:
    """Check crontabs; list, pause, trigger and remove schedules."""


for command in (check, list_schedules, pause, resume, trigger, remove):
    cron.add_command(command)
