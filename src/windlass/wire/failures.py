"""Errors as they cross: the class's name, what it says, and its fields.

The other side raises the same class of `windlass.errors`, made without calling it: several of them
take other arguments than they keep. A class that it does not know, because the server is newer, is
a StoreError there.
"""

from __future__ import annotations

from typing import Any

import msgspec

from windlass import errors
from windlass.errors import StoreError, WindlassError

_encode = msgspec.json.Encoder(enc_hook=str).encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def write_fields(error: WindlassError) -> bytes:
    return _encode(error.__dict__) if error.__dict__ else b""


def read_error(name: str, message: str, fields: bytes) -> WindlassError:
    """The error that the other side raised."""
    found = getattr(errors, name, None)
    if not (isinstance(found, type) and issubclass(found, WindlassError)):
        return StoreError(message)
    error = found.__new__(found, message)
    error.__dict__.update(_read_fields(fields))
    return error


def _read_fields(fields: bytes) -> dict[str, Any]:
    if not fields:
        return {}
    try:
        return {name: _frozen(value) for name, value in _decode(fields).items()}
    except msgspec.MsgspecError:
        return {}


def _frozen(value: Any) -> Any:
    """Errors keep tuples, which JSON has not."""
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
