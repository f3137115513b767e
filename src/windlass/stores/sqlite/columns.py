"""The columns of jobs and chains in this store's statements, made from the one declaration of their
fields.

A statement has places for them: `{job_row}` is a job as one JSON array in the order of
`records.Row`, `{row.key}` is the key in such an array, and so on; `PLACES` lists them all. The
table of jobs is `j` in these, that of the history `h`, and that of the chains `c`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from windlass.model.job import Carried
from windlass.store.figures import COLUMNS as RATES
from windlass.store.records import ChainRow, Lease, NewJob, Row
from windlass.store.server import Token

_CARRIED = Carried.__struct_fields__
_ROW = Row.__struct_fields__

_OF_RUNNING_JOBS = ("worker", "token", "lease_until")
_FLAGS_OF_OPEN_JOBS = ("suspect", "superseded", "cancel_requested", "holds")
_OF_OPEN_JOBS = ("state", *_FLAGS_OF_OPEN_JOBS, *_OF_RUNNING_JOBS)
_OF_FINISHED_JOBS = ("output", "expires_at")
_OF_FAILED_JOBS = ("fingerprint",)
_HISTORY = [name for name in _ROW if name not in (*_OF_OPEN_JOBS, *_OF_FAILED_JOBS)]
_UPDATED = [name for name in _ROW if name not in ("id", *_OF_RUNNING_JOBS, *_OF_FINISHED_JOBS)]
_CHAIN = ChainRow.__struct_fields__
_WORKER = "(SELECT w.name FROM windlass_workers AS w WHERE w.id = j.worker)"


def _each(names: Iterable[str], table: str, otherwise: Mapping[str, str]) -> str:
    return ", ".join(otherwise.get(name, f"{table}.{name}") for name in names)


def _json(names: Iterable[str], table: str, otherwise: Mapping[str, str]) -> str:
    flags = {"flags": f"json({table}.flags)"}
    return f"json_array({_each(names, table, {**flags, **otherwise})})"


def _array(fields: Iterable[str], array: str) -> dict[str, str]:
    """Where each field stands in a JSON array."""
    return {name: f"{array} ->> {place}" for place, name in enumerate(fields)}


_of_row = _array(_ROW, "value")
_BESIDE_NEW = ("offset", "chain", "step", "open", "total")
_of_new = _array((*NewJob.__struct_fields__, *_BESIDE_NEW), "value")
_of_chain = _array(_CHAIN, "value")

_COMPLETED = {
    "output": "p.value ->> 2",
    "keep": "p.value ->> 3",
    "expires_at": "p.value ->> 4",
    "updated_at": ":now",
    "finished_at": ":now",
}
"""What a job has of its completion."""

_JOB_ROW = _json(
    _ROW,
    "j",
    {
        "state": "iif(j.state = 'waiting', 'ready', j.state)",
        "worker": _WORKER,
        **dict.fromkeys(_OF_FINISHED_JOBS, "NULL"),
    },
)
_HISTORY_ROW = _json(
    _ROW,
    "h",
    {
        "state": "'completed'",
        **dict.fromkeys(_FLAGS_OF_OPEN_JOBS, "0"),
        **dict.fromkeys((*_OF_RUNNING_JOBS, *_OF_FAILED_JOBS), "NULL"),
    },
)
_CHAIN_ROW = f"json_array({_each(_CHAIN, 'c', {})})"

_JOB_OF_CHAIN = """coalesce(
  (SELECT {job_row} FROM windlass_jobs AS j WHERE j.chain = c.id),
  CASE WHEN c.state = 'completed' THEN (
    SELECT {history_row} FROM windlass_history AS h
    WHERE h.chain = c.id AND h.step = c.length - 1
  ) END
)""".replace("{job_row}", _JOB_ROW).replace("{history_row}", _HISTORY_ROW)
"""The current job of a chain; or its last one, where it has completed and that is kept."""

_OLD_CHAINS = """
  SELECT c.id
  FROM (
    SELECT 'completed' AS state, :completed AS ended
    UNION ALL SELECT 'failed', :failed
    UNION ALL SELECT 'cancelled', :failed
  ) AS s
  CROSS JOIN windlass_chains AS c INDEXED BY windlass_chains_ended
    ON c.state = s.state AND c.finished_at <= s.ended
  WHERE c.finished_at + c.key_window <= :now
    AND NOT EXISTS (
      SELECT 1 FROM windlass_blockers AS b
      CROSS JOIN windlass_jobs AS j
        ON j.id = b.job AND j.state NOT IN ('completed', 'failed', 'cancelled')
      WHERE b.chain = c.id
    )
