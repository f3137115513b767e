"""What a batch may hold, in one place: conditions on the row of a job.

A job is in a batch if and only if it is ready, *undelivered*, and a row of `_batches` names its id.
A claim puts only *plain* jobs into batches. In the texts of functions `{plain j}` is this condition
on the row `j`, and so are the others; `{ready_undelivered j}` is for rows that may be in any state.
`{told j}` is a job whose end is posted, and `{reserved t}` a task of Windlass's own.
`{blocked j}` and `{failed j}` are states, for rows whose ids are given: in words from which the
planner does not see that an index of that state would do. It would walk that while the table is
small, and then for ever.
They are texts, not functions, because no view may be bound to a function (see `functions.drop`).
"""

from __future__ import annotations

import re

from windlass.model.names import RESERVED
from windlass.store.webhooks import WEBHOOK

_UNDELIVERED = "{row}.deliveries = 0"
_CONDITIONS = {
    "undelivered": _UNDELIVERED,
    "ready_undelivered": f"{{row}}.state = 'ready' AND {_UNDELIVERED}",
    "plain": "{row}.key IS NULL AND {row}.queue IS NULL",
    "blocked": "CASE {row}.state WHEN 'blocked' THEN true END",
    "failed": "CASE {row}.state WHEN 'failed' THEN true END",
    "told": f"({{row}}.meta ? '{WEBHOOK}') IS TRUE",
    "reserved": f"starts_with({{row}}, '{RESERVED}')",
}
_PLACES = re.compile(r"\{(\w+) ([\w.()]+)\}")


def fill(text: str) -> str:
    """The text with these conditions in it; other places are left."""
    return _PLACES.sub(lambda found: _CONDITIONS[found[1]].replace("{row}", found[2]), text)
