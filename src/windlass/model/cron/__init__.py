"""Schedules: what a crontab says, and the instants it means.

    fields      one of the five time fields: text → the values it allows
    pattern     five fields or a word such as @daily → a `Timetable`
    timetable   which instants a pattern and a time zone mean
    schedule    one line of a crontab as a value, and how people write one in Python
    crontab     a whole crontab as text
    words       a schedule as a sentence

The model. A pattern describes minutes of a *local* clock; the zone says what that clock shows at
each instant. An instant of a schedule is a minute at which the clock shows a time that the
pattern allows. Where the clock jumps, two kinds of pattern are told apart by their hours:

* A pattern that allows **every hour** follows the clock: it fires whenever the clock shows a
  matching minute, so not at all for times the clock leaves out, and twice for times it shows twice.
* Any other pattern names **fixed times**, each of which happens once on its day: a time that the
  clock leaves out fires at the first instant after the gap, and a time that it shows twice fires
  the first time only.

Instants are counted in microseconds since 1970 (UTC), as everywhere. Nothing here reads a clock.
"""

from windlass.model.cron.crontab import parse_crontab
from windlass.model.cron.schedule import CronItem, Schedule, parse_cron_items

__all__ = ["CronItem", "Schedule", "parse_cron_items", "parse_crontab"]
