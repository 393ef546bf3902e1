# Everything a newcomer needs. Each target makes the virtual environment that it needs.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
CORE   := $(VENV)/.core
DEV    := $(VENV)/.dev
# All but `collect`: nsight-python needs ncu and a GPU, and no test uses it.
EXTRAS := model,batch,mcp,dask
SAMPLE := kernels_samples/matrix_flip

.DEFAULT_GOAL := help
.PHONY: help demo test test-all check install-size bench fuzz docs pictures site samples casebook casebook-import clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(CORE): pyproject.toml | $(BIN)/python
	$(PIP) --editable .
	@touch $@

# `--group` needs a newer pip than the one of Python 3.11.
$(DEV): pyproject.toml | $(BIN)/python
	$(PIP) --upgrade "pip>=25.1"
	$(PIP) --editable '.[$(EXTRAS)]' --group dev
	@touch $@ $(CORE)

demo: $(CORE)  ## explain a shipped report: no key, no GPU, no network; installs the core alone
	@$(BIN)/keet explain $(SAMPLE)/slow.ncu-rep
	@echo
	@awk '/^speedup =/ {printf "fast.cu does what finding 1 says. Measured: %.1f times faster. Next:\n", $$3}' $(SAMPLE)/sample.toml
	@echo "  $(BIN)/keet diff $(SAMPLE)/slow.ncu-rep $(SAMPLE)/fast.ncu-rep"
	@echo "  $(BIN)/keet explain $(SAMPLE)/slow.ncu-rep --format html -o page.html"

# pytest keeps the modules that it has rewritten, unless it is told not to: that is most of its start.
export PYTHONDONTWRITEBYTECODE :=
# Two workers, because only the tests of the same worker use again what it has analysed.
PYTEST := $(BIN)/python -m pytest -q -n 2 --dist worksteal

# mypy runs beside the tests, because neither alone keeps two cores busy. Its result is printed last.
test: $(DEV)  ## the test suite without slow tests, types and style included: two minutes
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@told=$$(mktemp); $(BIN)/mypy > $$told 2>&1 & types=$$!; \
	$(PYTEST); code=$$?; \
	wait $$types || code=1; cat $$told; rm $$told; exit $$code

test-all: test  ## the same, and then the slow tests
	$(PYTEST) -m slow

check: $(DEV)  ## types and style alone
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

install-size:  ## packages and megabytes of keet with each extra; installs into temporary folders
	$(PYTHON) tests/benchmarks/install_size.py

bench: $(DEV)  ## speed, as ratios to yardsticks of the same run
	$(BIN)/python -m tests.benchmarks

fuzz: SECONDS = 300
fuzz: $(DEV)  ## damaged reports through every command, for SECONDS=N; see tests/fuzz
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS) --workers 2 --seed $(or $(SEED),1) --keep fuzz_faults

docs: $(DEV)  ## write what is generated again: the compiled catalog, tables of the docs
	$(BIN)/python -m docs_site.metrics_page docs
	$(BIN)/python -m docs_site.commands_page docs
	$(BIN)/python -m evals.analyst.parameter_page > docs/parameters.md.new && mv docs/parameters.md.new docs/parameters.md
	$(BIN)/python -m docs_site.modules_page
	$(BIN)/python -m docs_site.terminal_picture
	$(BIN)/keet chart kernels_samples/column_physics/slow.ncu-repz -q -o docs/pictures/memory_chart.svg
	$(BIN)/python -m kernels_samples.table

pictures: $(DEV)  ## the pictures of HTML pages in the docs again: needs Chromium
	$(BIN)/python -m tests.browser.docs_pictures

site: $(DEV)  ## the documentation as a site, in site/: open site/index.html
	$(BIN)/python -m sphinx -q -W --keep-going -j 2 -d .doctrees -c docs . site

# The Python that has torch and triton is the machine's own, so keet is taken from this folder.
samples:  ## profile and measure the samples again: needs a GPU, nvcc and ncu
	PYTHONPATH=. $(PYTHON) -m kernels_samples.capture $(SAMPLES)
	PYTHONPATH=. $(PYTHON) -m kernels_samples.table

# The same Python: the runner needs the standard library, and Triton families torch and triton.
RUN     ?= casebook_run
SECONDS ?= 1800
casebook:  ## measure and profile the casebook: needs a GPU, nvcc and ncu (RUN=DIR, FAMILIES=..., SECONDS=N)
	PYTHONPATH=. $(PYTHON) -m kernels_samples.casebook.runner $(RUN) $(FAMILIES) --seconds $(SECONDS)

casebook-import: $(DEV)  ## take what `make casebook` measured into the repository (RUN=DIR)
	$(BIN)/python -m kernels_samples.casebook.import_run $(RUN)
	$(BIN)/python -m kernels_samples.casebook.index
	$(BIN)/python -m kernels_samples.casebook.counts

clean:  ## remove the environment and everything that was built
	rm -rf $(VENV) build dist site .doctrees .mypy_cache .pytest_cache .ruff_cache
