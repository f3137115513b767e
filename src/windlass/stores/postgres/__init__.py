"""Jobs in PostgreSQL, shared by all processes that can reach the server.

Every verb of the port is one call of one SQL function (see `sql/`), so that it is one
round trip, one atomic step, and the same for Python, triggers and any other program. Python keeps
the connections, decodes answers and decides when to ask again.
"""

from windlass.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
