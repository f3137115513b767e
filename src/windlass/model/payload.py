"""Payloads: anything JSON can say, checked once at the door and kept as JSON text.

The checks that need a walk over the value run only when the encoded text shows a reason for
them, so a plain small payload costs one encode and a few searches.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from windlass import errors

MAX_PAYLOAD = 256 * 1024
MAX_DEPTH = 64

MAX_META = 16 * 1024

EMPTY = "{}"

_LEAST, _MOST = -(2**63), 2**64 - 1
_LONG = 19
_LONG_NUMBER = re.compile(rb"[0-9]{19}")


def _encode_foreign(value: Any) -> Any:
    """Lets pydantic models through, which msgspec does not know by itself."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    why = getattr(value, "not_json_because", None)
    raise TypeError(
        why or f"{type(value).__name__} is not JSON; send numbers, text, lists and dicts"
    )


def decode_foreign(kind: type, value: Any) -> Any:
    """The way back for `_encode_foreign`."""
    validate = getattr(kind, "model_validate", None)
    if callable(validate):
        return validate(value)
    raise TypeError(f"cannot make {kind.__name__} from a payload")


_ENCODER = msgspec.json.Encoder(enc_hook=_encode_foreign)
_DECODER = msgspec.json.Decoder()


def encode(value: object, *, limit: int = MAX_PAYLOAD, field: str = "payload") -> str:
    """The JSON text of `value`, or a PayloadError naming what is wrong with it."""
    if value is None:
        return EMPTY
    return encode_value(value, limit=limit, field=field)


def check_size(raw: bytes, limit: int, *, field: str = "payload") -> None:
    if len(raw) > limit:
        raise errors.PayloadTooLargeError(
            f"{field} is {len(raw):,} bytes of JSON; the limit is {limit:,}"
            " (store large data elsewhere and send its address)",
            field=field,
        )


def encode_value(value: object, *, limit: int = MAX_PAYLOAD, field: str = "payload") -> str:
    """As `encode`, but None is JSON's null: for outputs rather than payloads."""
    try:
        raw = _ENCODER.encode(value)
    except RecursionError:
        raise _too_deep(field) from None
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError) as error:
        raise errors.PayloadError(f"{field} is not JSON: {error}", field=field) from None
    check_size(raw, limit, field=field)
    text = raw.decode()  # in which to search takes a fifth of what it does in bytes
    if "\\u0000" in text and _holds_nul(_DECODER.decode(raw)):
        raise errors.PayloadError(f"{field} contains a NUL character", field=field)
    may_be_deep = len(raw) > 2 * MAX_DEPTH and raw.count(b"[") + raw.count(b"{") > MAX_DEPTH
    if may_be_deep and _depth(_DECODER.decode(raw)) > MAX_DEPTH:
        raise _too_deep(field)
    if "null" in text and _holds_not_a_number(msgspec.to_builtins(value, enc_hook=_encode_foreign)):
        raise errors.PayloadError(
            f"{field} contains NaN or infinity, which JSON lacks", field=field
        )
    if len(raw) >= _LONG and _LONG_NUMBER.search(raw) and _holds_huge(_DECODER.decode(raw)):
        raise errors.PayloadError(
            f"{field} contains an integer beyond 64 bits; send it as text", field=field
        )
    return text


def encode_meta(value: object) -> str | None:
    """The JSON text of a job's `meta`, which is a small object."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise errors.PayloadError(
            f"meta must be a dict of JSON values, not {type(value).__name__}", field="meta"
        )
    return encode_value(value, limit=MAX_META, field="meta")


def decode(text: str | bytes, *, field: str = "payload") -> Any:
    """The value of a JSON text, or a PayloadError that says where it breaks."""
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise _too_deep(field) from None
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise errors.PayloadError(f"{field} is not JSON: {error}", field=field) from None


def shown(text: str) -> Any:
    """The value of a JSON text that is in the database, for callers that only show the job.

    Another program may have put a text there that cannot be decoded here. It is shown as it is, so
    that it costs only its own job, and neither a list of jobs nor a listener.
    """
    try:
        return _DECODER.decode(text)
    except (RecursionError, msgspec.MsgspecError, UnicodeError):
        return text


def _too_deep(field: str) -> errors.PayloadError:
    return errors.PayloadError(f"{field} is nested deeper than {MAX_DEPTH} levels", field=field)


def _depth(value: Any) -> int:
    deepest = 0
    stack = [(value, 1)]
    while stack:
        item, level = stack.pop()
        children = item.values() if isinstance(item, dict) else item
        if isinstance(item, dict | list):
            deepest = max(deepest, level)
            stack.extend((child, level + 1) for child in children)
    return deepest


def _leaves(value: Any) -> Iterator[Any]:
    """Every key and every value that holds no others."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            stack.extend(item.keys())
            stack.extend(item.values())
        elif isinstance(item, list | tuple | set | frozenset):
            stack.extend(item)
        else:
            yield item


def _holds_nul(value: Any) -> bool:
    return any(isinstance(leaf, str) and "\x00" in leaf for leaf in _leaves(value))


def _holds_not_a_number(value: Any) -> bool:
    return any(isinstance(leaf, float) and not math.isfinite(leaf) for leaf in _leaves(value))


def _holds_huge(value: Any) -> bool:
    return any(isinstance(leaf, int) and not _LEAST <= leaf <= _MOST for leaf in _leaves(value))
