# `make` prints its targets. Everything lives in .venv; nothing is installed outside it.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
PEERS  := .venv-bench
PEERS_READY := $(PEERS)/.ready

TESTS := tests/unit tests/contract tests/engine tests/sqlite tests/cli tests/faults tests/docs tests/simulation tests/machines tests/fuzz tests/soak tests/upgrade tests/server tests/dashboard tests/remote tests/postgres

.DEFAULT_GOAL := help
.PHONY: help demo dashboard test test-all check lint format cover pythons simulate machines mutation fuzz soak bench bench-quick clean

help: ## show these targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Windlass needs Python 3.11 or newer; try: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[postgres,server,metrics,otel,top]' --group dev
	@touch $(READY)

demo: $(READY) ## set everything up and watch jobs run, a quarter of a minute
	@$(BIN)/windlass demo

dashboard: $(READY) ## set everything up and see jobs run in your browser, until Ctrl-C
	@$(BIN)/windlass demo --dashboard

test: $(READY) lint ## set everything up and run all checks and tests
	@$(BIN)/python -m pytest -n 2 --dist worksteal -m "not rig and not slow" $(TESTS)

test-all: $(READY) lint cover ## the same with coverage, and what takes longer: fuzz, all pairs of verbs, short soaks, other Pythons
	@$(BIN)/python -m pytest -n 2 --dist worksteal -m rig $(TESTS)
	@$(MAKE) --no-print-directory pythons

check: $(READY) lint ## format, lint, types, imports, unit tests
	@$(BIN)/python -m pytest tests/unit

lint: $(READY) ## format, lint, types and imports only
	@$(BIN)/ruff format --check --quiet src tests benchmarks
	@$(BIN)/ruff check --quiet src tests benchmarks
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-cache > .lint-imports.txt || { cat .lint-imports.txt; exit 1; }

format: $(READY) ## rewrite the sources in the house format
	@$(BIN)/ruff check --fix src tests benchmarks
	@$(BIN)/ruff format src tests benchmarks

# Tests marked `rig` are left out: they measure memory, which measuring coverage changes.
cover: $(READY) ## every test of `make test` and those marked slow; branch coverage of each package >= 95 %
	@$(BIN)/coverage erase
	@$(BIN)/coverage run -m pytest -n 2 --dist worksteal -m "not rig" $(TESTS)
	@$(BIN)/coverage combine --quiet
	@$(BIN)/python -m tests.coverage_gate

pythons: $(READY) ## unit, contract and engine tests on the other Pythons of this machine
	@.ci/pythons

SEEDS ?= 2000
simulate: $(READY) ## whole workers with faults in virtual time; SEEDS=2000 takes two minutes
	@$(BIN)/python -m tests.simulation --seeds $(SEEDS)

RUNS ?= 500
machines: $(READY) ## random verbs on each store and on the model; RUNS=500 takes five minutes
	@$(BIN)/python -m tests.machines --runs $(RUNS)

mutation: $(READY) ## one protection off at a time, each must be noticed; some or all: NAMES=latch
	@$(BIN)/python -m tests.mutation $(NAMES)

EXAMPLES ?= 500
FUZZ_SECONDS ?= 60
fuzz: $(READY) ## odd values to every public entry; EXAMPLES=500 for each entry; garbage and odd requests for a server; FUZZ_SECONDS=60 for each kind
	@FUZZ_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest --timeout=0 tests/fuzz
	@FUZZ_SECONDS=$(FUZZ_SECONDS) $(BIN)/python -m pytest --timeout=0 tests/server/fuzz
	@FUZZ_SECONDS=$(FUZZ_SECONDS) $(BIN)/python -m pytest --timeout=0 -m rig tests/server/rest/test_rest_openapi.py

MINUTES ?= 30
STORES ?= postgres sqlite
soak: $(READY) ## steady load and faults, nothing lost, nothing grows; MINUTES=30 STORES="postgres sqlite"
	@$(BIN)/python -m tests.soak --minutes $(MINUTES) $(STORES)

bench-quick: $(READY) ## the ratios to bare SQL on SQLite and PostgreSQL, in less than a minute
	@$(BIN)/python -m benchmarks.quick

# The peers have an environment of their own. Node.js comes from a wheel; `npm` finds it on the path.
$(PEERS_READY): pyproject.toml benchmarks/requirements.txt benchmarks/package.json
	@$(PYTHON) -m venv $(PEERS)
	@$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check \
	  --editable '.[postgres,server,uvloop]' --requirement benchmarks/requirements.txt
	@cd benchmarks && PATH="$(CURDIR)/$(PEERS)/bin:$$PATH" \
	  npm install --silent --no-package-lock --no-audit --no-fund || \
	  echo "graphile-worker could not be installed; the report will say so"
	@touch $(PEERS_READY)

bench: $(PEERS_READY) ## every target beside bare SQL and peers, 75 minutes; or 5: BENCH=--quick
	@$(PEERS)/bin/python -m benchmarks.run $(BENCH)

clean: ## remove the local environment and caches
	@rm -rf $(VENV) .venv-3.* $(PEERS) benchmarks/node_modules .lint-imports.txt .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage* dist build
