# make setup  install .venv/bin/perpacket; `make setup-dev` also installs what the tests need
# make demo   set up, measure this machine and simulate; writes perpacket-demo.html. With
#             CHARTS=FOLDER it also writes the charts into this folder
# make test   set up and run the tests, Rust and Python
# make test-full          run the tests that take minutes, or whose result depends on chance
# make test-applications  install the packages of every application, and run each
# make test-machines      boot the machines of tests/machines under QEMU and run their checks; only some with
#             MACHINES="arm-pmu queues"
# make test-cases  ask for advice on the cases of tests/cases, and print the score
# make agent  build the agent; with TARGET=aarch64-unknown-linux-gnu for Arm, static
# make check  check formatting, lints, types and the fuzz targets
# make docs   build the documents in docs/_build
# make pages  write the pages of kept runs in docs/documents; RUN=DIRECTORY keeps a run first
# make schema write the schema of the agent's options, from which Python's functions are made
# make reference  write the generated parts of docs/reference
# make wheels build the package and its agent as wheels, with the emulator's plugin, in dist; with
#             TARGET=aarch64-unknown-linux-gnu also the agent for Arm
# make bench  run the benchmarks (see benches/README.md)
# make fuzz   run every fuzz target for a minute (FUZZ_SECONDS)
# make clean  remove the builds, the built documents and .venv

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := pyproject.toml lab/pyproject.toml Cargo.toml Cargo.lock $(shell find crates lab -name '*.rs' -o -name '*.toml' -o -name '*.sh')

# With these settings the build takes a third of the time. `pip install` without make uses the release
# settings, which optimize the whole program. Before measuring our own server's speed, set up with
# CARGO_PROFILE_RELEASE_LTO=fat CARGO_PROFILE_RELEASE_CODEGEN_UNITS=1.
export CARGO_PROFILE_RELEASE_LTO ?= off
export CARGO_PROFILE_RELEASE_CODEGEN_UNITS ?= 16

.PHONY: setup setup-dev demo test peers rust-tests offline-tests emulation-tests host-tests \
	live-tests machine-tests test-full test-applications test-machines test-cases agent check docs pages schema reference wheels bench \
	fuzz clean

# Python compiles a module when it is first imported; pip would compile all.
install := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile ./crates/agent \
	./lab/crates/lab-agent --editable ./lab --editable

setup: $(VENV)/.installed
setup-dev: $(VENV)/.installed-dev

# The emulator's plugin is a library that QEMU loads. The package and its wheels contain it as a file. A running QEMU
# keeps the file that it has.
PLUGIN := libperpacket_emulate_plugin.so
plugin = cargo build --release --locked --quiet --package perpacket-emulate-plugin && \
	cp --remove-destination target/release/$(PLUGIN) lab/perpacket_lab/emulate/

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(SOURCES) | $(BIN)/python
	$(install) .
	$(plugin)
	touch $@

$(VENV)/.installed-dev: $(SOURCES) | $(BIN)/python
	$(install) . --editable '.[dev,docs]'
	$(plugin)
	touch $@ $(VENV)/.installed

demo: setup
	$(BIN)/perpacket demo $(if $(CHARTS),--charts $(CHARTS))

# Three of the first parts run at the same time, because some of them wait. The last part measures times, so it
# runs alone. Each part prints its duration. BESIDE: another target to make beside the first parts.
test:
	@$(MAKE) --no-print-directory --jobs 2 setup-dev peers
	tests/prepare_guest.sh
	@echo "The output of each part of the tests follows when the part ends"
	@$(MAKE) --no-print-directory --jobs 3 --output-sync=target emulation-tests offline-tests rust-tests \
		machine-tests host-tests $(BESIDE)
	@$(MAKE) --no-print-directory live-tests

peers:
	tests/install_peers.sh

EMULATION_TESTS := tests/test_emul*.py
# These start servers, hosts and trials, and check states, files, processes and output, not how fast they are.
HOST_TESTS := $(patsubst %,tests/test_%.py,applications guardian over_ssh router_routes settings testbed \
	trial)
timed = begin=$$(date +%s); $(2) || exit $$?; echo "$(1): $$(($$(date +%s) - begin)) s"
select = $(BIN)/python -m pytest --durations=10 -m '$(1) and not full and not applications and not machines'

