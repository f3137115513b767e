"""How a store finds its way around a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import timedelta
from typing import Any, Generic, TypeVar

import msgspec
from psycopg import sql

from windlass.errors import ConfigError
from windlass.model.names import check_seconds, check_task

R = TypeVar("R")

Fragment = str | sql.Composable
"""A piece of SQL. Values belong in it as `sql.SQL("size <= {}").format(limit)`, never by hand."""

DIED = "its worker died too often while this job ran (max_num_resets); it will not run again"


@dataclass(frozen=True, kw_only=True)
class TableOptions(Generic[R]):
    """The table, what of it makes a record, and how often records are tried. Times are seconds,
    or timedeltas."""

    name: str
    """What the jobs are called, in logs and metrics."""
    table_name: str
    """The table that is updated: `jobs`, `shop.jobs`, `shop.jobs AS j`."""
    view_name: str | None = None
    """What records are read from, by default the table; it must have the table's id."""
    column_expressions: Sequence[Fragment] | None = None
    """What is selected, by default the fields of `scan`'s class, or all columns."""
    scan: type[R] | Callable[[dict[str, Any]], R] | None = None
    """Makes a record of a row: a dataclass, a msgspec struct or a function of a dict; by default
    the dict itself."""
    order_by: Fragment | None = None
    """Which row is next, by default the one with the smallest id."""
    conditions: Sequence[Fragment] = ()
    """All of these must hold for a row to be taken."""
    alternate_column_names: Mapping[str, str] = field(default_factory=dict)
    """What the table calls our columns: {"state": "status"}."""
    max_num_retries: int = 0
    """How often a record that failed is tried again."""
    retry_after: float | timedelta | None = None
    """How long after a failure; needed if it is to be tried again."""
    max_num_resets: int = 5
    """How often a record is taken back from dead workers before it is failed."""
    stalled_max_age: float | timedelta = 30.0
    """How old a heartbeat may be before its worker counts as dead; at least 1 second."""
    heartbeat_interval: float | timedelta | None = None
    """How often heartbeats are written, by default three times in `stalled_max_age`."""
    reset_failure_message: str = DIED

    def __post_init__(self) -> None:
        check_task(self.name)
        for option in ("max_num_retries", "max_num_resets"):
            value = getattr(self, option)
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise ConfigError(f"{option} must be a whole number from 0 on, not {value!r}")
        if (self.retry_after is None) != (self.max_num_retries == 0):
            raise ConfigError(
                "to try records again give both max_num_retries and retry_after; without retries"
                " give neither"
            )
        for option in ("conditions", "column_expressions"):
            if isinstance(getattr(self, option), str | sql.Composable):
                raise ConfigError(f"{option} is a list: write [{getattr(self, option)!r}]")
        if self.stall < 1:
            raise ConfigError("stalled_max_age must be at least 1 second")
        if not 0 < self.beat < self.stall:
            raise ConfigError(
                "heartbeat_interval must be more than 0 and less than stalled_max_age"
            )

    @property
    def stall(self) -> float:
        return check_seconds(self.stalled_max_age, "stalled_max_age") or 0.0

    @property
    def beat(self) -> float:
        beat = check_seconds(self.heartbeat_interval, "heartbeat_interval")
        return self.stall / 3 if beat is None else beat

    @property
    def delay(self) -> float:
        """Seconds before a retry."""
        return check_seconds(self.retry_after, "retry_after") or 0.0

    @property
    def warnings(self) -> list[str]:
        if self.beat > self.stall / 2:
            return [
                f"heartbeat_interval ({self.beat:g} s) is more than half of stalled_max_age"
                f" ({self.stall:g} s): one late heartbeat and a living worker loses its record;"
                f" set it to {math.floor(self.stall * 10 / 3) / 10:g} s"
            ]
        return []

    @property
    def field_names(self) -> list[str] | None:
        """The columns that `scan`'s class asks for by its fields."""
        if isinstance(self.scan, type):
            if is_dataclass(self.scan):
                return [each.name for each in fields(self.scan) if each.init]
            if issubclass(self.scan, msgspec.Struct):
                return list(self.scan.__struct_fields__)
        return None


def compose(fragment: Fragment) -> sql.Composable:
    """A fragment as SQL. It ends its line, so that a comment in it swallows nothing of ours."""
    if isinstance(fragment, sql.Composable):
        return sql.Composed([fragment, sql.SQL("\n")])
    if not isinstance(fragment, str):
        raise ConfigError(
            f"{fragment!r} is no SQL; write text, or psycopg.sql.SQL('size <= {{}}').format(5)"
        )
    return sql.SQL(fragment + "\n")
