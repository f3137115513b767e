"""Payloads and outputs between the bytes of streams and the JSON text of stores.

What is JSON, by the rules for every payload, is stored as the text it is. Other bytes are stored as
a JSON string in base64, with a content type in the job's `meta`, and handed out as they came.
No bytes at all are an empty object for a Python task, and no bytes for a stream.
"""

from __future__ import annotations

import base64
import binascii

import msgspec

from windlass.errors import PayloadError
from windlass.model import payload as payloads

CONTENT_TYPE = "content_type"
"""The name in a job's `meta`."""
BYTES = "application/octet-stream"

_decode = msgspec.json.Decoder().decode
_MARK = f'"{BYTES}"'
_PLAIN = payloads.MAX_DEPTH
"""Longer texts may be nested too deeply."""


def json_text(data: bytes, limit: int, field: str) -> str:
    """A JSON text as it came, or a PayloadError that says why it cannot be stored."""
    payloads.check_size(data, limit, field=field)
    try:
        value = _decode(data)
        text = data.decode()
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise PayloadError(f"{field} is not JSON: {error}", field=field) from None
    if isinstance(value, float | int) or len(data) > _PLAIN or "\\u0000" in text:
        payloads.encode_value(value, limit=2**63, field=field)  # raises
    return text


def stored(data: bytes, limit: int) -> tuple[str, str | None]:
    """The JSON text that a payload is stored as, and its content type if it is no JSON."""
    if not data:
        return payloads.EMPTY, BYTES
    try:
        return json_text(data, limit, "payload"), None
    except PayloadError:
        payloads.check_size(data, limit)
    text = f'"{base64.b64encode(data).decode()}"'
    payloads.check_size(text.encode(), limit)
    return text, BYTES


def handed_out(payload: str, meta: str | None) -> bytes:
    """The bytes of a stored payload."""
    if meta is None or _MARK not in meta:
        return payload.encode()
    found = payloads.shown(meta)
    if not isinstance(found, dict) or found.get(CONTENT_TYPE) != BYTES:
        return payload.encode()
    value = payloads.shown(payload)
    if value == {}:
        return b""
    try:
        return base64.b64decode(value, validate=True)
    except (TypeError, ValueError, binascii.Error):  # another program has changed it
        return payload.encode()
