"""What a mutant is: the memory store with its smallest piece changed, and cases that must notice.

A mutant that no case kills would mean that the suite allows what the mutant's name says.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from windlass.stores.memory import MemoryStore


@dataclass(frozen=True)
class Mutant:
    """A wrong store, and cases that must fail on it."""

    name: str
    store: type[MemoryStore]
    killers: tuple[str, ...]


MUTANTS: list[Mutant] = []


def killed_by(*killers: str) -> Callable[[type[MemoryStore]], type[MemoryStore]]:
    """Register a mutant; its name is the class's, in words."""

    def register(store: type[MemoryStore]) -> type[MemoryStore]:
        name = re.sub("(?<!^)([A-Z])", r" \1", store.__name__).lower()
        MUTANTS.append(Mutant(name, store, killers))
        return store

    return register
