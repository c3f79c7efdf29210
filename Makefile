# Everything runs in .venv, which is made on first use. Only Python, make and a package index are needed.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
DEMO   := build/demo
# What tests call, in two equal parts.
WARM := 'osrl/bernoulli uniform/bernoulli osrl/gaussian' \
  'osrl-sc/bernoulli osrl-sc-released/bernoulli tas/bernoulli tas-transfer/bernoulli tas+glr/bernoulli'
CORES := 2
WORKERS := 3  # of the tests: some of them wait for other processes
PYTEST  := $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal --durations=30 --durations-min=1

.DEFAULT_GOAL := help

# Bytecode is kept, whatever the environment says: the tests start hundreds of processes, each of which would
# otherwise compile all the modules that it imports.
export PYTHONDONTWRITEBYTECODE :=

# Long work is measured as machine code from its first call on.
validate torture bench: export OSRL_COMPILE = now
.PHONY: help install demo quick test check docs wheel picture format validate torture scale bench constraints clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e '.[all,dev]'
	@touch $@

install: $(READY) ## make .venv with the package and its tools

demo: $(READY) ## Table 1 of the paper with 1120 runs, beside the published one, and a report to open
	rm -rf $(DEMO)
	$(BIN)/osrl paper table1 --out $(DEMO)

# Kernels are compiled once before the tests, so that the test workers find them in the cache instead of compiling the
# same ones side by side.
quick: $(READY) ## the core suite: two minutes, once the kernels are compiled
	printf '%s\n' $(WARM) | xargs -P $(CORES) -I {} sh -c '$(BIN)/osrl warm-up {}'
	$(PYTEST) -m 'not slow and not validate'

test: quick ## the core suite, then the slow tests, then some again with the JIT off
	$(PYTEST) -m 'slow and not validate'
	NUMBA_DISABLE_JIT=1 $(PYTEST) -m 'nojit and not validate'

check: $(READY) ## lint, format, types, import layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict
	$(BIN)/lint-imports

docs: $(READY) ## the documentation site, in build/site/html; warnings are errors
	$(BIN)/python docs/site/build.py build/site

picture: $(READY) ## the picture and the table of the README, measured anew
	$(BIN)/python benchmarks/picture.py

wheel: $(READY) ## sdist and wheel, in dist
	$(BIN)/python -m build --quiet --outdir dist

format: $(READY) ## rewrite the sources in the house format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

validate: $(READY) ## the long statistical validation; it writes docs/validation/
	$(BIN)/osrl bound paper --json > /dev/null
	$(BIN)/python -m pytest -q -n $(CORES) -m validate --timeout 7200
	$(BIN)/python -m tests.validation.report_policies docs/validation/policies.md
	$(BIN)/python -m tests.validation.report_pairs docs/validation/pairs.md
	$(BIN)/python -m tests.validation.report_guarantee docs/validation/guarantee.md
	$(BIN)/python -m tests.validation.report_tolerance docs/validation/tolerance.md
	$(BIN)/python -m tests.validation.report_attacks docs/validation/attacks.md
	$(BIN)/python -m tests.validation.report_forecast docs/validation/forecast.md

torture: $(READY) ## attacks on the storage and on the server, counted; it writes docs/validation/storage.md and service.md
	$(BIN)/python -m tests.torture.run docs/validation/storage.md
	$(BIN)/python -m tests.torture.run --on service docs/validation/service.md

scale: $(READY) ## what grows with a study; it writes benchmarks/results/scale.md
	$(BIN)/python benchmarks/scale.py

bench: $(READY) ## the benchmarks; they print ratios measured in one run
	$(BIN)/python benchmarks/solver.py
	$(BIN)/python benchmarks/simulate.py
	$(BIN)/python benchmarks/study.py
	$(BIN)/python benchmarks/start.py

# A fresh environment without pins, so that the newest versions which work together are found.
constraints: ## renew the pins in constraints.txt
	rm -rf $(VENV)-pins
	$(PYTHON) -m venv $(VENV)-pins
	$(VENV)-pins/bin/python -m pip install --quiet --disable-pip-version-check -e '.[all,dev]'
	printf '# Versions that are tested together, for every extra. Renew with `make constraints`.\n' > constraints.txt
	$(VENV)-pins/bin/python -m pip freeze --exclude-editable >> constraints.txt
	rm -rf $(VENV)-pins

clean: ## remove .venv and every cache
	rm -rf $(VENV) $(VENV)-pins build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find osrl tests -name __pycache__ -type d -prune -exec rm -rf {} +
