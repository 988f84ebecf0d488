# make demo   set up and simulate the story; writes perpacket-demo.html
# make test   set up and run every test, Rust and Python
# make check  formatting, lints, types, dependency arrows
# make bench  the benchmarks (see benches/README.md)

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := pyproject.toml Cargo.toml Cargo.lock $(shell find crates -name '*.rs' -o -name '*.toml')

.PHONY: setup setup-dev demo test check bench clean

setup: $(VENV)/.installed
setup-dev: $(VENV)/.installed-dev

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.installed: $(SOURCES) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.installed-dev: $(SOURCES) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@ $(VENV)/.installed

demo: setup
	$(BIN)/perpacket demo

test: setup-dev
	cargo test --workspace --locked --quiet
	$(BIN)/python -m pytest

check: setup-dev
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked --quiet -- --deny warnings
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench:
	cargo bench --workspace --locked

clean:
	rm -rf target $(VENV)
