"""A chain as a tree: below it its jobs, below a job the chains it waits for or waited for.

chain 7  charge  open, 2 jobs, key order-7
├─ 1 job is not stored any more
└─ job 9  step 1  ship {"order":7}  blocked, waits for 1 of 2 chains
   ├─ chain 3  resize  completed, 1 job → {"width":100}
   └─ chain 5  resize  failed, 1 job: ValueError: no such file
      └─ job 5  step 0  resize {"file":"b"}  failed, attempt 3 of 3: ValueError: no such file
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from windlass.cli.output import instant, plural, styled_state
from windlass.client.chain_trees import ChainNode, JobNode, Tree, is_deleted
from windlass.model.chain import ChainState
from windlass.model.job import Job, JobState

T = TypeVar("T")

_MOST_WAITING = 20
"""Jobs that are named of those that wait for the chain."""
_LONGEST_TEXT = 100
"""Of an error, an output or a payload; `chains show --json` has all of it."""


def draw(tree: Tree) -> Iterator[str]:
    """The lines of a tree, and one that says which jobs wait for it."""
    yield from _chain(tree, "", "")
    if waiting := tree.waiting:
        named = ", ".join(str(job.id) for job in waiting[:_MOST_WAITING])
        more = f" and {len(waiting) - _MOST_WAITING} more" if len(waiting) > _MOST_WAITING else ""
        verb = "waits" if len(waiting) == 1 else "wait"
        yield f"{plural(len(waiting), 'job')} {verb} for it: {named}{more}"


def _chain(node: ChainNode, first: str, rest: str) -> Iterator[str]:
    """`first` is what its own line begins with, `rest` what those below do."""
    yield first + _chain_line(node)
    children: list[str | JobNode] = [*node.jobs]
    if gone := _gone(node):
        children.insert(0, gone)
    for child, own, below in _branches(children, rest):
        if isinstance(child, str):
            yield own + child
        else:
            yield from _job(child, own, below)


def _job(node: JobNode, first: str, rest: str) -> Iterator[str]:
    yield first + _job_line(node.job)
    children: list[str | ChainNode] = [*node.blockers]
    if node.left_off:
        counts = ", ".join(f"{count} {state}" for state, count in sorted(node.left_off.items()))
        children.append(f"… and {plural(sum(node.left_off.values()), 'chain')} more: {counts}")
    for child, own, below in _branches(children, rest):
        if isinstance(child, str):
            yield own + child
        else:
            yield from _chain(child, own, below)


def _branches(children: Sequence[T], rest: str) -> Iterator[tuple[T, str, str]]:
    last = len(children) - 1
    for number, child in enumerate(children):
        is_last = number == last
        yield child, rest + ("└─ " if is_last else "├─ "), rest + ("   " if is_last else "│  ")


def _chain_line(node: ChainNode) -> str:
    chain = node.chain
    if is_deleted(chain):
        return f"chain {chain.id}  deleted"
    facts = [styled_state(chain.state), plural(chain.length, "job")]
    facts += [f"key {chain.key}"] if chain.key else []
    facts += [f"tenant {chain.tenant}"] if chain.tenant else []
    facts += ["shown elsewhere in this tree"] if node.is_repeated else []
    facts += [f"not looked into: windlass chains show {chain.id}"] if node.is_cut else []
    line = f"chain {chain.id}  {chain.task}  {', '.join(facts)}"
    if chain.state is ChainState.COMPLETED and chain.output is not None:
        return f"{line} → {_json(chain.output)}"
    return line + _error(chain.error if chain.state is ChainState.FAILED else None)


def _job_line(job: Job) -> str:
    facts = [styled_state(job.state)]
    match job.state:
        case JobState.BLOCKED:
            chains = plural(job.blockers_total, "chain")
            facts.append(f"waits for {job.blockers_open} of {chains}")
        case JobState.SCHEDULED:
            facts.append(f"due at {instant(job.run_at)}")
        case JobState.RUNNING:
            facts.append(f"on {job.locked_by}")
    if job.attempts and job.state is not JobState.COMPLETED:
        facts.append(f"attempt {job.attempts} of {job.max_attempts}")
    is_over = job.state is JobState.COMPLETED
    payload = "" if is_over or not job.payload else f" {_json(job.payload)}"
    line = f"job {job.id}  step {job.step}  {job.task}{payload}  {', '.join(facts)}"
    return line + _error(None if is_over else job.last_error)


def _error(text: str | None) -> str:
    if not text:
        return ""
    return ": " + _cut(text.strip().split("\n", 1)[0])


def _json(value: Any) -> str:
    return _cut(msgspec.json.encode(value).decode())


def _cut(line: str) -> str:
    return line if len(line) <= _LONGEST_TEXT else line[: _LONGEST_TEXT - 1] + "…"


def _gone(node: ChainNode) -> str:
    """What is said of jobs that were deleted: that completed ones are is no news."""
    is_news = bool(node.jobs) or node.chain.state is not ChainState.COMPLETED
    if node.is_cut or node.is_repeated or is_deleted(node.chain) or not is_news:
        return ""
    count = node.chain.length - len(node.jobs)
    if count <= 0:
        return ""
    verb = "is" if count == 1 else "are"
    return f"{plural(count, 'job')} {verb} not stored any more"
