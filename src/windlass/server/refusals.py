"""Why a call is refused before anything is done: one class each, the same for REST and streams."""

from __future__ import annotations

from windlass.errors import WindlassError


class Refusal(WindlassError):
    """Raised when the server does not do what a caller asks; the text is for the caller, and never
    quotes a token."""

    status = 403
    """Of an HTTP answer."""
    code = "PERMISSION_DENIED"
    """The name of the gRPC status."""


class Unauthenticated(Refusal):
    """Raised when a caller shows no token, or one that is not good (any more)."""

    status = 401
    code = "UNAUTHENTICATED"


class Forbidden(Refusal):
    """Raised when the caller is known, and may not do this."""


class TooManyCalls(Refusal):
    """Raised when a caller is past its rate; `retry_after` are seconds, more than 0."""

    status = 429
    code = "RESOURCE_EXHAUSTED"

    def __init__(self, retry_after: float) -> None:
        super().__init__(f"this token makes too many calls; wait {retry_after:.3g} s")
        self.retry_after = retry_after


class Unavailable(Refusal):
    """Raised when what the answer needs is away: the keys of an issuer, or a server that drains."""

    status = 503
    code = "UNAVAILABLE"
