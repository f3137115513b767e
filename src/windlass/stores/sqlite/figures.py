"""Rates and groups of errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.model.fingerprint import first_of_tenant
from windlass.store.figures import (
    ALL_TASKS,
    MOST_GROUPS,
    PERIOD,
    RATES_KEPT,
    Depth,
    ErrorGroup,
    ErrorGroups,
    Figures,
    Rate,
    RateFilter,
    TaskFigures,
    with_totals,
)
from windlass.store.records import MAX_ERROR_TEXT
from windlass.store.rules import micros
from windlass.stores.sqlite.connection import Session
from windlass.stores.sqlite.rows import json_text

_PRUNED = 1_000
"""Rows that one call drops at most: more than it adds."""
_AFTER_ALL = "g"
"""After every number in base 16."""

_rates = msgspec.json.Decoder(list[list[Any]]).decode
_groups = msgspec.json.Decoder(tuple[int, list[tuple[str, int, str, str, str, int, int]]]).decode


def encode(reported: Sequence[TaskFigures]) -> str:
    return json_text(
        [(one.task, one.tenant, *one.figures.numbers()) for one in with_totals(reported)]
    )


def note_rates(db: Session, rows: str, now: int) -> None:
    db.run("note_rates", {"rows": rows, "period": now - now % micros(PERIOD)})
    db.run("prune_rates", {"before": now - micros(RATES_KEPT), "limit": _PRUNED})


def rates(db: Session, wanted: RateFilter, now: int) -> list[Rate]:
    step = micros(wanted.step)
    since = now - micros(wanted.seconds)
    name = "read_rates_by_task" if wanted.by_task else "read_rates"
    task = wanted.task if wanted.by_task else wanted.task or ALL_TASKS
    values = {"since": since - since % step, "step": step, "task": task, "tenant": wanted.tenant}
    found = _rates(db.value(name, values))
    return [Rate(at, named, Figures.of(numbers)) for at, named, *numbers in found]


def error_groups(db: Session, limit: int, tenant: str | None, most: int) -> ErrorGroups:
    first = "" if tenant is None else first_of_tenant(tenant)
    looked, found = _groups(
        db.value(
            "find_error_groups",
            {
                "tenant": tenant,
                "first": first,
                "last": first + _AFTER_ALL,
                "groups": MOST_GROUPS,
                "limit": limit,
                "most": most,
                "error_text": MAX_ERROR_TEXT,
            },
        )
    )
    return ErrorGroups(
        tuple(
            ErrorGroup(
                fingerprint=fingerprint,
                tenant=owner,
                task=task,
                error=error,
                count=Depth(min(count, most), is_estimate=count > most),
                latest_at=at,
                latest_job=job,
            )
            for fingerprint, count, owner, task, error, at, job in found
        ),
        is_cut=looked > MOST_GROUPS,
    )
