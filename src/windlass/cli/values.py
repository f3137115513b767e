"""Values typed on a command line: instants, lengths of time and JSON."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

import click

from windlass.clock import SYSTEM, to_datetime
from windlass.errors import DurationError, InstantError, ValidationError
from windlass.model import names, payload

_RELATIVE = re.compile(r"\+(\d+(?:\.\d+)?)([smhd])")
_LENGTH = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def parse_instant(text: str, field: str = "run_at") -> datetime:
    """`2030-01-31T12:00:00Z`, `…+02:00`, or `+90s`, `+5m`, `+2h`, `+3d` from now."""
    if match := _RELATIVE.fullmatch(text.strip()):
        amount, unit = match.groups()
        try:
            instant = to_datetime(SYSTEM.now()) + timedelta(**{_UNITS[unit]: float(amount)})
        except OverflowError:
            raise InstantError(f"{field} {text!r} is too far away", field=field) from None
    else:
        try:
            instant = datetime.fromisoformat(text.strip())
        except ValueError:
            raise InstantError(
                f"{field} {text!r} is not an instant; write 2030-01-31T12:00:00Z, or +90s, +5m,"
                " +2h, +3d from now",
                field=field,
            ) from None
    if instant.utcoffset() is None:
        raise InstantError(
            f"{field} {text!r} has no time zone; add one, as in {text.strip()}Z or"
            f" {text.strip()}+02:00",
            field=field,
        )
    names.check_instant(instant, field)
    return instant


def instant_option(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> datetime | None:
    """The callback of an option that is an instant; what cannot be read is wrong usage."""
    try:
        return None if value is None else parse_instant(value)
    except ValidationError as error:
        raise click.BadParameter(str(error), ctx, param) from None


def parse_seconds(text: str, field: str) -> float:
    """`90`, `90s`, `5m`, `2h` or `3d`, in seconds."""
    match = _LENGTH.fullmatch(text.strip())
    if match is None and _LENGTH.fullmatch(text.strip().removeprefix("-")):
        raise DurationError(f"{field} must be at least 0, not {text}", field=field)
    if match is None:
        raise DurationError(
            f"{field} {text!r} is not a length of time; write seconds, or 90s, 5m, 2h, 3d",
            field=field,
        )
    amount, unit = match.groups()
    try:
        length = timedelta(**{_UNITS[unit or "s"]: float(amount)})
    except OverflowError:
        raise DurationError(f"{field} {text!r} is too long", field=field) from None
    return length.total_seconds()


def seconds_option(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """The callback of an option that is a length of time."""
    try:
        return None if value is None else parse_seconds(value, param.name or "")
    except ValidationError as error:
        raise click.BadParameter(str(error), ctx, param) from None


def json_argument(ctx: click.Context, param: click.Parameter, value: str | None) -> Any:
    """The callback of an argument that is JSON; None where it was left out."""
    try:
        return None if value is None else payload.decode(value, field=param.name or "payload")
    except ValidationError as error:
        message = f"""{error}; quote it for the shell, as in '{{"id": 7}}' or '"text"'"""
        raise click.BadParameter(message, ctx, param) from None
