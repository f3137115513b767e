"""What tells one error from another: failures with the same fingerprint are one *error group*.

A fingerprint is a hash of the job's tenant and task, of the error's first line (`Type: message`)
without what differs from one failure to the next (numbers, addresses, what stands in quotes), and
of the last frame of its traceback: file and function, without the line. It begins with a hash of
the tenant alone, so that those of one tenant stand together in an index. PostgreSQL says the same
of texts that have no traceback, in `sql/settling/_fingerprint.sql`; the tests compare the two.
"""

from __future__ import annotations

import hashlib
import re

_LONGEST_LINE = 300
_VARIES = [
    (re.compile(pattern), put)
    for pattern, put in (
        ('"[^"]*"', '""'),
        ("'[^']*'", "''"),
        ("[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", "0"),
        ("0[xX][0-9a-fA-F]+", "0"),
        ("[0-9a-fA-F]{16,}", "0"),
        ("[0-9]+", "0"),
    )
]
"""One after the other. They mean the same to PostgreSQL; without alternatives, of which that takes
the longest and Python the first."""
_FRAME = re.compile(r'\n *File "(?:[^"\n]*[/\\])?([^"\n]*)", line [0-9]+, in ([^\n]*)')


def fingerprint_of_error(tenant: str, task: str, error: str) -> str:
    """The fingerprint of a failed attempt; `error` is its text as a job keeps it."""
    return _digest(tenant, task, error, _last_frame(error))


def fingerprint_of_text(tenant: str, task: str, text: str) -> str:
    """The same for a reason that is no exception of a handler: an operator's, or a store's own."""
    return _digest(tenant, task, text, "")


def _digest(tenant: str, task: str, text: str, frame: str) -> str:
    line = text.partition("\n")[0][:_LONGEST_LINE]
    for pattern, put in _VARIES:
        line = pattern.sub(put, line)
    return first_of_tenant(tenant) + _hash("\n".join((tenant, task, line, frame)))[:12]


def first_of_tenant(tenant: str) -> str:
    """What every fingerprint of a tenant begins with; that of another may, too."""
    return _hash(tenant)[:4]


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()


def _last_frame(error: str) -> str:
    start = error.rfind('\n  File "')
    found = None if start < 0 else _FRAME.match(error, start)
    return "" if found is None else f"{found[1]}\n{found[2]}"
