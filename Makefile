# Two commands are all that is needed: `make demo` and `make test`. Both set up what is missing first.

PYTHON ?= python3
VENV ?= .venv
QT ?= pyqt6
FUZZ_EXAMPLES ?= 10000
RUN := $(VENV)/bin

# Bytecode is kept, whatever the shell says: a test that starts a program would else compile the package again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: frozen frozen-record surface-record tutorial package readme tour lock torture help demo test lint kernels unit slow fuzz large timing bench pyside6 mutants docs clean

help:
	@echo 'make demo    set up and segment a sample (in napari if there is a screen)'
	@echo 'make test    set up, lint and run all tests'
	@echo 'make unit    the tests alone        make lint    the linters alone'
	@echo 'make bench   speed and memory, and whether a ratio is worse than recorded (BENCH_ARGS=--quick: a minute)'
	@echo 'make timing  how responsive the window is while a chain runs on a large image; part of make bench'
	@echo 'make slow    every prior with every likelihood and every sampler against its exact law'
	@echo 'make frozen  whether results are, bit for bit, those that were recorded (make frozen-record, surface-record: record anew)'
	@echo 'make fuzz    every public function with ten thousand arguments of any kind, with bounds checks (hours)'
	@echo 'make large   400 million pixels from zarr to zarr in less than 2.5 GB (half an hour, 2 GB of disk)'
	@echo 'make pyside6 the tests of the window with PySide6, in an environment of its own'
	@echo 'make mutants seed known bugs and see that the tests catch them (minutes)'
	@echo 'make torture a monkey at two windows for five minutes (TORTURE_ARGS=--minutes 10 --seed 3)'
	@echo 'make tour    the first quarter of an hour in the window, by mouse and keys, with a picture of every step'
	@echo 'make tutorial do what docs/first_steps.md says of the window, by mouse and keys (TUTORIAL_ARGS=--pictures: and make its pictures)'
	@echo 'make readme  follow the README word for word in a fresh environment'
	@echo 'make package build what is released, check it, and see its widgets in a fresh environment'
	@echo 'make lock    write constraints.txt anew, from the newest versions that fit together'
	@echo 'make docs    write the pages that come from the code again, and the site to build/site (every warning is an error)'
	@echo 'make clean   remove the virtual environment and what was built'

# The stamp is newer than what it depends on, so that a second run installs nothing.
$(VENV)/.ready: pyproject.toml tools/setup.sh constraints.txt
	@PYTHON=$(PYTHON) VENV=$(VENV) QT=$(QT) sh tools/setup.sh python
	@touch $@

demo: $(VENV)/.ready
	@PYTHON=$(PYTHON) VENV=$(VENV) sh tools/demo.sh

test: $(VENV)/.ready
	@$(MAKE) --no-print-directory --jobs 2 lint kernels
	@$(MAKE) --no-print-directory unit

lint: $(VENV)/.ready
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/codespell src tests tools docs examples benchmarks *.md
	$(RUN)/mypy
	$(RUN)/lint-imports --no-cache
	$(RUN)/python tools/architecture_page.py --check

# Kernels are compiled beforehand: the two workers of the tests would compile the same ones at the same time.
kernels: $(VENV)/.ready
	@$(RUN)/python -c 'import napari_gsw; napari_gsw.warm_up()'

unit: $(VENV)/.ready kernels
	@VENV=$(VENV) sh tools/setup.sh screen
	@VENV=$(VENV) sh tools/screen.sh $(RUN)/python -m pytest -n 2 --dist worksteal --durations=10 -m 'not timing and not slow and not large' $(PYTEST_ARGS)

slow: $(VENV)/.ready
	@VENV=$(VENV) sh tools/screen.sh $(RUN)/python -m pytest -n 2 -m slow $(PYTEST_ARGS)

# Labels, traces and states of all cases, sessions of earlier versions, and what a user sees of commands and widgets.
frozen: $(VENV)/.ready kernels
	@VENV=$(VENV) sh tools/setup.sh screen
	@VENV=$(VENV) sh tools/screen.sh $(RUN)/python -m pytest tests/frozen $(PYTEST_ARGS)

# FROZEN_ARGS='--only lazy' records some cases; '--compare FILE' compares with the record of another commit.
frozen-record: $(VENV)/.ready kernels
	PYTHONPATH=tests $(RUN)/python -W ignore -m frozen.record $(FROZEN_ARGS)

