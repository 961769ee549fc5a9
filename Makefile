# Two commands do everything on a fresh machine: make demo, make test.
# PYTHONSAFEPATH keeps the folders `kernels` and `grammar` here from being taken for other packages.
export PYTHONSAFEPATH := 1
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
RECIPE := pyproject.toml setup.py constraints.txt $(wildcard kernels/cpu/*.cpp kernels/cpu/*.h)

.PHONY: help install demo test test-clients lint types bench soak serve kernels clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

# The environment is made once and refreshed when its recipe changes.
.venv/installed: $(RECIPE)
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt torch setuptools
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

install: .venv/installed  ## make .venv with everything in it

demo: install  ## fetch the model, run a branching program, show what was shared
	$(BIN)/radixrt run examples/character_cards.py:card --arg name=Hermione --temperature 0

# One test process a core, one thread in each: on two cores that is twice as fast as two threads in one process.
test: install  ## all tests (the model is fetched once)
	OMP_NUM_THREADS=1 RADIXRT_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal

test-clients: install  ## programs from a notebook, a REPL and other outside clients
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev,clients]'
	$(BIN)/pytest tests/clients

lint: install  ## ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install  ## mypy --strict over the package as it is installed
	rm -rf build  # what an earlier build left would be installed too
	CXX=false $(BIN)/pip install --quiet --no-deps --no-build-isolation --target build/types .  # native code has no types
	MYPYPATH=build/types $(BIN)/mypy --strict -p radixrt

bench: install  ## what a step costs beside its forward
	$(BIN)/radixrt bench step

soak: install  ## random programs, cancels and faults for three minutes
	$(BIN)/python -m radixrt.bench.soak --minutes 3

serve: install  ## the HTTP server
	$(BIN)/radixrt serve

kernels: install  ## rebuild the native kernels and check them against their references
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	$(BIN)/pytest tests/kernels_ref tests/kernels_cpu

clean:  ## remove what make made
	rm -rf .venv build *.egg-info kernels/cpu/*.so
