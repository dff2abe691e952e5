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
TOOLCHAINS := target/toolchains
TEMPLATES := wasm-rules/templates
COLLECTOR := otel-config/collector/build.sh
# Parts of the bench, by default all.
PARTS ?=

# The policies that ship: each is built to a module of its name.
POLICIES := $(notdir $(wildcard wasm-rules/policies/*))
POLICIES_BUILT := wasm-rules/target/wasm32-unknown-unknown/release

.DEFAULT_GOAL := help
.PHONY: help demo test policies bench fuzz advisories collector toolchains build-policies \
    test-policies cargo-deny cargo-fuzz peers

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-12s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## a report of eight GPUs and two hours, made up: no GPU needed
	cargo run -p phasemeter -- demo

test: cargo-deny test-policies ## all that must hold: format, lints, tests, licences and sources
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	@# Without Go there is no Collector, and the tests that need one say so.
	@! command -v go >/dev/null || $(COLLECTOR)
	cargo test --workspace --locked
	$(DENY) check bans licenses sources
	$(DENY) --manifest-path wasm-rules/Cargo.toml --config deny.toml check bans licenses sources

policies: build-policies ## the policies that ship, built anew into wasm-rules/dist
	install -m 644 $(POLICIES:%=$(POLICIES_BUILT)/%.wasm) wasm-rules/dist/

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

# The same bytes from any folder and any home: what else would stand in them of paths is replaced.
build-policies:
	@sysroot=$$(rustc --print sysroot) && commit=$$(rustc -vV | sed -n 's/^commit-hash: //p') && \
	flags="--remap-path-prefix=$$sysroot/lib/rustlib/src/rust=/rustc/$$commit" && \
	for crates in "$${CARGO_HOME:-$$HOME/.cargo}"/registry/src/*; do \
	    flags="$$flags --remap-path-prefix=$$crates=/crates"; \
	done && \
	RUSTFLAGS="$$flags" cargo build --release --locked --target wasm32-unknown-unknown \
	    --manifest-path wasm-rules/Cargo.toml $(POLICIES:%=-p %)

# What is committed must be what its source says.
test-policies: build-policies
	cd wasm-rules && cargo fmt --all --check
	cd wasm-rules && cargo clippy --workspace --all-targets --locked -- -D warnings
	cd wasm-rules && cargo test --workspace --locked
	@for policy in $(POLICIES); do \
	    built=$$(sha256sum < $(POLICIES_BUILT)/$$policy.wasm) && \
	    shipped=$$(sha256sum < wasm-rules/dist/$$policy.wasm) && \
	    if [ "$$built" != "$$shipped" ]; then \
	        echo "wasm-rules/dist/$$policy.wasm is not what its source builds: run make policies"; \
	        exit 1; \
	    fi && \
	    echo "$$policy.wasm $$(wc -c < wasm-rules/dist/$$policy.wasm) bytes, $${shipped%% *}"; \
	done

toolchains: ## what tests take from other languages: zig, componentize-py, QuickJS, nvidia-ml-py
	python3 -m venv $(TOOLCHAINS)/python
	$(TOOLCHAINS)/python/bin/pip install --quiet --disable-pip-version-check \
	    -r $(TEMPLATES)/c/requirements.txt -r $(TEMPLATES)/python/requirements.txt \
	    -r tests/fake-nvml/requirements.txt
	mkdir -p $(TOOLCHAINS)/js
	cp $(TEMPLATES)/js/package.json $(TOOLCHAINS)/js
	npm install --prefix $(TOOLCHAINS)/js --no-audit --no-fund --loglevel error

# Cargo does nothing where this version is there.
cargo-deny:
	cargo install cargo-deny --locked --version $(CARGO_DENY_VERSION) --root $(TOOLS)

cargo-fuzz:
	cargo install cargo-fuzz --locked --version $(CARGO_FUZZ_VERSION) --root $(TOOLS)

# The bench goes on without them, and without a Collector.
peers:
	@python3 -m venv $(VENV) && $(VENV)/bin/pip install --quiet -r tests/bench/requirements.txt \
	    || echo 'Not all of tests/bench/requirements.txt can be installed here: the bench goes on without.'