surface-record: $(VENV)/.ready kernels
	@VENV=$(VENV) sh tools/setup.sh screen
	XDG_DATA_HOME=$$(mktemp -d) PYTHONPATH=tests sh tools/screen.sh $(RUN)/python -W ignore -m frozen.surface

# Twice: as it is, and with the bounds of every array checked, in kernels that are compiled for that alone.
fuzz: $(VENV)/.ready
	FUZZ_EXAMPLES=$(FUZZ_EXAMPLES) $(RUN)/python -m pytest -n 2 tests/core/test_public_functions.py $(PYTEST_ARGS)
	FUZZ_EXAMPLES=$(FUZZ_EXAMPLES) NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(CURDIR)/build/checked-kernels \
		$(RUN)/python -m pytest -n 2 tests/core/test_public_functions.py $(PYTEST_ARGS)

large: $(VENV)/.ready
	$(RUN)/python -m pytest -m large -s tests/core/pipeline/test_whole_slide.py

# Prints how long things take beside each other, and asserts nothing of it: it wants the machine for itself.
timing: $(VENV)/.ready
	@VENV=$(VENV) sh tools/setup.sh screen
	@VENV=$(VENV) sh tools/screen.sh $(RUN)/python -m pytest -m timing -s tests/widgets/session/test_responsiveness.py tests/widgets/session/test_stroke_timing.py
	@VENV=$(VENV) sh tools/screen.sh $(RUN)/python tools/live_view.py

# Exit code 4 (make says so too) when a ratio is worse than in benchmarks/recorded.json by more than its tolerance.
bench: $(VENV)/.ready timing
	$(RUN)/napari-gsw bench --compare benchmarks/recorded.json $(BENCH_ARGS)

# The newest PySide6 for ARM Linux with a C library before 2.39; there is nothing that this project can do about it.
OLD_PYSIDE = "PySide6 6.8.0 crashes when napari removes a layer or closes a window, with or without this plugin: " \
  "take a system for which there is a newer one"
pyside6:
	@$(MAKE) --no-print-directory VENV=.venv-pyside6 QT=pyside6 .venv-pyside6/.ready
	@VENV=.venv-pyside6 sh tools/setup.sh screen
	@.venv-pyside6/bin/python -c 'import PySide6, sys; sys.exit($(OLD_PYSIDE) if PySide6.__version_info__ < (6, 8, 1) else 0)'
	@QT_API=pyside6 PYTEST_QT_API=pyside6 sh tools/screen.sh .venv-pyside6/bin/python -m pytest -n 2 --dist worksteal -m 'gui and not timing and not slow' $(PYTEST_ARGS)

mutants: $(VENV)/.ready
	$(RUN)/python tools/mutants.py

docs: $(VENV)/.ready
	$(RUN)/python tools/settings_page.py > docs/settings.md
	$(RUN)/python tools/architecture_page.py
	$(RUN)/python tools/docs_figures.py
	$(RUN)/uv pip install --quiet --python $(RUN)/python --group docs
	$(RUN)/python -m sphinx --quiet --fail-on-warning --keep-going --builder html docs build/site
	@echo 'open build/site/index.html'

lock: $(VENV)/.ready
	@VENV=$(VENV) sh tools/lock.sh

torture: $(VENV)/.ready
	@VENV=$(VENV) sh tools/setup.sh screen
	@VENV=$(VENV) sh tools/screen.sh $(RUN)/python tools/torture.py $(TORTURE_ARGS)

# Pictures for the documentation, and whether every step of the first quarter of an hour does what it should.
tour: $(VENV)/.ready
	@VENV=$(VENV) sh tools/setup.sh screen
	@VENV=$(VENV) sh tools/screen.sh $(RUN)/python tools/tour.py docs/images/tour

# The page for beginners, by mouse and keys.
tutorial: $(VENV)/.ready
	@VENV=$(VENV) sh tools/setup.sh screen
	@VENV=$(VENV) sh tools/screen.sh $(RUN)/python tools/follow_tutorial.py $(TUTORIAL_ARGS)

# In an environment of its own, from nothing; ten minutes and more.
readme: $(VENV)/.ready
	@VENV=$(VENV) sh tools/setup.sh screen
	$(RUN)/python tools/follow_readme.py

# What a release goes through before it is published, and its widgets in a window.
package: $(VENV)/.ready
	@VENV=$(VENV) sh tools/setup.sh screen
	@VENV=$(VENV) sh tools/check_package.sh

clean:
	rm -rf .venv .venv-pyside6 demo-output dist build .mypy_cache .ruff_cache .pytest_cache
