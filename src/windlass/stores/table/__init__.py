"""A jobs table of the user's own, in PostgreSQL.

The table is filled by its users; this store takes rows from it, says that they are worked on, and
writes how that ended. It asks for the columns of `columns.COLUMNS` under whatever names, and for
none of its own.

A row's state:

    queued ──► processing ──► completed
      ▲  ▲         │ ├──────► failed          the last failure, a Poison, too many resets
      │  └─ reset ─┘ ├──────► canceled
      │              ▼
      └─ due ───── errored                     tried again when `process_after` has come

*Ownership.* A row is ours while it is `processing`, with the `started_at` and the `worker_hostname`
we wrote when we took it: together they are the token, so a worker that lost its row can write
nothing to it. It stays ours as long as `last_heartbeat_at` is younger than `stalled_max_age`; the
worker stops its own handler before that, and resetters take the row back after it.

*Waiting.* No statement here waits for a row that a transaction has locked: claims and resets pass
it over, heartbeats tell the keeper, and settlements, cancellations and log entries are asked again.

*One row among many.* A row that cannot be read fails alone, and one whose trigger or constraint
refuses a reset or a heartbeat keeps no other from it: what fails for all is done row by row.
"""

from windlass.stores.table.options import TableOptions
from windlass.stores.table.store import TableStore

__all__ = ["TableOptions", "TableStore"]
