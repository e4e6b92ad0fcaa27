# Every target does its own set-up: a machine with Python 3.11 or later and make is enough.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
MADE := $(VENV)/.made
DEMO := $(VENV)/.demo
READY := $(VENV)/.ready
MODULES := web/node_modules/.package-lock.json
# Where Node is too old or missing, the page is as it was built, and nothing of web/ is checked.
NODE_20 := node -e 'process.exit(Number(process.versions.node.split(".")[0] < 20))' 2>/dev/null
WEB := $(if $(shell $(NODE_20) && command -v npm),$(MODULES))

# Hundreds of processes import the same sources: the first one compiles them for all.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo web test test-lab coverage nightly part lint lint-style lint-types lint-web kernels bytecode format docs bench release clean

help:
	@echo "make demo    server, proxy, invented people who report live, and a page to take part in"
	@echo "make web     build the page from web/ into the package (needs Node 20 or later)"
	@echo "make test    all tests but those of the night: nine minutes on two cores; says what it left out without Node, Chromium, g++ or PostgreSQL"
	@echo "make nightly whole systems, kills, other browsers, guides and releases, the laboratory, and planted bugs: hours"
	@echo "make part    a fifth of the night's tests and the laboratory's, another one each day"
	@echo "make test-lab  the tests of the laboratory (lab/)"
	@echo "make coverage  all tests but the laboratory's, and which lines none of them runs"
	@echo "make lint    ruff, mypy --strict, import-linter, plain English; tsc and Biome too where Node is"
	@echo "make format  let ruff rewrite the sources"
	@echo "make docs    the documentation as a site under build/docs; a link that leads nowhere is an error"
	@echo "make bench   a short side-by-side timing on synthetic people"
	@echo "make release build what would be published into dist/, twice; compare, install and try it; upload nothing"
	@echo "make clean   remove what these targets made"

$(MADE):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "sottovoce needs Python 3.11 or later; name one: make PYTHON=python3.12")'
	@echo "Making a Python environment in $(VENV) ..."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	@touch $(MADE)

# The demo waits for what it needs alone.
$(DEMO): pyproject.toml | $(MADE)
	@echo "Installing what the demo needs: about a minute ..."
	$(BIN)/python -m pip install --quiet --editable '.[sim,server]'
	@touch $(DEMO)

$(READY): pyproject.toml lab/pyproject.toml | $(MADE)
	$(BIN)/python -m pip install --quiet --editable . --editable lab --group dev
	@touch $(READY) $(DEMO)

demo: $(DEMO)
	@$(BIN)/sottovoce demo

# What npm installed, as the lock file has it.
$(MODULES): web/package-lock.json
	@$(NODE_20) || { echo "web/ needs Node 20 or later"; exit 1; }
	npm --prefix web ci --no-audit --no-fund
	@touch $(MODULES)

web: $(MODULES)
	npm --prefix web run build

# One process more than there are cores, since many tests wait. Files are shared out in the order of tests/conftest.py.
WORKERS := $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 1)')
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -q -rs

test: $(READY) $(WEB)
	$(PYTEST) --ignore tests/nightly

test-lab: $(READY)
	$(PYTEST) lab

coverage: $(READY) $(WEB)
	$(PYTEST) --cov --cov-report=term

# By day temporary folders are in memory (tests/conftest.py); the environments of a release are too large for that.
ON_DISK := PYTEST_DEBUG_TEMPROOT=$${TMPDIR:-/tmp}

nightly: $(READY) $(WEB)
	$(ON_DISK) SOTTOVOCE_CASES=all SOTTOVOCE_ATTACK=full SOTTOVOCE_LISTS=50000 SOTTOVOCE_REQUESTS=100000 SOTTOVOCE_KILLS=500 $(BIN)/python -m pytest -q tests/nightly tests/live tests/service/test_fuzz.py
	SOTTOVOCE_CASES=all $(PYTEST) $$(grep -rl --include='test_*.py' --exclude-dir=live tests.sampling tests)
	$(if $(WEB),SOTTOVOCE_ROUNDS=20 npm --prefix web test)
	$(PYTEST) lab
	$(BIN)/python -m tests.planted

# One of five parts of what runs at night, by files, as large as it is by day: PART is a number from 0 to 4.
PART ?= $(shell echo $$(( $$(date +%s) / 86400 % 5 )))
part: $(READY) $(WEB)
	$(ON_DISK) $(PYTEST) $$(find tests/nightly lab/tests -name 'test_*.py' | sort | awk 'NR % 5 == $(PART)')

lint: lint-types lint-style lint-web

lint-types: $(READY)
	$(BIN)/mypy

lint-style: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/python -m tests.prose

lint-web: $(WEB)
	$(if $(WEB),npm --prefix web run check,@echo "no Node 20 here: web/ was not checked")

# Compiles what the tests would compile first.
kernels: $(READY)
	$(BIN)/python -m tests.kernels

# And what each of pytest's processes would compile for itself, all at once: every test, and what it imports.
bytecode: $(READY) $(WEB)
	$(BIN)/python -m pytest --collect-only -qq > /dev/null

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Sphinx checks every link and anchor between pages, and asks nobody; -W makes errors of warnings.
docs: $(READY)
	$(BIN)/python -m sphinx -W --keep-going -E -q -b html -d build/doctrees docs build/docs
	@echo "build/docs/index.html"

bench: $(READY)
	$(BIN)/sottovoce bench --quick

release: $(READY) $(MODULES)
	$(BIN)/python -m tests.nightly.release

clean:
	rm -rf $(VENV) build dist .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	rm -rf web/node_modules web/*/node_modules web/*/build web/*/dist web/build
	find src tests lab -name __pycache__ -type d -prune -exec rm -rf {} +
