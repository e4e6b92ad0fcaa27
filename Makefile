# Every target does its own set-up: a machine with Python 3.11 or later and make is enough.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: help demo test nightly lint format bench clean

help:
	@echo "make demo    train on synthetic people, then recommend films to one of them"
	@echo "make test    the whole test suite, with coverage"
	@echo "make nightly play 50,000 lists of failures through client, proxy and server"
	@echo "make lint    ruff, mypy --strict, import-linter"
	@echo "make format  let ruff rewrite the sources"
	@echo "make bench   a short side-by-side timing on synthetic people"
	@echo "make clean   remove what these targets made"

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "sottovoce needs Python 3.11 or later; name one: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable . --group dev
	@touch $(READY)

demo: $(READY)
	$(BIN)/sottovoce demo

test: $(READY)
	$(BIN)/python -m pytest -n auto --dist loadfile --cov --cov-report=term -q

nightly: $(READY)
	SOTTOVOCE_LISTS=50000 $(BIN)/python -m pytest -q tests/live

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)
	$(BIN)/sottovoce bench --quick

clean:
	rm -rf $(VENV) .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
