# The front door. It needs rustup, which takes the toolchain from rust-toolchain.toml, and a C
# compiler; what else it needs it brings into target/.

CARGO_DENY_VERSION := 0.20.2
CARGO_FUZZ_VERSION := 0.13.2
# How long each target is fuzzed.
FUZZ_SECONDS ?= 60

TOOLS := target/tools
DENY := $(TOOLS)/bin/cargo-deny
FUZZ := RUSTUP_TOOLCHAIN=nightly $(TOOLS)/bin/cargo-fuzz
FUZZ_DIR := --fuzz-dir tests/fuzz
VENV := target/bench-venv
COLLECTOR := otel-config/collector/build.sh
# Parts of the bench, by default all.
PARTS ?=

.DEFAULT_GOAL := help
.PHONY: help demo test bench fuzz advisories collector cargo-deny cargo-fuzz peers

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-12s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## a report of eight GPUs and two hours, made up: no GPU needed
	cargo run -p phasemeter -- demo

test: cargo-deny ## all that must hold: format, lints, tests, licences and sources
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	@# Without Go there is no Collector, and the tests that need one say so.
	@! command -v go >/dev/null || $(COLLECTOR)
	cargo test --workspace --locked
	$(DENY) check bans licenses sources

bench: peers ## what it costs, beside what it is compared with
	cargo build --release --locked -p phasemeter -p phasemeter-bench
	OTELCOL=$$($(COLLECTOR)) target/release/phasemeter-bench $(PARTS)

fuzz: cargo-fuzz ## each fuzz target for FUZZ_SECONDS (60); needs the nightly toolchain
	@targets=$$($(FUZZ) list $(FUZZ_DIR)) && for target in $$targets; do \
	    mkdir -p tests/fuzz/corpus/$$target; \
	    $(FUZZ) run $(FUZZ_DIR) $$target tests/fuzz/corpus/$$target tests/fuzz/seeds/$$target \
	        -- -max_total_time=$(FUZZ_SECONDS) || exit 1; \
	done

advisories: cargo-deny ## known holes in what it is built from; needs the network
	@$(DENY) fetch db || { \
	    echo 'The advisory database cannot be reached from here. Nothing was checked.'; exit 1; }
	$(DENY) check --disable-fetch advisories

collector: ## a real OpenTelemetry Collector, built once; needs Go, or OTELCOL=/path/to/otelcol
	@$(COLLECTOR)

# Cargo does nothing where this version is there.
cargo-deny:
	cargo install cargo-deny --locked --version $(CARGO_DENY_VERSION) --root $(TOOLS)

cargo-fuzz:
	cargo install cargo-fuzz --locked --version $(CARGO_FUZZ_VERSION) --root $(TOOLS)

# The bench goes on without them, and without a Collector.
peers:
	@python3 -m venv $(VENV) && $(VENV)/bin/pip install --quiet -r tests/bench/requirements.txt \
	    || echo 'Not all of tests/bench/requirements.txt can be installed here: the bench goes on without.'
