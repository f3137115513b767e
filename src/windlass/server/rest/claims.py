"""Claims: a worker without a stream takes jobs, settles them and renews its leases.

Each call that claims is a worker of the store by itself, whose lease is the claim's: the jobs of
one call end together unless they are renewed. A client holds *leases*: opaque text that proves
them on every server of the database. One that was made for another tenant, or for a task that the
token may not claim, is as if the job did not exist.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import secrets
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from windlass.client.showing import ShownJob
from windlass.errors import PayloadError
from windlass.model import payload as payloads
from windlass.model.outcome import MAX_ERROR, clip
from windlass.server.dispatcher import Want
from windlass.server.identity import Power
from windlass.server.rest.call import Call
from windlass.server.rest.gone import unless_gone
from windlass.server.rest.jobs import LONGEST_WAIT
from windlass.server.rest.preparing import MOST, blamed, place_of, require_few
from windlass.server.rest.problems import Gone, Kind, Refused
from windlass.server.rest.routes import BULK, Answer, Nothing, Routes
from windlass.server.rest.specs import Seconds, Task
from windlass.store.records import (
    RELEASE,
    Complete,
    Fail,
    Lease,
    Outcome,
    Verdict,
    decode_blockers,
)
from windlass.store.server import ClaimScope
