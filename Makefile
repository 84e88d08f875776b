# Every target does its own set-up: a Python 3.11 or later is all that is needed.
PY := .venv/bin/python
DISPATCHER ?=
TESTS ?=
JOBS ?= 2
MINUTES ?= 10
BENCHMARKS := $(wildcard tests/acceptance/test_*_benchmark.py)
WITH_CELERY := tests/contracts/test_matrix.py tests/contracts/test_failure_modes.py tests/acceptance/test_celery_worker.py tests/acceptance/test_demo.py \
               tests/acceptance/test_compose_processes.py
# Tests start some hundred processes: with compiled modules on disk each begins in half the time.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo up test test-services test-security test-browser test-adapters test-benchmarks test-chaos chaos check \
        check-format check-lint check-mypy check-pyright check-imports check-migrations fmt lock clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

.venv/.stamp: pyproject.toml constraints.txt tools/setup.sh
	@tools/setup.sh

setup: .venv/.stamp ## create .venv and install everything

demo: .venv/.stamp ## a real agent's log, end to end (DISPATCHER=celery: through a worker process)
	@$(PY) -m workers demo $(if $(DISPATCHER),--dispatcher $(DISPATCHER))

up: .venv/.stamp ## the embedded server: web, worker thread, SQLite file
	@$(PY) -m workers up

test: .venv/.stamp ## all tests (TESTS="tests/rules -k name" for some, JOBS=0 for one process)
	$(PY) -m pytest -n $(JOBS) --dist loadfile --inline-snapshot=disable $(TESTS)

test-services: .venv/.stamp ## what starts Celery workers, on Redis and RabbitMQ
	$(PY) -m pytest -m celery -n $(JOBS) --dist loadfile --inline-snapshot=disable $(or $(TESTS),$(WITH_CELERY))

test-security: .venv/.stamp ## fuzz the API from its own OpenAPI document
	$(PY) -m pytest -m security -n $(JOBS) tests/security

test-browser: .venv/.stamp ## the console in a real Chromium
	$(PY) -m pytest -n $(JOBS) --inline-snapshot=disable $(or $(TESTS),tests/browser)

# In an environment of its own: what the adapters adapt to has wishes of its own. The server is that of .venv.
.venv-adapters/.stamp: pyproject.toml constraints-adapters.txt | .venv/.stamp
	@$(PY) -m venv --clear .venv-adapters
	@.venv-adapters/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	@.venv-adapters/bin/python -m pip install --quiet --constraint constraints-adapters.txt --group adapters --editable .
	@touch $@

test-adapters: .venv-adapters/.stamp ## each adapter beside the package it adapts to, and its types
	.venv-adapters/bin/python -m mypy --config-file tools/adapters-mypy.ini
	.venv-adapters/bin/python -m pytest -c /dev/null --rootdir=. --confcutdir=tests/adapters -W ignore -q -ra $(or $(TESTS),tests/adapters)

test-benchmarks: .venv/.stamp ## the benchmarks on a few real logs: the promises hold, the reports say what they should
	$(PY) -m pytest -m benchmarks -n $(JOBS) --inline-snapshot=disable $(or $(TESTS),$(BENCHMARKS))

test-chaos: .venv/.stamp ## kill processes and servers at every step, some minutes
	$(PY) -m pytest -n $(JOBS) --dist loadgroup --inline-snapshot=disable $(or $(TESTS),tests/chaos)

chaos: .venv/.stamp ## the steps left out there, then blows at random for MINUTES=10 and a table of them
	$(PY) -m pytest -m rare -n $(JOBS) --dist loadgroup --inline-snapshot=disable tests/chaos
	@$(PY) tests/chaos/run_chaos.py --minutes $(MINUTES)

check: check-format check-lint check-mypy check-pyright check-imports check-migrations ## all that needs no test run

check-format: .venv/.stamp
	$(PY) -m ruff format --check .

check-lint: .venv/.stamp
	$(PY) -m ruff check .

check-mypy: .venv/.stamp
	$(PY) -m mypy

check-pyright: .venv/.stamp
	$(PY) -m pyright

check-imports: .venv/.stamp
	.venv/bin/lint-imports

check-migrations: .venv/.stamp
	$(PY) -m workers migrate --check

fmt: .venv/.stamp ## format and fix what can be fixed
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

lock: .venv/.stamp ## write constraints.txt anew from pyproject.toml
	tools/lock.sh

clean: ## remove .venv and caches
	rm -rf .venv .venv-adapters .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
