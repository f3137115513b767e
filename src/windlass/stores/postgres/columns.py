"""The columns of a job in the functions' texts, made from the one declaration of its fields.

A text has places for them: `{job_row}` is a job as a JSON array in the order of `records.Row`,
`{carried}` are the columns that a job carries from its caller, and so on; `PLACES` lists them all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args, get_type_hints

from windlass.model.chain import ChainState
from windlass.model.job import Carried
from windlass.model.names import OnBlockerFailure
from windlass.store.figures import COLUMNS as RATES
from windlass.store.records import ChainRow, Lease, NewJob, Row

_ROW = Row.__struct_fields__
_CARRIED = Carried.__struct_fields__

_FLAGS = ("suspect", "superseded", "cancel_requested", "holds")
_OF_OPEN_JOBS = ("state", *_FLAGS, "worker", "lease_until")
_OF_FINISHED_JOBS = ("output", "expires_at")
_OF_FAILED_JOBS = ("fingerprint",)
_HISTORY = [name for name in _ROW if name not in (*_OF_OPEN_JOBS, *_OF_FAILED_JOBS, "updated_at")]
"""What the history has. A kept job was last changed when it finished."""

_OF_LINKS = ("chain", "step", "blockers_total", "blockers")
"""What a lease has only where its job belongs to a chain, or waited for some."""

_TYPES: dict[Any, str] = {
    str: "text",
    int: "integer",
    float: "float8",
    tuple: "text[]",
}
_MARKED = {tuple[int, ...]: "chains", OnBlockerFailure: "choice"}


def _kinds(struct: type) -> dict[str, tuple[str | None, type, bool]]:
    """The mark of each field (instant, json, flag), its type, and whether it may be None."""
    hints = get_type_hints(struct, include_extras=True)
    return {name: _kind(hints[name]) for name in hints if not name.startswith("_")}


def _kind(hint: Any) -> tuple[str | None, type, bool]:
    parts = get_args(hint) if type(None) in get_args(hint) else ()
    [plain] = [part for part in parts if part is not type(None)] or [hint]
    mark = _MARKED.get(plain, getattr(plain, "__metadata__", (None,))[0])
    kind = getattr(plain, "__origin__", plain)
    return mark, kind, bool(parts)


_ROW_KINDS, _LEASE_KINDS, _NEW_KINDS = _kinds(Row), _kinds(Lease), _kinds(NewJob)
_CHAIN_KINDS = _kinds(ChainRow)


def _json(name: str, table: str) -> str:
    """A field for `json_build_array`."""
    column = f"({table}).{name}"
    match _ROW_KINDS[name][0]:
        case "instant":
            return f"{{schema}}._micros({column})"
        case "json":
            return f"{column}::text"
        case "flag":
            return f"{column}::int"
        case _:
            return _readable(name, column)


def _readable(name: str, column: str) -> str:
    """What other programs may have written as no program can read it is not shown."""
    return {"flags": f"{{schema}}._listed({column})", "keep": f"{{schema}}._span({column})"}.get(
        name, column
    )


def _text(
    name: str,
    table: str = "j",
    kinds: Mapping[str, tuple[str | None, type, bool]] = _LEASE_KINDS,
) -> str:
    """A field of a lease as a piece of JSON."""
    mark, kind, is_optional = kinds[name]
    column = _readable(name, f"({table}).{name}")
    if mark == "flag":
        return f"{column}::integer"
    if mark == "instant":
        column = f"{{schema}}._quick_micros({column})"
    elif mark == "json":
        column = f"{column}::text"
    if kind in (str, tuple, Literal, ChainState):
        column = f"to_json({column})"
    elif kind is bool:
        column = f"{column}::text"
    return f"coalesce({column}::text, 'null')" if is_optional else column


def _each(names: Iterable[str], table: str, otherwise: Mapping[str, str]) -> str:
    return ", ".join(otherwise.get(name, f"({table}).{name}") for name in names)


def _typed(names: Iterable[str]) -> str:
    """Columns of a JSON object, with the types that `json_to_recordset` is to give them."""
    return ", ".join(f"{name} {_type(*_NEW_KINDS[name])}" for name in names)


def _type(mark: str | None, kind: type, _: bool) -> str:
    marked = {
        "json": "json",
        "instant": "bigint",
        "micros": "bigint",
        "flag": "boolean",
        "chains": "bigint[]",
        "choice": "{schema}._on_failure",
    }
    return marked.get(mark or "", _TYPES.get(kind, "text"))


_SPEC = {
    "task": "identifier",
    "payload": "payload",
    "queue": "queue_name",
    "max_attempts": "max_attempts",
    "key": "job_key",
    "priority": "priority",
    "flags": "flags",
    "tenant": "tenant",
    "is_strict": "is_strict",
}
"""What is known of a job that is added in SQL, and the name it has there: what its caller says, and
the settings of the transaction."""
_CHECKED = ("task", "payload", "key")


def _unless_said(table: str) -> dict[str, str]:
    """What a request need not say, with what it is then."""
    others = {"priority": "0", "tenant": "''", "is_strict": "false"}
    return {name: f"coalesce({table}.{name}, {other})" for name, other in others.items()}


def _accepted(table: str, payload: str) -> str:
    """What a job carries, where it may come of the request."""
    return ", ".join(
        (_accepted_each(table) | {"payload": f"{{schema}}._sound({payload})"}).values()
    )


def _accepted_each(table: str) -> dict[str, str]:
    checked = ("task", "queue", "key", "max_attempts", "flags", "keep", "tenant")
    arguments = ", ".join(f"{table}.{name}" for name in checked)
    return {
        **{name: f"{table}.{name}" for name in _CARRIED},
        "task": f"{{schema}}._accepted({arguments})",
        **_unless_said(table),
    }


def _request(values: Mapping[str, str]) -> str:
    """A `_request` of these values; the caller adds when it is due, and the mode of its key."""
    carried = ", ".join(values.get(name, "NULL") for name in _CARRIED)
    return f"ROW(d.due, d.mode, {carried})::{{schema}}._request"


def _replaced(table: str) -> str:
    """What a job becomes that has the key of a request."""
    changes = [f"{name} = {table}.{name}" for name in _CARRIED if name not in ("key", "payload")]
    joined = f"payload = {{schema}}._joined(j.payload, {table}.payload)"
    return ", ".join([*changes, joined])


_BLOCKERS = """CASE WHEN (j).blockers_total IS NOT NULL THEN to_json({schema}._named_chains(
    (j).id, (j).tenant, (j).updated_at, {most_blocker_text}))::text END"""
"""What a lease carries of the chains that its job named: nothing where their texts are too long."""

PLACES = {
    "{job_row}": ", ".join(
        {
            "state": "CASE (j).state WHEN 'waiting' THEN 'ready' ELSE (j).state::text END",
            "worker": "worker",
            "output": "NULL::text",
            "expires_at": "NULL::bigint",
        }.get(name, _json(name, "j"))
        for name in _ROW
    ),
    "{history_row}": ", ".join(
        {
            **dict.fromkeys((*_OF_OPEN_JOBS, *_OF_FAILED_JOBS), "NULL"),
            **dict.fromkeys(_FLAGS, "0"),
            "state": "'completed'",
            "updated_at": _json("finished_at", "h"),
        }.get(name, _json(name, "h"))
        for name in _ROW
    ),
    "{chain_text}": ", ".join(
        {"key_window": "coalesce((c).key_window, 0)"}.get(name, _text(name, "c", _CHAIN_KINDS))
        for name in ChainRow.__struct_fields__
    ),
    "{lease}": ", ".join(
        {
            "job_id": "(j).id",
            "token": "base + (j).id",
            "worker": "worker",
            "attempts": "(j).attempts + more",
            "deliveries": "(j).deliveries + more",
        }.get(name, _text(name))
        for name in Lease.__struct_fields__
        if name not in _OF_LINKS
    )
    + """, CASE WHEN (j).chain IS NOT NULL OR (j).blockers_total IS NOT NULL
    THEN {schema}._linked_lease(j) END""",
    "{linked_lease}": ", ".join(
        _BLOCKERS if name == "blockers" else _text(name) for name in _OF_LINKS
    ),
    "{history}": ", ".join(_HISTORY),
    "{history_of_job}": _each(
        _HISTORY,
        "j",
        {
            "finished_at": "_at",
            "expires_at": "_at + make_interval(secs => {schema}._span((j).keep))",
            "output": "_output",
        },
    ),
    "{history_of_linked}": _each(
        _HISTORY,
        "d",
        {
            "finished_at": "at",
            "expires_at": "at + make_interval(secs => d.kept)",
            "token": "d.own_token",
            "keep": "d.kept",
            "attempts": "d.attempts + d.more",
            "deliveries": "d.deliveries + d.more",
            "chain": "coalesce(d.chain, CASE WHEN d.goes_on THEN d.id END)",
            "step": "coalesce(d.step, CASE WHEN d.goes_on THEN 0 END)",
        },
    ),
    "{history_of_changed}": _each(
        _HISTORY,
        "k",
        {
            "finished_at": "_at",
            "expires_at": "_at + make_interval(secs => {schema}._span(k.keep))",
            "output": "NULL",
        },
    ),
    "{history_of_done}": _each(
        _HISTORY,
        "d",
        {
            "finished_at": "at",
            "expires_at": "at + make_interval(secs => d.kept)",
            "token": "d.own_token",
            "keep": "d.kept",
            "attempts": "d.attempts + d.more",
            "deliveries": "d.deliveries + d.more",
        },
    ),
    "{carried}": ", ".join(_CARRIED),
    "{carried_of_given}": ", ".join(f"g.{name}" for name in _CARRIED),
    "{carried_of_request}": ", ".join(f"r.{name}" for name in _CARRIED),
    "{accepted_of_request}": _accepted("r", "r.payload"),
    "{accepted_of_new}": _accepted("x", "coalesce(x.payload, 'null')"),
    "{carried_of_alike}": ", ".join(
        {**_unless_said("x"), "payload": "{schema}._sound(p.value)"}.get(name, f"x.{name}")
        for name in _CARRIED
    ),
    "{accepted_of_spec}": ", ".join(
        {
            "task": "{schema}._accepted(g.identifier, g.queue_name, NULL, g.max_attempts, g.flags,"
            " NULL, g.tenant)",
            "payload": "{schema}._sound(g.payload)",
            **{name: f"g.{column}" for name, column in _SPEC.items() if name not in _CHECKED},
        }.get(name, "NULL")
        for name in _CARRIED
    ),
    "{request_of_new}": _request(
        {
            **{name: f"x.{name}" for name in _CARRIED},
            "payload": "coalesce(x.payload, 'null')",
            **_unless_said("x"),
        }
    ),
    "{request_of_spec}": _request({name: f"s.{column}" for name, column in _SPEC.items()}),
    "{request_of_call}": _request(_SPEC),
    "{replaced_by_request}": _replaced("r"),
    "{replaced_by_excluded}": _replaced("excluded"),
    "{begun_anew}": "attempts = 0, resets = 0, suspect = false, holds = false, last_error = NULL,"
    " fingerprint = NULL, errors = NULL, progress = NULL, log = NULL, finished_at = NULL,"
    " blockers_open = NULL, blockers_total = NULL",
    "{link_typed}": f"{_typed(NewJob.__struct_fields__)}, payloads json, places integer[],"
    " chain_key text, key_window bigint",
    "{accepted_of_link}": ", ".join(
        f"{value} AS {name}" for name, value in _accepted_each("x").items() if name != "payload"
    ),
    "{shared_of_link}": ", ".join(f"g.{name}" for name in _CARRIED if name != "payload"),
    "{carried_of_link}": ", ".join(
        "{schema}._sound(coalesce(g.payload, 'null'))" if name == "payload" else f"g.{name}"
        for name in _CARRIED
    ),
    "{rates}": ", ".join(RATES),
    "{rates_of_row}": ", ".join(f"(x.row ->> {n})::bigint" for n, _ in enumerate(RATES, 2)),
    "{rates_added}": ", ".join(f"{name} = r.{name} + excluded.{name}" for name in RATES),
    "{new_typed}": _typed(NewJob.__struct_fields__),
    "{new_names}": ", ".join(NewJob.__struct_fields__),
    "{alike_typed}": _typed(NewJob.__struct_fields__).replace("payload json", "payloads json"),
}


def fill(text: str) -> str:
    """The text with all columns in it; other places are left."""
    for place, columns in PLACES.items():
        text = text.replace(place, columns)
    return text
