# Everything a person types. `make help` lists it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.DEFAULT_GOAL := help
.PHONY: help setup run test test-live test-dev-server test-mcp test-kill check lint format types snapshots bench-demo bench-creation bench-creation-gate bench-memory bench-recruit bench-sandbox soak-sandbox attacks dev clean soak-memory

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-19s %s\n", $$1, $$2}'

setup: $(READY) ## Install everything into .venv
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: $(PYTHON) is older than 3.11"; echo "hint: make PYTHON=/path/to/python3.11 …"; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "error: no virtual environment could be made"; echo "hint: install the package python3-venv"; exit 2; }
	@echo "installing into $(VENV) (once)"
	@$(BIN)/python -m pip install -qq --upgrade pip
	@$(BIN)/python -m pip install -qq --constraint constraints.txt --editable '.[local,dev]'
	@touch $@

run: $(READY) ## Solve TASK="…"; without it, two related tasks
ifdef TASK
	@$(BIN)/mem2evolve run "$$TASK"
else
	@$(BIN)/mem2evolve demo
endif

test: $(READY) ## Run the tests, on two processes
	@$(BIN)/python -m pytest -n 2 --dist loadfile

test-dev-server: $(READY) ## `langgraph dev` driven by the SDK, and hosts that embed the agent
	@$(BIN)/python -m pytest tests/graph/test_dev_server.py tests/embedding tests/examples

test-mcp: $(READY) ## MCP in both directions, with the official SDK, over stdio and HTTP
	@$(BIN)/python -m pytest -n 2 --dist loadfile tests/serve -k mcp

test-live: $(READY) ## Run the whole loop on the embedded model
	@$(BIN)/python -m pytest -m live tests

check: lint types test ## What a change must pass

lint: $(READY) ## Format and style, without changing anything
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .

format: $(READY) ## Format, and mend what can be mended
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

types: $(READY) ## mypy, strict
	@$(BIN)/mypy

snapshots: $(READY) ## Rewrite the golden copies of the prompts
	@SNAPSHOTS=write $(BIN)/python -m pytest -q tests/prompts

bench-demo: $(READY) ## The demo ten times in fresh homes on the embedded model
	@$(BIN)/python bench/demo.py --runs 10

bench-creation: $(READY) ## What the embedded model's tools are worth; takes an hour
	@$(BIN)/python bench/creation.py

bench-creation-gate: $(READY) ## Whether tests keep 96 wrong tools out and let 32 right ones in
	@$(BIN)/python bench/creation_gate.py

bench-recruit: $(READY) ## Whether the right asset is recruited, and near misses are not
	@$(BIN)/python bench/recruit.py

attacks: $(READY) ## Attack the sandbox: every kind, as root and as an ordinary user
	@$(BIN)/python bench/attacks.py

bench-sandbox: $(READY) ## What a call in a box costs, beside a bare start of Python
	@$(BIN)/python bench/sandbox.py

bench-memory: $(READY) ## What a recall costs at 1k, 10k and 100k records, beside a numpy scan
	@$(BIN)/python bench/memory.py --chart

test-kill: $(READY) ## Kill a run at every step and resume it: nothing may be lost, doubled or left
	@$(BIN)/python -m pytest -s -m slow tests/graph/test_killed.py

soak-sandbox: $(READY) ## Ten thousand calls with kills at random: nothing may be left
	@$(BIN)/python -m pytest -q -s -m slow tests/sandbox/test_soak.py

soak-memory: $(READY) ## Kill the owner of a shared memory twenty times while others write
	@$(BIN)/python -m pytest -q -m slow tests/memory/test_shared.py

dev: $(READY) ## LangGraph's dev server, for Studio
	@$(BIN)/langgraph dev

clean: ## Remove what was installed and built; homes and models stay
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
export TASK