# The tests share the dependencies that the set-up has compiled. Our own code has assertions, and is compiled faster.
rust-tests: export CARGO_PROFILE_RELEASE_OPT_LEVEL = 1
rust-tests: export CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS = true
rust-tests: export CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS = true
# More than processors, because many tests wait.
rust-tests: export RUST_TEST_THREADS = 6
rust-tests:
	@$(call timed,Rust tests,cargo test --release --workspace --exclude perpacket-benches --tests --locked \
		--quiet)
offline-tests:
	@$(call timed,Python tests without servers,$(call select,not live) --ignore-glob='$(EMULATION_TESTS)')
emulation-tests:
	@$(call timed,Python tests of the emulated machine,$(call select,not live) $(EMULATION_TESTS))
host-tests:
	@$(call timed,Python tests of hosts and settings,$(call select,live) $(HOST_TESTS))
live-tests:
	@$(call timed,Python tests that measure servers,$(call select,live) $(addprefix --ignore=,$(HOST_TESTS)))

# The machines that every test run boots.
machine-tests: export MACHINES = arm-pmu queues
# For the agent of another architecture, which they build: half of the compiler's time.
machine-tests: export CARGO_PROFILE_RELEASE_OPT_LEVEL = 1
# With -s the duration of each machine is printed.
machine-tests:
	@$(call timed,Checks in machines under QEMU,$(BIN)/python -m pytest -s --durations=10 -m machines \
		tests/test_machines.py)

test-machines: setup-dev peers
	tests/prepare_guest.sh s390x
	MACHINES="$(MACHINES)" $(BIN)/python -m pytest --durations=20 -m machines tests/test_machines.py

test-cases: setup-dev
	cd tests && ../$(BIN)/python case_score.py

agent: $(if $(TARGET),setup)
	$(if $(TARGET),cd tests && ../$(BIN)/python -m machines.cross $(TARGET),\
		cargo build --release --locked --package perpacket-agent)

test-full: setup-dev peers
	tests/prepare_guest.sh
	$(BIN)/python -m pytest -m full

test-applications: setup-dev
	$(BIN)/python -m pytest --durations=20 -m applications tests/test_applications.py tests/test_emulation_languages.py

check: setup-dev
	cargo fmt --all --check
	cargo clippy --release --workspace --all-targets --locked --quiet -- --deny warnings
	cargo check --locked --quiet --manifest-path fuzz/Cargo.toml
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

docs: setup-dev
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet --builder html docs docs/_build
	@echo docs/_build/index.html

# RUN: directories of runs to keep before the pages are written.
pages: setup-dev
	cd docs && ../$(BIN)/python -m from_code.kept_runs $(abspath $(RUN))

# The schema of the agent's options, of which the package has a copy.
schema: setup
	$(BIN)/perpacket-lab-agent schema > python/perpacket/schema.json

reference: setup-dev
	cd docs && ../$(BIN)/python -m from_code.reference

wheels: $(if $(TARGET),setup,$(BIN)/python)
	$(plugin)
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist . ./lab ./crates/agent ./lab/crates/lab-agent
	$(if $(TARGET),cd tests && ../$(BIN)/python -m machines.cross $(TARGET) ../dist)

bench:
	cargo bench --package perpacket-benches --locked

# The stable compiler instruments the code by flags. --target excludes build scripts from this.
FUZZ_SECONDS ?= 60
FUZZ_HOST := $(shell rustc -vV | sed -n 's/^host: //p')
FUZZ_FLAGS := --cfg fuzzing -Ccodegen-units=1 -Cpasses=sancov-module \
	$(addprefix -Cllvm-args=-sanitizer-coverage-,level=4 inline-8bit-counters pc-table trace-compares)
FUZZ_TARGETS := $(patsubst fuzz/fuzz_targets/%.rs,%,$(wildcard fuzz/fuzz_targets/*.rs))

fuzz:
	RUSTFLAGS="$(FUZZ_FLAGS)" cargo build --quiet --release --locked --manifest-path fuzz/Cargo.toml \
		--target $(FUZZ_HOST)
	for target in $(FUZZ_TARGETS); do \
		mkdir -p fuzz/corpus/$$target && \
		fuzz/target/$(FUZZ_HOST)/release/$$target -max_total_time=$(FUZZ_SECONDS) -verbosity=0 \
			-print_final_stats=1 -artifact_prefix=fuzz/ fuzz/corpus/$$target || exit 1; \
	done

clean:
	rm -rf target fuzz/target docs/_build dist $(VENV)
