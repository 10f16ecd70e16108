# On a fresh clone with Python ≥ 3.11, `make demo` and `make test` install what they need into .venv and run.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
QUICK := tests/test_docs.py tests/test_golden.py tests/test_layers.py tests/test_public.py \
	tests/data tests/decoding tests/evaluate tests/models tests/nn tests/text tests/translator

.DEFAULT_GOAL := help
.PHONY: help demo test quick check fix docs clean

help:  ## list these targets
	@sed -nE 's/^([a-z]+):.*## (.*)/\1\t\2/p' Makefile | expand -t 10

demo: .venv/.demo  ## train a small Transformer in about a minute, then serve its web page
	$(BIN)/python -m regard demo $(ARGS)

test: .venv/.dev  ## run all tests; `make test ARGS=tests/nn` runs some of them
	$(BIN)/python -m pytest $(ARGS)

quick: .venv/.dev  ## run the fast tests, in under a minute
	$(BIN)/python -m pytest $(QUICK) $(ARGS)

check: .venv/.dev  ## check formatting, lint, types and import layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/deno fmt --check
	$(BIN)/deno lint
	$(BIN)/deno check src/regard/web
	$(BIN)/deno test --no-check --quiet tests/page

fix: .venv/.dev  ## format the code and apply safe lint fixes
	$(BIN)/ruff check --fix --exit-zero .
	$(BIN)/ruff format .
	-$(BIN)/deno lint --fix
	$(BIN)/deno fmt

docs: .venv/.dev  ## regenerate docs/commands.md from the commands' help
	$(BIN)/python -m typer regard.cli.app utils docs --name regard --title "Commands" --output docs/commands.md

clean:  ## remove the environment and caches, but not runs/
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

# Both stamps are renewed when the requirements change. torch is installed first and by exactly this request,
# because some package indexes offer its CPU build only for an exact version.
.venv/.demo: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("Regard needs Python 3.11 or newer; try: make PYTHON=python3.12" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv
	$(INSTALL) torch==2.13.0
	$(INSTALL) --editable '.[serve,plot,images]'
	touch $@

.venv/.dev: .venv/.demo
	$(INSTALL) --editable '.[serve,plot,images,dev]'
	touch $@
