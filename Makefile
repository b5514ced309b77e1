# Set-up happens by itself: every target needs only Python 3.11 or newer and git.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test check rows docs bench clean

demo: $(STAMP)
	$(BIN)/opta demo

test: $(STAMP)
	$(BIN)/python -m pytest -n auto

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

rows: $(STAMP)
	$(BIN)/python -m tests.rows

docs: $(STAMP)
	$(BIN)/python -m scripts.tool_reference --write
	$(BIN)/python -m scripts.settings_table --write

bench: $(STAMP)
	$(BIN)/python -m benchmarks

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(STAMP)

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
