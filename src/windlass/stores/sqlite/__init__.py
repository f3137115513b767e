"""The embedded store: one SQLite file, shared by every process of one machine.

The model
    Writers of a SQLite file are serial. Each store has one writer thread with one connection; the
    calls that wait for it are run as one transaction (group commit) and answered after it has
    committed. Reads go through the same thread and never wait for another connection's write lock.

Few steps
    Each step of a statement gives up and retakes the interpreter's lock, which beside a busy event
    loop may take milliseconds. So a batch is one statement with one JSON text in and one out.

Serial queues
    A partial unique index allows one job of a queue to be claimable or running. The others are
    *waiting*, and every transaction that touches a queue ends by making its best job claimable.
    While jobs hold a queue (strict ones, whose attempt failed) only they can be made so.

Tenants
    What a claim walks exists three times: an index of the default tenant's jobs, one of all
    others', and one of each of the others (`branches.py`). A task that a tenant has paused keeps
    its jobs out of claims for all tenants by *parking*: a claim that meets them makes them wait,
    without a queue, and `resume` makes them claimable again.

Ends
    Every job that ends, by its worker, an operator or upkeep, passes `ending.ended` in the
    transaction that ends it. What follows from an end hangs there.

Chains
    A chain's row is written when it starts and when it ends; in between its current job tells how
    far it is. What a job waits for is one row for each chain it named, and a number that each end
    counts down. Only one transaction writes at a time, so an end, the jobs it releases and whatever
    fails with it are one step. Batches that only continue and complete chains are a few statements;
    all else goes by the rules of `store/chaining.py`.

Leases
    A worker's liveness is one row, with an end on the machine's monotonic clock, so that a wall
    clock may jump. While another transaction holds the write lock no worker can renew; a worker
    that tries says so in a small file beside the database, and reapers leave it alone.

Failure
    A call either committed or raised a StoreError and had no effect. `synchronous="full"` makes a
    commit survive power loss; "normal" may lose the last commits to it, never to kill -9.
"""

from windlass.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
