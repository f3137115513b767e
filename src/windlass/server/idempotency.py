"""Requests that may come twice: what makes two of them the same.

A request is known by its key and a digest of what it asks for, so that the same key with something
else is noticed. REST and streams share the keys, and therefore the digest: it is made from the
jobs as a store takes them, before the server's own settings are filled in. Values that are left at
their defaults do not count, and the order of a payload's fields does not either.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.model import payload as payloads
from windlass.store.records import NewJob

_encode = msgspec.json.Encoder(order="sorted").encode
_TEXTS = ("payload", "meta")
_NO_PART = ("tenant",)
"""The keys of two tenants never meet."""
_DEFAULTS = {
    field.name: field.default
    for field in msgspec.structs.fields(NewJob)
    if field.name not in _NO_PART
}


def digest_of(jobs: Sequence[NewJob]) -> str:
    """The same for two requests if and only if they ask for the same jobs, in the same order."""
    return hashlib.sha256(_encode([_said(job) for job in jobs])).hexdigest()


def _said(job: NewJob) -> dict[str, Any]:
    values = {name: getattr(job, name) for name in _DEFAULTS}
    return {
        name: payloads.shown(value) if name in _TEXTS else value
        for name, value in values.items()
        if value != _DEFAULTS[name]
    }
