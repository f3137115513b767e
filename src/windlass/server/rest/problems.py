"""What a caller is told when a request is refused: `application/problem+json`, as RFC 9457 says.

Every refusal is of one `Kind`, and every error of Windlass that a request can cause is turned into
one by a single table. What no table knows is our own fault: the log has its traceback, the caller
has none of it.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from enum import Enum
from typing import Annotated, Any

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException
from msgspec import Meta

from windlass import errors
from windlass.server.refusals import Refusal, TooManyCalls

MEDIA_TYPE = "application/problem+json"
_logger = logging.getLogger("windlass.server")


class Kind(Enum):
    """The refusals that there are: the end of the type's name, the status, the title."""

    INVALID = ("invalid", 400, "The request is not valid")
    UNAUTHENTICATED = ("unauthenticated", 401, "The request needs a good token")
    FORBIDDEN = ("forbidden", 403, "The token does not allow this")
    NOT_FOUND = ("not-found", 404, "There is no such thing")
    METHOD = ("method-not-allowed", 405, "This address does not know the method")
    CONFLICT = ("conflict", 409, "The state of the job or chain forbids this")
    KEY_REUSED = ("idempotency-key-reused", 409, "The idempotency key belongs to another request")
    NOT_KEPT = ("not-kept", 409, "The outcome is not kept")
    GONE = ("gone", 410, "What the idempotency key stands for is not stored any more")
    TOO_LARGE = ("too-large", 413, "The request is too large")
    MEDIA = ("unsupported-media-type", 415, "The body must be JSON")
    TOO_MANY = ("too-many-requests", 429, "The token's rate is used up")
    INTERNAL = ("internal", 500, "The server failed")
    UNKNOWN_OUTCOME = ("unknown-outcome", 503, "The database was lost in the middle of the call")
    UNAVAILABLE = ("unavailable", 503, "The server cannot do this now")

    def __init__(self, end: str, status: int, title: str) -> None:
        self.type = f"urn:windlass:problem:{end}"
        self.status = status
        self.title = title


class Problem(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Why a request was refused."""

    type: Annotated[str, Meta(description="The kind of problem; stable.")]
    title: Annotated[str, Meta(description="The kind in words.")]
    status: Annotated[int, Meta(description="The HTTP status, again.")]
    detail: Annotated[str, Meta(description="What is wrong here, and what to do about it.")]
    field: Annotated[
        str | None, Meta(description="What to blame, as `jobs[3].priority`, where it is one field.")
    ] = None


class Refused(Exception):
    """Raised where a request cannot be served; it becomes the answer."""

    def __init__(
        self,
        kind: Kind,
        detail: str,
        *,
        field: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail
        self.field = field
        self.headers = dict(headers or {})


class Gone(Exception):
    """Raised where the caller has closed the connection: no answer arrives any more."""


_SOON = {"Retry-After": "1"}
_KINDS: tuple[tuple[type[Exception], Kind], ...] = (
    (errors.PayloadTooLargeError, Kind.TOO_LARGE),
    (errors.ValidationError, Kind.INVALID),
    (errors.JobNotFoundError, Kind.NOT_FOUND),
    (errors.ScheduleNotFoundError, Kind.NOT_FOUND),
    (errors.ChainNotFoundError, Kind.NOT_FOUND),
    (errors.ChainClosedError, Kind.CONFLICT),
    (errors.BlockerReferenceError, Kind.CONFLICT),
    (errors.JobNotKeptError, Kind.NOT_KEPT),
)
"""What callers cause; the first that fits counts, and the error's own words are the detail."""
_OURS: tuple[tuple[type[Exception], Kind, str], ...] = (
    (
        errors.OutcomeUnknownError,
        Kind.UNKNOWN_OUTCOME,
        "the connection to the database was lost, and the call may have happened; look, or send it"
        " again with the same Idempotency-Key",
    ),
    (
        errors.StoreError,
        Kind.UNAVAILABLE,
        "the database cannot be reached or is busy, and nothing was done; send the request again",
    ),
)
"""What the database causes. What it says of itself is for the log."""
_HTTP = {
    404: (Kind.NOT_FOUND, "nothing is served at this address; /v1/openapi.json lists what is"),
    405: (Kind.METHOD, "this address is served, but not with this method; see the header Allow"),
    413: (Kind.TOO_LARGE, "the body is larger than this address takes"),
}
"""What Litestar finds wrong before one of our routes is reached."""


_REFUSALS: dict[int, tuple[Kind, dict[str, str]]] = {
    401: (Kind.UNAUTHENTICATED, {"WWW-Authenticate": "Bearer"}),
    403: (Kind.FORBIDDEN, {}),
    429: (Kind.TOO_MANY, {}),
    503: (Kind.UNAVAILABLE, _SOON),
}
"""What every surface of the server refuses, by the status that it has in HTTP."""


def refusal(error: Exception) -> Refused | None:
    """What a caller is told of an error; None if it is our own fault."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, Refusal):
        kind, headers = _REFUSALS[error.status]
        if isinstance(error, TooManyCalls):
            headers = {"Retry-After": str(math.ceil(error.retry_after))}
        return Refused(kind, str(error), headers=headers)
    for cause, kind in _KINDS:
        if isinstance(error, cause):
            return Refused(kind, str(error), field=getattr(error, "field", None))
    for cause, kind, words in _OURS:
        if isinstance(error, cause):
            return Refused(kind, words, headers=_SOON)
    if isinstance(error, HTTPException) and error.status_code < 500:
        kind, words = _HTTP.get(error.status_code, (Kind.INVALID, "the request is not valid HTTP"))
        allow = (error.headers or {}).get("allow")
        return Refused(kind, words, headers={"Allow": allow} if allow else None)
    return None


def answer(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """The response to a request that raised."""
    if isinstance(error, Gone):
        return Response(b"", status_code=499)
    found = refusal(error)
    if found is None or found.kind.status >= 500:
        level = logging.ERROR if found is None else logging.WARNING
        _logger.log(level, "%s %s failed", request.method, request.url.path, exc_info=error)
    if found is None:
        found = Refused(Kind.INTERNAL, "the server's log says more; nothing is known of the call")
    return response(found)


def response(refused: Refused) -> Response[bytes]:
    kind = refused.kind
    problem = Problem(
        type=kind.type,
        title=kind.title,
        status=kind.status,
        detail=refused.detail,
        field=refused.field,
    )
    return Response(
        msgspec.json.encode(problem),
        status_code=kind.status,
        media_type=MEDIA_TYPE,
        headers=refused.headers,
    )
