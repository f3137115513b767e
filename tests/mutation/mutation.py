"""One protection, with the smallest change that takes it out and the tests that notice.

A mutation changes one piece of text, which occurs exactly once in its file. A test is named by its
node id; one without parameters stands for all of its variants, of which one must fail.
"""

from __future__ import annotations

from dataclasses import dataclass

SQL = "src/windlass/stores/postgres/sql"
TABLES = "src/windlass/stores/postgres/migrations"
SQLITE = "src/windlass/stores/sqlite"
ENGINE = "src/windlass/engine"

CONTRACT = "tests/contract/test_contract.py::test_contract"
CONTRACT_POSTGRES = "tests/postgres/test_postgres_contract.py::test_contract"


def on_memory(case: str) -> str:
    """The node id of a case of the contract suite."""
    return f"{CONTRACT}[memory-{case}]"


def on_sqlite(case: str) -> str:
    return f"{CONTRACT}[sqlite-{case}]"


def on_postgres(case: str) -> str:
    return f"{CONTRACT_POSTGRES}[16-{case}]"


_PLAIN = "settle.an_outcome_is_applied[complete]"
_STILL_WORKS = {
    "src/windlass/stores/memory.py": on_memory(_PLAIN),
    SQLITE: on_sqlite(_PLAIN),
    "src/windlass/stores/postgres": (
        "tests/postgres/test_batches.py::test_a_batch_of_a_worker_nobody_knows"
    ),
    ENGINE: "tests/engine/test_engine_timing.py::test_a_ready_job_starts_at_once_by_its_hint",
}


@dataclass(frozen=True)
class Mutation:
    """`protection` is one plain sentence: what holds while this is in place."""

    name: str
    protection: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    @property
    def still_works(self) -> str:
        """A test of the ordinary case, which must pass: else the change broke more than it says."""
        if any(test.startswith(CONTRACT_POSTGRES) for test in self.tests):
            return on_postgres(_PLAIN)  # on the same server
        return next(test for path, test in _STILL_WORKS.items() if self.file.startswith(path))

    def applied(self, text: str) -> str:
        if text.count(self.old) != 1:
            raise ValueError(
                f"{self.name}: its text occurs {text.count(self.old)} times in {self.file};"
                " take it anew from there"
            )
        return text.replace(self.old, self.new)
