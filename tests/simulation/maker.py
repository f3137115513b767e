"""The plan of a seed: what happens in a run is drawn by chance, the same for the same seed."""

from __future__ import annotations

import random
from typing import Any

from tests.simulation.chain_plan import ChainMaker
from tests.simulation.plan import (
    CHAOS,
    FLAGS,
    KEYS,
    OPERATOR,
    PRODUCER,
    QUEUES,
    TENANT,
    WORKERS,
    Act,
    Action,
    Fault,
    FaultKind,
    Settings,
    SimulationPlan,
)

HOSTILE_PAYLOADS = True
"""Whether jobs may have payloads that cannot be decoded."""


def make_plan(seed: int) -> SimulationPlan:
    """The plan of a seed."""
    return _Maker(seed).make()


_WAITS = (0.01, 0.05, 0.2, 0.5, 0.8, 1.1, 1.6, 2.5, 4.0)
_JUMPS = (3600.0, -3600.0, 3600.0, -3600.0, 90.0, -90.0, 7.0, -7.0, 0.5)

# How often a verb is called in a run, more or less: faults of later calls would never happen.
_WORKER_VERBS = {
    "claim": 25,
    "settle": 15,
    "check": 16,
    "renew": 10,
    "begin": 3,
    "commit": 3,
    "enqueue": 3,
    "note": 3,
    "reap": 8,
    "promote": 5,
    "next_due": 15,
    "prune": 3,
    "retire": 1,
    "get": 2,
    "now": 4,
    "register": 2,
    "fire": 2,
    "introduce": 2,
    "stranded": 2,
    "note_rates": 2,
}
_OPERATIONS = (
    "cancel",
    "cancel",
    "retry",
    "reschedule",
    "fail",
    "complete",
    "unlock",
    "pause",
    "resume",
    "remove",
    "delete_failed",
    "pause_schedule",
    "resume_schedule",
)


