"""Deterministic simulation: whole workers on the store in memory, in virtual time, from a seed.

A run is a `SimulationPlan`: settings and a list of events, each an action (a job is added, a worker
is killed, a clock jumps) or a fault (the third `check` of worker w1 is answered 0.8 s late). A seed
makes a plan (`maker.py`). A plan makes one run, the same every time (`world.py`): workers are real
engines with their claimers, slots, settlers and keepers; what they do in threads runs in virtual
threads (`virtual_threads.py`), which only one after the other and only at known times may go on.

The store is the one in memory. Between it and each worker, producer and operator stands a store of
that actor's own (`actor_store.py`), which lets calls fail, be answered late, be carried out late or
hang. The ledger (`ledger.py`) sees what the store does and what handlers do, and knows the true
time, which no clock that jumps can change. It says what is wrong while a run goes on, and after its
end, when everything has been drained.

A plan that fails is made as short as possible (`shrink.py`) and printed with the way to run it
again:

    python -m tests.simulation --seeds 2000
    python -m tests.simulation --seed 17 --verbose
    python -m tests.simulation --trace failure.json
"""
