"""`python -m tests.machines`: programs of random verbs on each store; see --help."""

from __future__ import annotations

import argparse
import random
import sys
import time

from tests.machines.bindings import BINDINGS
from tests.machines.run import run_programs


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.machines", description=__doc__)
    parser.add_argument("--runs", type=int, default=500, help="programs, on all stores together")
    parser.add_argument("--seed", type=int, help="which programs; another one each time if unset")
    parser.add_argument("--binding", choices=BINDINGS, action="append", help="on this store alone")
    options = parser.parse_args()
    bindings = options.binding or list(BINDINGS)
    seed = random.randrange(2**32) if options.seed is None else options.seed
    print(f"--seed {seed}", flush=True)
    for number, binding in enumerate(bindings):
        runs = (options.runs + number) // len(bindings)
        began = time.monotonic()
        run_programs(BINDINGS[binding], runs, seed)
        print(f"{binding}: {runs} runs in {time.monotonic() - began:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
