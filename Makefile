# Two commands do everything on a fresh machine: make demo, make test.
export PYTHONSAFEPATH := 1
PYTHON ?= python3.11
BIN := .venv/bin

.PHONY: install demo test test-clients lint types bench soak serve kernels clean

# The environment: made once, refreshed when its recipe changes.
.venv/installed: pyproject.toml setup.py constraints.txt $(wildcard kernels/cpu/*.cpp kernels/cpu/*.h)
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

install: .venv/installed
