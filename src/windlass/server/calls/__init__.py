"""The verbs of the store port for Windlass's own workers elsewhere (`grpc://`).

`wire/calls.py` declares the verbs, and `table.py` says of each which power it needs and what does
it: `working` for workers, `looking` for all, `changing` for producers and operators. A `caller` is
an identity, and what it may ask for: its tenant, its workers, its leases. `service` is what the
streams of a process share, `session` the calls of one stream, and `opening` makes it.
"""

from windlass.server.calls.opening import open_calls
from windlass.server.calls.service import CallService
from windlass.server.calls.session import CallSession

__all__ = ["CallService", "CallSession", "open_calls"]
