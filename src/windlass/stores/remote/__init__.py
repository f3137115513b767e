"""The store of another machine: the verbs of the port, carried to a Windlass server.

`store` makes a call of each verb, and `link` carries it: one connection in a thread of its own,
kept up for as long as the store is open. A `channel` is a stream on which the server knows this
program, `stream` one HTTP/2 connection. `lifeline` renews leases, `claims` sees to claims whose
answers are lost, `workers` knows what each worker holds. What crosses is declared in
`windlass.wire.calls`.

What fails here fails as it does on PostgreSQL: a call that was not made is StoreUnavailableError, a
call whose answer was lost is OutcomeUnknownError unless it could be made again.
"""

from windlass.stores.remote.address import ServerAddress
from windlass.stores.remote.store import RemoteStore

__all__ = ["RemoteStore", "ServerAddress"]
