"""`windlass chains`: look at chains and change them.

looking   list, and show: a chain as a tree
drawing   the tree, line by line
changing  complete, cancel, retry, delete
"""

from __future__ import annotations

import click

from windlass.cli.base import ExitCodes
from windlass.cli.chains.changing import cancel, complete, delete, retry
from windlass.cli.chains.looking import list_chains, show


class Group(ExitCodes, click.Group):
    """A group with examples in its help."""


@click.group(
    cls=Group,
    examples=(
        "windlass chains list --state failed",
        "windlass chains show 7",
        "windlass chains retry 7",
    ),
)
def chains() -> None:
    """List, show and change chains: jobs that continue one another."""


for command in (list_chains, show, complete, cancel, retry, delete):
    chains.add_command(command)
