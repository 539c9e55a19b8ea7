# Two commands are all that is needed: `make demo` and `make test`. Both set up what is missing first.

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help demo test lint unit mutants docs clean

help:
	@echo 'make demo    set up and segment a sample (in napari if there is a screen)'
	@echo 'make test    set up, lint and run all tests'
	@echo 'make unit    the tests alone        make lint    the linters alone'
	@echo 'make mutants seed known bugs and see that the tests catch them (minutes)'
	@echo 'make docs    write docs/settings.md again from the declaration of the settings'
	@echo 'make clean   remove the virtual environment and what was built'

# The stamp is newer than what it depends on, so that a second run installs nothing.
$(VENV)/.ready: pyproject.toml tools/setup.sh
	@PYTHON=$(PYTHON) VENV=$(VENV) sh tools/setup.sh python
	@touch $@

demo: $(VENV)/.ready
	@PYTHON=$(PYTHON) VENV=$(VENV) sh tools/demo.sh

test: $(VENV)/.ready lint unit

lint: $(VENV)/.ready
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/mypy
	$(RUN)/lint-imports --no-cache

unit: $(VENV)/.ready
	@VENV=$(VENV) sh tools/setup.sh screen
	@VENV=$(VENV) sh tools/screen.sh $(RUN)/python -m pytest -n 2 $(PYTEST_ARGS)

mutants: $(VENV)/.ready
	$(RUN)/python tools/mutants.py

docs: $(VENV)/.ready
	$(RUN)/python tools/settings_page.py > docs/settings.md

clean:
	rm -rf $(VENV) demo-output dist build .mypy_cache .ruff_cache .pytest_cache
