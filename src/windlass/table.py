"""Jobs in a table of your own, in PostgreSQL: `TableStore`, its options, `ddl` and `examine`.

Needs the extra `postgres`. A worker for it is `windlass.Worker`.
"""

from windlass.errors import MissingExtraError

try:
    from windlass.stores.table import TableOptions, TableStore
    from windlass.stores.table.setup import Examined, ddl
    from windlass.stores.table.setup import examine_at as examine
except ImportError as error:
    raise MissingExtraError("A table of your own", "postgres") from error

__all__ = ["Examined", "TableOptions", "TableStore", "ddl", "examine"]
