"""The Python client with values of every kind: one refusal that names the field, nothing stored,
and the same answer from each store."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.kit import Site, fuzz, same_everywhere
from tests.fuzz.values import floats, instants, integers, made, payloads, spans, texts, values
from windlass import JobSpec, Next

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Do not use the `random` module"),
]
"""The workers beside use it, in threads of their own, while values are drawn."""

OPTIONS: dict[str, st.SearchStrategy[Any]] = {
    "queue": texts | values,
    "run_at": instants | values,
    "delay": spans | floats | integers | values,
    "max_attempts": integers | values,
    "key": texts | values,
    "key_mode": texts | values,
    "priority": integers | values,
    "flags": st.lists(texts, max_size=3) | values,
    "keep": spans | floats | values,
    "strict": st.booleans() | values,
    "blockers": st.lists(integers | values, max_size=3) | values,
    "on_blocker_failure": st.sampled_from(["fail", "run", "wait"]) | texts | values,
    "key_window": spans | floats | integers | values,
}


def some(options: dict[str, st.SearchStrategy[Any]], most: int = 2) -> st.SearchStrategy[Any]:
    """One or two odd options at a time, so that each of them meets its own check."""

    def drawn(names: list[str]) -> st.SearchStrategy[dict[str, Any]]:
        return st.fixed_dictionaries({name: options[name] for name in names})

    return st.lists(st.sampled_from(sorted(options)), max_size=most, unique=True).flatmap(drawn)


specs = st.builds(
    lambda task, payload, options: JobSpec(task=task, payload=payload, **options),
    st.just("t") | values,
    st.none() | payloads,
    some(OPTIONS),
)


def test_add_job(sites: list[Site]) -> None:
    @fuzz()
    @given(st.just("t") | values, payloads, some(OPTIONS))
    def check(task: Any, payload: Any, options: dict[str, Any]) -> None:
        same_everywhere(
            sites, lambda site: site.app.client.add_job(made(task), made(payload), **made(options))
        )

    check()


def test_add_jobs(sites: list[Site]) -> None:
    @fuzz()
    @given(st.lists(specs, max_size=3) | st.lists(specs | values, max_size=3) | values)
    def check(given_specs: Any) -> None:
        same_everywhere(sites, lambda site: site.app.client.add_jobs(made(given_specs)))

    check()


def test_start_chains(sites: list[Site]) -> None:
    @fuzz()
    @given(st.lists(specs, max_size=3) | st.lists(specs | values, max_size=3) | values)
    def check(given_specs: Any) -> None:
        same_everywhere(sites, lambda site: site.app.client.start_chains(made(given_specs)))

    check()


def test_a_task_handle(sites: list[Site]) -> None:
    @fuzz()
    @given(
        st.lists(payloads, max_size=2),
        st.dictionaries(st.sampled_from(["number", "text", "rows", "other"]), payloads, max_size=2),
        some(OPTIONS),
    )
    def check(args: list[Any], kwargs: dict[str, Any], options: dict[str, Any]) -> None:
        same_everywhere(
            sites,
            lambda site: site.typed.using(**made(options)).aenqueue(*made(args), **made(kwargs)),
        )

    check()


def test_a_client_of_one_tenant(sites: list[Site]) -> None:
    @fuzz()
    @given(texts | values, some(OPTIONS, most=1))
    def check(tenant: Any, options: dict[str, Any]) -> None:
        same_everywhere(
            sites,
            lambda site: site.app.client.for_tenant(made(tenant)).add_job("t", **made(options)),
        )

    check()


def test_many_of_a_task_handle(sites: list[Site]) -> None:
    @fuzz()
    @given(st.lists(payloads, max_size=3) | values)
    def check(many: Any) -> None:
        same_everywhere(sites, lambda site: site.typed.aenqueue_many(made(many)))

    check()


ids = st.lists(integers | values, max_size=3) | values
nexts = st.builds(
    lambda task, payload, options: Next(task, payload, **options),
    st.just("t") | values,
    st.none() | payloads,
    some({name: it for name, it in OPTIONS.items() if name in Next.__struct_fields__}),
)
VERBS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "get_job": {"id": integers | values, "key": texts | values},
    "list_jobs": {
        "state": st.lists(texts | values, max_size=2) | values,
        "task": values,
        "queue": values,
        "key": values,
        "ids": ids,
        "after": integers | values,
        "limit": integers | values,
    },
    "wait_for": {"id": integers | values, "timeout": st.just(0) | spans | floats | values},
    "remove_job": {"key": texts | values},
    "complete_jobs": {"ids": ids},
    "permanently_fail_jobs": {"ids": ids, "reason": texts | values},
    "reschedule_jobs": {
        "ids": ids,
        "run_at": instants | values,
        "priority": integers | values,
        "attempts": integers | values,
        "max_attempts": integers | values,
    },
    "retry_jobs": {"ids": ids},
    "cancel_jobs": {"ids": ids},
    "force_unlock_workers": {"ids": st.lists(texts | values, max_size=3) | values},
    "pause": {"task": texts | values, "queue": texts | values},
    "resume": {"task": texts | values, "queue": texts | values},
    "pause_schedule": {"id": texts | values},
    "resume_schedule": {"id": texts | values},
    "remove_schedule": {"id": texts | values},
    "trigger_schedule": {"id": texts | values},
    "start_chain": {"task": st.just("t") | values, "payload": payloads, **OPTIONS},
    "get_chain": {"id": integers | values},
    "list_chains": {
        "state": st.lists(st.sampled_from(["open", "failed"]) | values, max_size=2) | values,
        "task": values,
        "limit": integers | values,
        "after": integers | values,
    },
    "chain_jobs": {"id": integers | values},
    "blocked_jobs": {"id": integers | values},
    "blockers": {"id": integers | values},
    "wait_for_chain": {"id": integers | values, "timeout": st.just(0) | spans | values},
    "complete_chain": {
        "id": integers | values,
        "output": payloads | values,
        "then": nexts | values,
    },
    "cancel_chains": {"ids": ids},
    "retry_chains": {"ids": ids},
    "delete_chains": {"ids": ids, "cascade": st.booleans() | values},
}
NEEDED = {
    "wait_for": "id",
    "remove_job": "key",
    "pause": "task",
    "resume": "task",
    "start_chain": "task",
    "blockers": "id",
    **dict.fromkeys(("get_chain", "chain_jobs", "blocked_jobs"), "id"),
    **dict.fromkeys(("wait_for_chain", "complete_chain"), "id"),
    **dict.fromkeys(("cancel_chains", "retry_chains", "delete_chains"), "ids"),
    **{
        name: "id" if name.endswith("schedule") else "ids"
        for name, words in VERBS.items()
        if "ids" in words or name.endswith("schedule")
        if "limit" not in words
    },
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb(sites: list[Site], verb: str) -> None:
    words = VERBS[verb]
    needed = NEEDED.get(verb)
    chosen = some(words)
    if needed is not None:
        chosen = st.builds(lambda one, more: {needed: one, **more}, words[needed], chosen)

    @fuzz(60)
    @given(chosen)
    def check(options: dict[str, Any]) -> None:
        same_everywhere(sites, lambda site: getattr(site.app.client, verb)(**made(options)))

    check()


def test_cleanup(sites: list[Site]) -> None:
    @fuzz(40)
    @given(st.lists(st.sampled_from(["prune", "gc-tasks"]) | values, max_size=2))
    def check(names: list[Any]) -> None:
        same_everywhere(sites, lambda site: site.app.client.cleanup(*made(names)))

    check()
