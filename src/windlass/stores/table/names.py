"""Names of tables and views, as people write them: `jobs`, `shop.jobs`, `shop.jobs AS j`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from psycopg import sql

from windlass.errors import ConfigError

_PART = r'(?:[A-Za-z_][A-Za-z0-9_$]*|"(?:[^"]|"")+")'
_NAME = re.compile(
    rf"(?:(?P<schema>{_PART})\.)?(?P<name>{_PART})(?:\s+(?:AS\s+)?(?P<alias>{_PART}))?",
    re.IGNORECASE,
)

_RESERVED = """
    all analyse analyze and any array as asc asymmetric authorization binary both case cast check
    collate collation column concurrently constraint create cross current_catalog current_date
    current_role current_schema current_time current_timestamp current_user default deferrable desc
    distinct do else end except false fetch for foreign freeze from full grant group having ilike in
    initially inner intersect into is isnull join lateral leading left like limit localtime
    localtimestamp natural not notnull null offset on only or order outer overlaps placing primary
    references returning right select session_user similar some symmetric system_user table
    tablesample then to trailing true union unique user using variadic verbose when where window
    with
"""
"""What PostgreSQL takes for a name only in quotes."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A table or view, and what rows of it are called in a query."""

    schema: str | None
    name: str
    alias: str

    @property
    def identifier(self) -> sql.Identifier:
        parts = [self.name] if self.schema is None else [self.schema, self.name]
        return sql.Identifier(*parts)

    @property
    def text(self) -> str:
        return self.name if self.schema is None else f"{self.schema}.{self.name}"

    @property
    def quoted(self) -> str:
        """As it is written in SQL."""
        parts = [self.name] if self.schema is None else [self.schema, self.name]
        return ".".join(map(quote, parts))


def parse_relation(text: str, option: str) -> Relation:
    """ConfigError if it is not a name, with an alias or without."""
    found = _NAME.fullmatch(text.strip()) if isinstance(text, str) else None
    if found is None:
        raise ConfigError(
            f"{option} {text!r} is not a name; write jobs, shop.jobs or 'shop.jobs AS j'"
        )
    refuse_percent(text, option)
    name = _folded(found["name"])
    schema = None if found["schema"] is None else _folded(found["schema"])
    return Relation(schema, name, name if found["alias"] is None else _folded(found["alias"]))


def refuse_percent(name: str, option: str) -> None:
    """Statements with parameters would take it for one of theirs."""
    if "%" in name:
        raise ConfigError(f"{option} {name!r} has a % in it, which no name may have here")


def quote(name: str) -> str:
    """A name as SQL reads it, quoted where it must be."""
    if re.fullmatch(r"[a-z_][a-z0-9_]*", name) and name not in _RESERVED.split():
        return name
    return '"' + name.replace('"', '""') + '"'


def _folded(part: str) -> str:
    """As PostgreSQL reads it: lower case, unless quoted."""
    if part.startswith('"'):
        return part[1:-1].replace('""', '"')
    return part.lower()
