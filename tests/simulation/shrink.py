"""Makes a plan that fails as short as it can be and still fail the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from msgspec.structs import replace

from tests.simulation.plan import Action, Fault, Settings, SimulationPlan

Event = Action | Fault
Fails = Callable[[SimulationPlan], bool]


def shrink(plan: SimulationPlan, fails: Fails, *, most: int = 600) -> SimulationPlan:
    """The shortest plan found in at most `most` runs; `fails` says whether one still does.

    Events go first, in halves, quarters and so on down to single ones (delta debugging), then what
    the settings ask for beyond the simplest, then the options and acts of single jobs; and all
    again until nothing more can go.
    """
    return _Shrinker(plan, fails, most).shrink()


class _Shrinker:
    def __init__(self, plan: SimulationPlan, fails: Fails, most: int) -> None:
        self._plan = plan
        self._fails = fails
        self._left = most

    def shrink(self) -> SimulationPlan:
        while True:
            before = self._plan
            self._drop_events()
            for smaller in self._smaller_settings():
                self._try(smaller)
            self._simplify_actions()
            if self._plan == before or self._left <= 0:
                return self._plan

    def _try(self, plan: SimulationPlan) -> bool:
        if plan == self._plan or self._left <= 0:
            return False
        self._left -= 1
        if not self._fails(plan):
            return False
        self._plan = plan
        return True

    def _drop_events(self) -> None:
        events = list(self._plan.events)
        size = max(1, len(events) // 2)
        while self._left > 0:
            start = 0
            while start < len(events):
                rest = events[:start] + events[start + size :]
                if self._try(self._plan.with_events(rest)):
                    events = rest
                else:
                    start += size
            if size == 1:
                return
            size = max(1, size // 2)

    def _smaller_settings(self) -> Iterator[SimulationPlan]:
        simplest = Settings()
        for name in Settings.__struct_fields__:
            plain = {name: getattr(simplest, name)}
            yield replace(self._plan, settings=replace(self._plan.settings, **plain))
        settings = self._plan.settings
        for name, fewer in (("workers", 2), ("slots", 1)):
            if getattr(settings, name) > fewer:
                yield replace(self._plan, settings=replace(self._plan.settings, **{name: fewer}))

    def _simplify_actions(self) -> None:
        for index in range(len(self._plan.actions)):
            while any(
                self._try_what(index, what) for what in _simpler(self._plan.actions[index].what)
            ):
                pass

    def _try_what(self, index: int, what: dict[str, Any]) -> bool:
        actions = list(self._plan.actions)
        actions[index] = replace(actions[index], what=what)
        return self._try(replace(self._plan, actions=tuple(actions)))


_OPTIONS = (
    *("key_mode", "key_window", "key", "queue", "tenant", "priority", "flags", "delay", "keep"),
    *("max_attempts", "blockers", "on_blocker_failure", "also", "then", "cascade"),
)


def _simpler(what: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The arguments of an action, each time with one thing less."""
    for option in _OPTIONS:
        if option in what:
            yield {name: value for name, value in what.items() if name != option}
    acts = what.get("acts", ())
    if len(acts) > 1:  # the last one stays: it is made to end the job
        for index in range(len(acts) - 1):
            yield {**what, "acts": [*acts[:index], *acts[index + 1 :]]}
