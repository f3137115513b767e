"""What a caller elsewhere is told of an error.

What is wrong with its call is told as it is. What went wrong with the database is told as the same
class of error, in words that name no host, file or statement of the server; its log has them.
"""

from __future__ import annotations

import logging

import msgspec

from windlass.errors import (
    OutcomeUnknownError,
    SchemaTooNewError,
    StoreBusyError,
    StoreClosedError,
    StoreError,
    StoreUnavailableError,
    ValidationError,
    WindlassError,
)
from windlass.wire.failures import write_fields
from windlass.wire.windlass_pb2 import Answer

_log = logging.getLogger("windlass.server")


class Refused(StoreError):
    """What this package itself has to say to a caller."""


class Stopping(StoreUnavailableError):
    """The server takes outcomes, and hands out nothing any more."""


def answer_of(number: int, verb: str, error: Exception) -> Answer:
    told = _told(verb, error)
    return Answer(
        number=number,
        error=type(told).__name__,
        message=str(told),
        fields=write_fields(told),
    )


def _told(verb: str, error: Exception) -> WindlassError:
    match error:
        case Refused():
            return StoreError(*error.args)
        case Stopping():
            return StoreUnavailableError(*error.args, is_temporary=True)
        case msgspec.MsgspecError():
            return ValidationError(f"{verb} cannot be called so: {error}", field="arguments")
        case OutcomeUnknownError():
            _log.warning("%s: %s", verb, error)
            return OutcomeUnknownError(
                "the server lost its database in the middle of a call; it may have happened"
            )
        case StoreClosedError():
            return StoreUnavailableError("the server is stopping", is_temporary=True)
        case StoreUnavailableError() if error.is_temporary or type(error) is StoreUnavailableError:
            _log.warning("%s: %s", verb, error)
            return StoreUnavailableError(
                "the server's database does not answer; the server's log says why",
                is_temporary=True,
            )
        case StoreBusyError():
            return StoreBusyError("other transactions hold the server's database; ask again")
        case SchemaTooNewError() | StoreError():
            _log.error("%s: %s", verb, error)
            return StoreError(f"the server's database refused {verb}; the server's log says why")
        case WindlassError():
            return error
        case _:
            _log.error("%s met an error", verb, exc_info=error)
            return StoreError(
                f"the server met an error in {verb}; its log says more. The call may or may not"
                " have happened"
            )