class _Maker:
    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._chance = random.Random(seed)
        self._requests = 0
        # Some runs are about the keeper: its calls are slow while jobs go back and come again.
        self._is_about_keeper = self._chance.random() < 0.3

    def make(self) -> SimulationPlan:
        chance = self._chance
        settings = Settings(
            workers=chance.choice((1, 1, 2) if self._is_about_keeper else (1, 2, 2, 3)),
            slots=chance.choice((1, 2, 2, 3)),
            delay=chance.choice((0.0, 0.002, 0.02)),
            prefetch=chance.choice((None, None, 0)),
            is_deaf=chance.random() < 0.15,
            listens=chance.random() < 0.4,
            logs_info=chance.random() < 0.2,
            begins_at=round(chance.uniform(0, 60), 1),
            has_schedule=chance.random() < 0.3,
            forbids=chance.random() < 0.2,
            divides=chance.random() < 0.2,
        )
        self._workers = WORKERS[: settings.workers]
        actions = [self._add() for _ in range(chance.randint(4, 14))]
        if chance.random() < 0.5:
            actions += [self._operate() for _ in range(chance.randint(1, 5))]
        if chance.random() < 0.45:
            actions += self._deaths()
        if chance.random() < 0.35:
            actions += [self._jump() for _ in range(chance.randint(1, 2))]
        if chance.random() < 0.2:
            actions += self._cut_off()
        if chance.random() < 0.1:
            actions.append(self._poisonous())
        of_chains, more = ChainMaker(self._seed, self._requests).make()
        actions += of_chains
        actions.sort(key=lambda action: action.at)
        counts = (8, 16) if self._is_about_keeper else (0, 3, 8, 20)
        faults = [self._fault() for _ in range(chance.choice(counts))]
        return SimulationPlan(self._seed, settings, tuple(actions), (*faults, *more))

    def _at(self, first: float = 0.0, last: float = CHAOS) -> float:
        return round(self._chance.uniform(first, last), 2)

    # ── jobs ──

    def _add(self) -> Action:
        chance = self._chance
        self._requests += 1
        task = chance.choice(
            ("plain", "plain", "plain", "thread", "thread", "batch", "bare", "timed", "longer")
        )
        what: dict[str, Any] = {"n": self._requests, "task": task, "acts": self._acts(task)}
        if chance.random() < 0.25:
            what["key"] = chance.choice(KEYS)
            what["key_mode"] = chance.choice(
                ("replace", "replace", "preserve_run_at", "unsafe_dedupe")
            )
        if chance.random() < 0.3:
            what["queue"] = chance.choice(QUEUES)
        if chance.random() < 0.25:
            what["tenant"] = TENANT
        if chance.random() < 0.2:
            what["priority"] = chance.choice((-5, 5))
        if chance.random() < 0.15:
            what["flags"] = [chance.choice(FLAGS)]
        if chance.random() < 0.2:
            what["delay"] = chance.choice((0.3, 1.0, 4.0))
        if chance.random() < 0.15:
            what["keep"] = chance.choice((2.0, 600.0))
        if chance.random() < 0.2:
            what["max_attempts"] = chance.choice((1, 2))
        if chance.random() < 0.05 and HOSTILE_PAYLOADS:
            what["is_hostile"] = True
        return Action(self._at(0, CHAOS * 0.8), "add", what)

    def _acts(self, task: str) -> list[Act]:
        """One act for each delivery; the last holds for all that follow."""
        chance = self._chance
        acts: list[Act] = []
        while chance.random() < (0.7 if self._is_about_keeper else 0.45) and len(acts) < 3:
            acts.append(self._act(task, last=False))
        return [*acts, self._act(task, last=True)]

    def _act(self, task: str, *, last: bool) -> Act:
        chance = self._chance
        seconds = chance.choice((0.0, 0.05, 0.3, 0.8, 1.5, 3.0))
        if task == "batch":
            return ["items", [chance.random() < (0.3 if last else 0.7) for _ in range(3)], seconds]
        if task == "bare":
            return ["return", seconds] if last else [chance.choice(("raise", "poison")), seconds]
        if self._is_about_keeper and not last and chance.random() < 0.6:
            return [chance.choice(("abandon", "nack", "raise")), min(seconds, 0.8), 0.0]
        common = ("return", "return", "raise", "progress", "extend", "add", "transaction")
        if last:
            words: tuple[str, ...] = common if task != "timed" else ("return", "raise")
        else:
            words = (*common, "poison", "retry_after", "nack", "abandon", "abandon")
        if task != "thread":
            words = (*words, "stubborn", "transaction", "transaction", "open_transaction")
        else:
            words = (*words, "polite", "polite")
        if not last:
            words = (*words, "rollback", "cancel_itself")
        return [chance.choice(words), seconds, chance.choice((0.0, 0.1, 0.6))]

    def _poisonous(self) -> Action:
        """A job that kills its worker each time it runs."""
        self._requests += 1
        what = {"n": self._requests, "task": "plain", "acts": [["kill", 0.1]]}
        return Action(self._at(0, CHAOS / 2), "add", what)

    # ── everything else ──

    def _operate(self) -> Action:
        chance = self._chance
        do = chance.choice(_OPERATIONS)
        what: dict[str, Any] = {"pick": round(chance.random(), 3)}
        if do in ("pause", "resume"):
            what |= {"queue": QUEUES[0]} if chance.random() < 0.5 else {"task": "plain"}
        elif do == "remove":
            what |= {"key": chance.choice(KEYS)}
        elif do == "unlock":
            what |= {"worker": chance.choice(self._workers)}
        elif do == "reschedule":
            what |= {"delay": chance.choice((0.0, 1.0)), "attempts": chance.choice((None, 0))}
        return Action(self._at(0.5), do, what)

    def _deaths(self) -> list[Action]:
        chance = self._chance
        actions = []
        for _ in range(chance.randint(1, 2)):
            worker = chance.choice(self._workers)
            at = self._at(0.5)
            do = chance.choice(("kill", "kill", "stop", "hurry"))
            actions.append(Action(at, do, {"worker": worker}))
            if chance.random() < 0.6:
                again = round(at + chance.choice((0.1, 1.0, 3.0)), 2)
                actions.append(Action(again, "start", {"worker": worker}))
        return actions

    def _jump(self) -> Action:
        chance = self._chance
        whose = chance.choice(("database", "database", *self._workers))
        return Action(self._at(0.5), "jump", {"clock": whose, "seconds": chance.choice(_JUMPS)})

    def _cut_off(self) -> list[Action]:
        """A worker is cut off from the database, and may be running a long job then."""
        chance = self._chance
        seconds = chance.choice((1.0, 3.0, 7.0, 9.0, 9.0))
        worker = chance.choice(self._workers)
        at = self._at(1.0, CHAOS * 0.7)
        self._requests += 1
        acts = [["return", 8.0, 0.0], ["return", 0.1, 0.0]]
        long = {"n": self._requests, "task": chance.choice(("plain", "thread")), "acts": acts}
        return [
            Action(round(at - 0.3, 2), "add", long),
            Action(at, "cut", {"worker": worker, "seconds": seconds}),
        ]

    def _fault(self) -> Fault:
        chance = self._chance
        if self._is_about_keeper and chance.random() < 0.7:
            verb = chance.choice(("check", "check", "renew"))
            nth = chance.randint(1, _WORKER_VERBS[verb])
            wait = chance.choice((0.5, 0.8, 1.1, 1.6))
            kind: FaultKind = chance.choice(("slow", "slow", "late"))
            return Fault(chance.choice(self._workers), verb, nth, kind, wait)
        if chance.random() < 0.1:
            actor, verb, nth = PRODUCER, "enqueue", chance.randint(1, 12)
        elif chance.random() < 0.05:
            actor, verb, nth = OPERATOR, chance.choice(_OPERATIONS), 1
        else:
            actor = chance.choice(self._workers)
            # The keeper's and the handlers' own calls are few, and matter most.
            if chance.random() < 0.4:
                verb = chance.choice(("check", "check", "commit", "commit", "begin", "renew"))
            else:
                verb = chance.choice(tuple(_WORKER_VERBS))
            nth = chance.randint(1, _WORKER_VERBS[verb])
        kind = chance.choice(
            ("refused", "request lost", "answer lost", "late", "late", "slow", "slow")
        )
        seconds = 0.0 if kind == "refused" else chance.choice(_WAITS)
        return Fault(actor, verb, nth, kind, seconds)
