"""Chains in a plan: who starts them, what their jobs go on with, who waits for them, and what
operators do to them.

They have a chance of their own, so that a seed without chains is the same run with this file and
without it.
"""

from __future__ import annotations

import random
from typing import Any

from tests.simulation.plan import (
    CHAOS,
    OPERATOR,
    PRODUCER,
    QUEUES,
    TENANT,
    Act,
    Action,
    Fault,
    FaultKind,
)

CHAIN_KEYS = ("c0", "c1")
OPERATIONS = (
    "complete_chain",
    "complete_chain",
    "cancel_chains",
    "cancel_chains",
    "retry_chains",
    "retry_chains",
    "retry_chains",
    "delete_chains",
)
_SECONDS = (0.0, 0.05, 0.3, 0.8)
_CHOICES = ("fail", "fail", "run", "wait")
_DEEPEST = 3
"""How many acts that go on may be inside one another."""


class ChainMaker:
    """The part of a plan that is about chains; `n` is the number of its first request."""

    def __init__(self, seed: int, n: int) -> None:
        self._chance = random.Random(seed * 1_000_003 + 17)
        self._requests = n

    def make(self) -> tuple[list[Action], list[Fault]]:
        chance = self._chance
        if chance.random() < 0.45:
            return [], []
        actions = [self._start() for _ in range(chance.randint(1, 6))]
        actions += [self._add() for _ in range(chance.randint(0, 4))]
        if chance.random() < 0.6:
            actions += [self._operate() for _ in range(chance.randint(1, 5))]
        return actions, [self._fault() for _ in range(chance.choice((0, 0, 1, 3)))]

    def _at(self, first: float = 0.0, last: float = CHAOS) -> float:
        return round(self._chance.uniform(first, last), 2)

    def _fault(self) -> Fault:
        chance = self._chance
        verb = chance.choice(("start_chains", "enqueue", *OPERATIONS))
        actor = PRODUCER if verb in ("start_chains", "enqueue") else OPERATOR
        kind: FaultKind = chance.choice(("refused", "request lost", "answer lost", "late", "slow"))
        seconds = 0.0 if kind == "refused" else chance.choice((0.05, 0.5, 1.5))
        return Fault(actor, verb, chance.randint(1, 4), kind, seconds)

    # ── what is added ──

    def _start(self) -> Action:
        """A chain, which may wait for others that are there by then."""
        chance = self._chance
        what = self._job(0)
        if chance.random() < 0.35:
            what["key"] = chance.choice(CHAIN_KEYS)
            if chance.random() < 0.3:
                what["key_window"] = chance.choice((1.0, 5.0))
        if chance.random() < 0.3:
            what |= self._waits()
        return Action(self._at(0, CHAOS * 0.8), "start_chain", what)

    def _add(self) -> Action:
        """A job that waits for chains that are there by then."""
        chance = self._chance
        what = self._job(1) | self._waits()
        if chance.random() < 0.2:
            what["key"] = chance.choice(("k0", "k1"))
        return Action(self._at(0.2), "add", what)

    def _waits(self) -> dict[str, Any]:
        """The chains are picked from those that were ever there."""
        chance = self._chance
        picks = [round(chance.random(), 3) for _ in range(chance.choice((1, 1, 2, 3)))]
        return {"blockers": picks, "on_blocker_failure": chance.choice(_CHOICES)}

    def _job(self, depth: int) -> dict[str, Any]:
        chance = self._chance
        self._requests += 1
        task = chance.choice(("plain", "plain", "thread"))
        what: dict[str, Any] = {"n": self._requests, "task": task, "acts": self._acts(depth)}
        if chance.random() < 0.2:
            what["queue"] = chance.choice(QUEUES)
        if chance.random() < 0.15:
            what["tenant"] = TENANT
        if chance.random() < 0.15:
            what["delay"] = chance.choice((0.3, 1.0))
        if chance.random() < 0.2:
            what["keep"] = chance.choice((2.0, 600.0))
        if chance.random() < 0.3:
            what["max_attempts"] = chance.choice((1, 2))
        return what

    # ── what handlers do ──

    def _acts(self, depth: int) -> list[Act]:
        """One act for each delivery; the last holds for all that follow."""
        chance = self._chance
        first: list[Act] = []
        if chance.random() < 0.3:
            word = chance.choice(("raise", "abandon", "return"))
            first = [[word, chance.choice(_SECONDS), 0.0]]
        return [*first, self._act(depth)]

    def _act(self, depth: int) -> Act:
        chance = self._chance
        seconds = chance.choice(_SECONDS)
        words = ["return", "return", "raise"]
        if depth < _DEEPEST:
            words += ["go_on", "go_on", "fan", "fan", "spawn", "commit_on", "loop", "begin_inside"]
        word = chance.choice(words)
        match word:
            case "go_on" | "commit_on":
                return [word, seconds, 0.0, self._next(depth + 1)]
            case "fan":
                children = [self._acts(depth + 2) for _ in range(chance.randint(1, 3))]
                return [word, seconds, 0.0, self._next(depth + 1) | {"children": children}]
            case "spawn":
                return [word, seconds, 0.0, self._spawned(depth)]
            case "loop":
                return [word, min(seconds, 0.05), 0.0, chance.randint(1, 5)]
            case "begin_inside":
                return [word, seconds, 0.0, {"acts": self._acts(depth + 1)}]
        return [word, seconds, 0.0]

    def _next(self, depth: int) -> dict[str, Any]:
        chance = self._chance
        what: dict[str, Any] = {
            "task": chance.choice(("plain", "plain", "thread")),
            "acts": self._acts(depth),
        }
        if chance.random() < 0.2:
            what["delay"] = chance.choice((0.3, 1.0))
        if chance.random() < 0.15:
            what["queue"] = chance.choice(QUEUES)
        if chance.random() < 0.25:
            what |= self._waits()
        elif chance.random() < 0.3:
            what["on_blocker_failure"] = chance.choice(_CHOICES)
        return what

    def _spawned(self, depth: int) -> dict[str, Any]:
        """Chains that start when the delivery completes; the key may be that of their parent."""
        chance = self._chance
        what: dict[str, Any] = {"children": [self._acts(depth + 1)]}
        if chance.random() < 0.5:
            what["key"] = chance.choice(CHAIN_KEYS)
        return what

    # ── operators ──

    def _operate(self) -> Action:
        chance = self._chance
        do = chance.choice(OPERATIONS)
        what: dict[str, Any] = {"pick": round(chance.random(), 3)}
        if do == "complete_chain" and chance.random() < 0.4:
            what["then"] = self._next(_DEEPEST)
        elif do != "complete_chain" and chance.random() < 0.3:
            what["also"] = round(chance.random(), 3)
        if do == "delete_chains":
            what["cascade"] = chance.random() < 0.4
        return Action(self._at(0.5), do, what)
