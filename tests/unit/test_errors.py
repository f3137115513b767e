"""Errors that a store hands to each of several callers."""

from __future__ import annotations

from copy import copy

import pytest

from windlass.errors import (
    BlockerReferenceError,
    ChainClosedError,
    ChainNotFoundError,
    PayloadError,
    StoreBusyError,
    WindlassError,
)


@pytest.mark.parametrize(
    "error",
    [
        StoreBusyError("busy"),
        PayloadError("not JSON", field="payload"),
        ChainNotFoundError([7, 8]),
        ChainClosedError("over"),
        BlockerReferenceError("jobs wait for it", [1, 2]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_copy_says_the_same_and_has_no_traceback(error: WindlassError) -> None:
    try:
        raise error
    except WindlassError as raised:
        twin = copy(raised)
    assert (type(twin), twin.args, vars(twin)) == (type(error), error.args, vars(error))
    assert twin is not error and twin.__traceback__ is None
