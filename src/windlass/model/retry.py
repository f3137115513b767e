"""When a failed attempt is tried again.

A policy is a value: it turns (attempt, error) into a delay in seconds, or None to give up. The
store then decides from the row as it is whether any attempt is left.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from datetime import timedelta

from windlass import errors
from windlass.model.names import LONGEST, check_seconds

Delay = Callable[[int, BaseException], "float | timedelta | None"]
ErrorTypes = type[BaseException] | tuple[type[BaseException], ...]


class Retry:
    """A retry policy. The default waits exp(min(10, attempt)) seconds: 2.7 s, 7.4 s, … 6.1 h.

    `retry_on` limits retries to these exceptions; `give_up_on` fails at once on these. Both take
    a class or a tuple of classes. `jitter` 0.2 spreads each delay by ±20 %.
    """

    __slots__ = ("_delay", "_give_up_on", "_jitter", "_retry_on", "_text")

    def __init__(
        self,
        delay: Delay | None = None,
        *,
        jitter: float = 0.0,
        retry_on: ErrorTypes | None = None,
        give_up_on: ErrorTypes | None = None,
        _text: str = "",
    ) -> None:
        if not 0.0 <= jitter <= 1.0:
            raise errors.ValidationError(
                f"jitter must lie between 0 and 1, not {jitter}", field="jitter"
            )
        self._delay = delay or _default_delay
        self._jitter = jitter
        self._retry_on = retry_on
        self._give_up_on = give_up_on
        self._text = _text or (f"Retry({delay!r})" if delay else "Retry()")

    def __repr__(self) -> str:
        return self._text

    @classmethod
    def exponential(
        cls,
        initial: float | timedelta = 1.0,
        multiplier: float = 2.0,
        maximum: float | timedelta = 3600.0,
        jitter: float = 0.0,
        *,
        retry_on: ErrorTypes | None = None,
        give_up_on: ErrorTypes | None = None,
    ) -> Retry:
        """`initial` seconds, then `multiplier` times longer each attempt, up to `maximum`."""
        first = check_seconds(initial, "initial") or 0.0
        most = check_seconds(maximum, "maximum") or 0.0
        if not math.isfinite(multiplier) or multiplier < 1.0:
            raise errors.ValidationError(
                f"multiplier must be at least 1, not {multiplier}", field="multiplier"
            )

        def delay(attempt: int, error: BaseException) -> float:
            try:
                return min(most, first * multiplier ** (attempt - 1))
            except OverflowError:
                return most

        text = f"Retry.exponential({first:g}, {multiplier:g}, {most:g}, jitter={jitter:g})"
        return cls(delay, jitter=jitter, retry_on=retry_on, give_up_on=give_up_on, _text=text)

    @classmethod
    def fixed(
        cls,
        seconds: float | timedelta,
        jitter: float = 0.0,
        *,
        retry_on: ErrorTypes | None = None,
        give_up_on: ErrorTypes | None = None,
    ) -> Retry:
        """The same delay after every attempt."""
        every = check_seconds(seconds, "seconds") or 0.0
        text = f"Retry.fixed({every:g}, jitter={jitter:g})"
        return cls(
            lambda attempt, error: every,
            jitter=jitter,
            retry_on=retry_on,
            give_up_on=give_up_on,
            _text=text,
        )

    def delay(self, attempt: int, error: BaseException) -> float | None:
        """Seconds until the next attempt after attempt number `attempt`; None gives up."""
        if self._give_up_on is not None and isinstance(error, self._give_up_on):
            return None
        if self._retry_on is not None and not isinstance(error, self._retry_on):
            return None
        wanted = self._delay(attempt, error)
        if wanted is None:
            return None
        seconds = wanted.total_seconds() if isinstance(wanted, timedelta) else float(wanted)
        if self._jitter:
            seconds *= 1.0 + random.uniform(-self._jitter, self._jitter)  # noqa: S311
        if math.isnan(seconds):
            raise ValueError("the retry policy returned NaN")
        return min(max(0.0, seconds), LONGEST)


def _default_delay(attempt: int, error: BaseException) -> float:
    return math.exp(min(10, attempt))


DEFAULT_RETRY = Retry()
