# Two commands on a fresh machine with Python ≥ 3.11: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.made

.PHONY: demo test check clean

demo: $(STAMP)  ## train a tiny model from nothing, watch it learn (about a minute)
	$(BIN)/python -m regard demo $(ARGS)

test: $(STAMP)  ## every test
	$(BIN)/python -m pytest $(ARGS)

check: $(STAMP)  ## format, lint, types, floors
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The environment is made once, and again when what it is made from changes. torch first: only
# this exact request finds the CPU build where there is one.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("regard needs Python 3.11 or newer; try: make PYTHON=python3.12 " if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch==2.13.0
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[serve,plot,dev]'
	touch $(STAMP)

clean:  ## remove what was made here, runs excepted
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
