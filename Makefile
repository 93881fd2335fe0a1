# Everything a contributor needs. `make setup` first; it is quick when nothing changed.

PYTHON   ?= python3
VENV     := .venv
BIN      := $(VENV)/bin
PIP      := $(BIN)/pip --disable-pip-version-check --quiet --quiet
STAMPS   := $(VENV)/stamps
CHROMIUM := /usr/bin/chromium
MAKEFLAGS += --no-print-directory
# Most tests wait for other processes: two workers keep two cores busy. A file's tests stay together, in their order.
SIDE_BY_SIDE := --numprocesses 2 --dist loadfile --no-loadscope-reorder
say = @printf '\033[1m▸ %s\033[0m\n'

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup python page chromium demo test test-python test-web test-long lint lint-web bench clean

help: ## show this list
	@grep -E '^[a-z-]+:.*## ' $(firstword $(MAKEFILE_LIST)) | sed -E 's/:[^#]*## /\t/' | expand -t 14

setup: python page chromium ## make .venv, build the page, find a browser
	$(say) 'ready: $(BIN)/trackside'

python: $(STAMPS)/installed

$(STAMPS)/torch:
	$(say) 'Python environment in $(VENV)'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) install torch==2.13.0
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/installed: pyproject.toml hatch_build.py $(STAMPS)/torch
	$(say) 'dependencies and trackside itself (editable)'
	@$(PIP) install 'hatchling>=1.27'
	@$(PIP) install --no-build-isolation --editable '.[dev]'
	@touch $@

page: python ## build web/ into src/trackside/server/static when it changed
	@if test -f web/package.json; then $(BIN)/python hatch_build.py; else echo 'page: no web/ here, nothing to build'; fi

chromium:
	@sh scripts/get-chromium.sh $(CHROMIUM)

demo: setup ## train a small model on two ranks with the page on
	@$(BIN)/trackside demo

test: setup lint test-web test-python ## lint, then every test that is quick

test-python: python
	$(say) 'pytest'
	@$(BIN)/pytest -m 'not long' $(SIDE_BY_SIDE)

test-web: page
	@if test -f web/package.json; then printf '\033[1m▸ vitest\033[0m\n'; cd web && npm run --silent test; fi

test-long: setup ## the tests that take long; WHAT=tests/faults for some of them
	$(say) 'pytest, the long ones'
	@$(BIN)/pytest -m long --durations=20 --durations-min=60 $(WHAT)

lint: python lint-web ## ruff, mypy, import contracts, TypeScript
	$(say) 'ruff'
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .
	$(say) 'mypy'
	@$(BIN)/mypy --no-error-summary
	$(say) 'import contracts'
	@$(BIN)/lint-imports --no-logo

lint-web: page
	@if test -f web/package.json; then printf '\033[1m▸ TypeScript\033[0m\n'; cd web && npm run --silent typecheck; fi

bench: setup ## measure the budgets; results go to benchmarks/
	@$(BIN)/python benchmarks/run.py

clean: ## remove what was built and cached, the environment too
	rm -rf $(VENV) web/node_modules web/dist src/trackside/server/static build dist
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache tests/browser/shots
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