"""
"""Chains that ended long enough ago: completed ones before :completed, others before :failed, and
none while its key counts or an open job names it."""

_TOKEN = ", ".join(
    f"'{name}', json(t.{name})" if name in ("roles", "tasks") else f"'{name}', t.{name}"
    for name in Token.__struct_fields__
)

PLACES = {
    "{token}": f"json_object({_TOKEN})",
    "{old_chains}": _OLD_CHAINS,
    "{carried}": ", ".join(_CARRIED),
    "{carried_given}": ", ".join(f":{name}" for name in _CARRIED).replace(":payload", "value"),
    "{carried_given_beside}": ", ".join(f":{name}" for name in _CARRIED).replace(
        ":payload", "value -> 1"
    ),
    "{carried_of_new}": ", ".join(_of_new[name] for name in _CARRIED),
    "{carried_of_row}": ", ".join(_of_row[name] for name in _CARRIED),
    "{job_row}": _JOB_ROW,
    "{history_row}": _HISTORY_ROW,
    "{chain_row}": _CHAIN_ROW,
    "{chain_and_job}": f"json_array({_CHAIN_ROW}, json({_JOB_OF_CHAIN}))",
    "{lease}": _json(
        Lease.__struct_fields__,
        "j",
        {
            "job_id": "j.id",
            "token": ":base + j.id",
            "worker": ":worker",
            "attempts": "j.attempts + 1",
            "deliveries": "j.deliveries + 1",
            "blockers": "NULL",
        },
    ),
    "{updates}": ",\n  ".join(f"{name} = {_of_row[name]}" for name in _UPDATED if name != "state"),
    "{stored}": ", ".join(_UPDATED),
    "{stored_of_row}": _each(
        _UPDATED,
        "",
        {
            **_of_row,
            "state": f"iif(({_of_row['state']}) = 'ready' AND ({_of_row['queue']}) IS NOT NULL,"
            f" 'waiting', {_of_row['state']})",
        },
    ),
    "{chain}": ", ".join(_CHAIN),
    "{chain_of_row}": ", ".join(_of_chain.values()),
    "{chain_updates}": ", ".join(f"{name} = excluded.{name}" for name in _CHAIN if name != "id"),
    "{rates}": ", ".join(RATES),
    "{rates_of_row}": ", ".join(f"value ->> {n}" for n, _ in enumerate(RATES, 2)),
    "{rates_added}": ", ".join(f"{name} = {name} + excluded.{name}" for name in RATES),
    "{rates_summed}": ", ".join(f"sum(r.{name})" for name in RATES),
    "{history}": ", ".join(_HISTORY),
    "{history_of_row}": ", ".join(_of_row[name] for name in _HISTORY),
    "{history_of_job}": _each(_HISTORY, "j", _COMPLETED),
    "{history_of_continued}": _each(
        _HISTORY,
        "j",
        {**_COMPLETED, "chain": "coalesce(j.chain, j.id)", "step": "coalesce(j.step, 0)"},
    ),
    **{f"{{row.{name}}}": f"({place})" for name, place in _of_row.items()},
    **{f"{{new.{name}}}": f"({place})" for name, place in _of_new.items()},
}

_PLACE = re.compile(r"\{[a-z_.]+\}")


def fill(statement: str, places: Mapping[str, str]) -> str:
    return _PLACE.sub(lambda found: places[found[0]], statement)
