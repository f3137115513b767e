"""Options about the chains that a job waits for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from windlass.model.names import ON_BLOCKER_FAILURE


def blocker_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command --blocker and --on-blocker-failure."""
    with_choice = click.option(
        "--on-blocker-failure",
        type=click.Choice(ON_BLOCKER_FAILURE),
        help="What it does when such a chain fails or is cancelled: fail too, run all the same, or"
        " wait until that chain is retried.  [default: fail]",
    )(function)
    return click.option(
        "--blocker",
        "blockers",
        type=click.IntRange(1),
        metavar="ID",
        multiple=True,
        help="Wait for this chain to end; may be repeated.",
    )(with_choice)
