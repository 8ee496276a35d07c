# Every target does its own set-up; the machine needs only make and Python 3.11 or newer.
#
#   make demo    a real control plane, a fault, and one incident to its release
#   make test    all checks: ruff, mypy, import-linter, pytest
#   make bench   the benchmarks
#   make soak    the long tests
#   make lint    the checks without the tests
#   make format  mend what can be mended by itself
#   make setup   the virtual environment, with the command .venv/bin/sickbay
#   make lock    resolve requirements.lock anew
#   make docs    write the tables of metrics, alerts and settings into their pages
#   make clean   remove what these targets made in this directory

SHELL := /bin/sh
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready

# The newest Python that can make a virtual environment; a name may exist and not run (version managers leave such).
FIND_PYTHON = for python in $(PYTHON) python3.14 python3.13 python3.12 python3.11 python3 python; do \
	if $$python -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
	then echo $$python; exit; fi; done

.PHONY: help setup demo test bench soak lint format lock docs clean

help:
	@sed -n 's/^#   //p' Makefile

setup: $(READY)

# Made anew as a whole: an interrupted or outdated environment never lives on.
$(READY): requirements.lock pyproject.toml
	@python=$$($(FIND_PYTHON)); \
	if [ -z "$$python" ]; then \
		echo "error: no Python 3.11 or newer that can make virtual environments was found;" \
			"install one (on Debian with its -venv package) or name it: make PYTHON=/path/to/python3" >&2; exit 1; fi; \
	echo "setting up $(VENV) with $$($$python --version) ..."; \
	rm -rf $(VENV) && $$python -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(READY)
	@$(BIN)/sickbay demo $(ARGS)

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

# Most tests wait for something real: side by side, each worker with labs of its own, they fill the cores.
WORKERS := 3

# The control plane is built before the tests, which would do it in silence.
test: lint
	@$(BIN)/python -c 'from k8s.lab.build import ensure_binary; ensure_binary()'
	$(BIN)/python -W error -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

bench: $(READY)
	$(BIN)/python -m benchmarks $(ARGS)

soak: $(READY)
	$(BIN)/python -W error -m pytest -m soak $(ARGS)

format: $(READY)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

docs: $(READY)
	$(BIN)/python docs/tables.py

# uv resolves for every platform and Python at once. No index address is written: whichever index pip knows is asked.
lock: $(READY)
	@$(BIN)/python -m venv $(VENV)/lock && $(VENV)/lock/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(VENV)/lock/bin/uv pip compile pyproject.toml --group dev --universal --python-version 3.11 --upgrade \
		--generate-hashes --no-header --no-annotate --no-emit-index-url --quiet --output-file requirements.lock

clean:
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
