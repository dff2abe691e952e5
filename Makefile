# Every task of this repository. Needs rustup and a C compiler, and installs what else it needs:
# compiled programs into the user's cache directory, so that every clone shares them.

CARGO_AUDITABLE_VERSION := 0.7.7
CARGO_CYCLONEDX_VERSION := 0.5.9
CARGO_DENY_VERSION := 0.20.2
CARGO_FUZZ_VERSION := 0.13.2
CARGO_MUTANTS_VERSION := 27.1.0
RUST_AUDIT_INFO_VERSION := 0.5.4
# Seconds per fuzz target.
FUZZ_SECONDS ?= 60
# Length of a soak test; if empty, that of each part.
SOAK_SECONDS ?=
# How often sidecars are killed in the part `kills` of the soak test.
SOAK_CYCLES ?= 200
# How the files of a release are built.
RELEASE_FLAGS ?= --release
# After how many minutes all that `make up` starts ends by itself.
UP_MINUTES ?= 120
# What a release, a wheel and the root of an image are for: amd64 or arm64. What this machine is not is cross-compiled.
MACHINE := $(subst x86_64,amd64,$(subst aarch64,arm64,$(shell uname -m)))
ARCHITECTURE ?= $(MACHINE)
# The platforms of the image.
ARCHITECTURES ?= amd64 arm64
# Parts of the benchmark or the soak test; if empty, all.
PARTS ?=
# How the demo is built; how many crates that compiles at most, which tests/conventions checks; and
# how many minutes it takes on two cores.
DEMO_FLAGS := --profile demo --no-default-features
DEMO_CRATES := 162
DEMO_MINUTES := 2

# Most of the slow tests wait. So more of them run at a time than there are cores.
export RUST_TEST_THREADS ?= $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN))))

VERSION := $(shell sed -n '/^\[workspace.package\]/,/^$$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/phasemeter
AUDITABLE := $(CACHE)/cargo-auditable-$(CARGO_AUDITABLE_VERSION)/bin/cargo-auditable
AUDIT_INFO := $(CACHE)/rust-audit-info-$(RUST_AUDIT_INFO_VERSION)/bin/rust-audit-info
CYCLONEDX := $(CACHE)/cargo-cyclonedx-$(CARGO_CYCLONEDX_VERSION)/bin/cargo-cyclonedx
DENY := $(CACHE)/cargo-deny-$(CARGO_DENY_VERSION)/bin/cargo-deny
FUZZ_BIN := $(CACHE)/cargo-fuzz-$(CARGO_FUZZ_VERSION)/bin/cargo-fuzz
# The sanitizer keeps freed memory, up to 256 MiB by default, which the limit below would count: of one corpus
# 827 MiB with the default, 271 with this.
FUZZ := ASAN_OPTIONS=quarantine_size_mb=64 RUSTUP_TOOLCHAIN=nightly $(FUZZ_BIN)
FUZZ_DIR := --fuzz-dir tests/fuzz
# The budget of a request of up to 64 KiB: seconds, and MiB of one allocation and in all.
FUZZ_RECEIVER := -max_len=65536 -timeout=2 -malloc_limit_mb=64 -rss_limit_mb=512
MUTANTS_BIN := $(CACHE)/cargo-mutants-$(CARGO_MUTANTS_VERSION)/bin/cargo-mutants
VENV := target/bench-venv
FOREIGN := $(filter-out $(MACHINE),$(ARCHITECTURE))
RELEASE_FILES := target/release-files$(FOREIGN:%=-%)
COLLECTOR := otel-config/collector/build.sh

# The default policies. Each is built to a module of its name.
POLICIES := $(notdir $(wildcard wasm-rules/policies/*))
POLICIES_BUILT := wasm-rules/target/wasm32-unknown-unknown/release
# Prints the module that Cargo builds for $policy: file names have underscores.
MODULE = echo "$(POLICIES_BUILT)/$$(echo $$policy | tr - _).wasm"
# Tests on the fake driver wait for their readings: they run beside the others. By names, as Cargo has it: each test
# target is in one of the two.
TESTS_THAT_WAIT := --test "li*"
OTHER_TESTS := --lib --bins --examples --test "[!l]*" --test "l[!i]*"
TEST := cargo test --workspace --locked --no-fail-fast
LATER := nice -n 19
# Named otherwise, so that `make -n` does not run the recipes that contain it.
MAKE_ALSO = $(MAKE) --no-print-directory
IN_POLICIES := cd wasm-rules &&
CLIPPY := cargo clippy --locked
CHECK_ADVISORIES = $(DENY) check --disable-fetch advisories && \
    $(DENY) --manifest-path wasm-rules/Cargo.toml --config deny.toml check --disable-fetch advisories
BUILT := $${CARGO_TARGET_DIR:-target}/demo/phasemeter
UP_TO_DATE := [ -x $(BUILT) ] && \
    [ -z "$$(find Cargo.lock collector/*/src rules/src -newer $(BUILT) -print -quit)" ]

.DEFAULT_GOAL := help
.PHONY: help demo up down test lint test-demo test-backends test-kubernetes test-arm64 test-all stress soak soak-live soak-kills soak-outage soak-fleet soak-routed generate manifests policies bench fuzz mutants advisories \
    sbom release check-reproducible image image-root image-archive wheel collector toolchain build-policies compare-policies deny check-release peers

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-20s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: toolchain ## report on eight simulated GPUs; no GPU needed
	@[ -x $(BUILT) ] || echo "Building the demo: $(DEMO_CRATES) crates, about $(DEMO_MINUTES) minutes on two cores. No GPU needed."
	@cargo run $$($(UP_TO_DATE) && echo --quiet) --locked -p phasemeter $(DEMO_FLAGS) -- demo

up: toolchain ## a Collector, Prometheus and Jaeger with a simulated fleet, on the loopback address for UP_MINUTES (120); needs Go
	@echo 'Building Phasemeter, a Collector, Prometheus and Jaeger: some minutes the first time.'
	@cargo build --quiet --locked -p phasemeter --bin phasemeter --example node && \
	    OTELCOL=$$($(COLLECTOR)) && PROMETHEUS=$$(tests/collector/prometheus/build.sh) && \
	    JAEGER=$$(tests/collector/jaeger/build.sh) && export OTELCOL PROMETHEUS JAEGER && \
	    STACK_BUILT=$$(cd $${CARGO_TARGET_DIR:-target}/debug && pwd) STACK_MINUTES=$(UP_MINUTES) tests/stack/stack.sh up

down: ## stop what `make up` has started
	@tests/stack/stack.sh down

test: toolchain ## run all tests that need only Rust; rebuild the default policies and compare them
	@.ci/steps \
	    'build: cargo test --workspace --locked --no-run' \
	    --beside \
	    'policies, tests: $(IN_POLICIES) $(LATER) cargo test --workspace --locked --no-fail-fast' \
	    'policies, committed builds: $(LATER) $(MAKE_ALSO) compare-policies' \
	    --beside \
	    'tests that wait: $(TEST) $(TESTS_THAT_WAIT)' \
	    --then \
	    'tests: $(TEST) $(OTHER_TESTS)' \
	    'documentation, tests: $(TEST) --doc'

lint: toolchain ## check format and lints
	@.ci/steps \
	    'format: cargo fmt --all --check' \
	    'lints: $(CLIPPY) --workspace --all-targets -- -D warnings' \
	    'demo, lints: $(CLIPPY) -p phasemeter $(filter-out --profile demo,$(DEMO_FLAGS)) -- -D warnings' \
    'fuzz targets, lints: $(CLIPPY) -p phasemeter-engine --no-default-features --features full -- -D warnings' \
	    'policies, format: $(IN_POLICIES) cargo fmt --all --check' \
	    'policies, lints: $(IN_POLICIES) $(CLIPPY) --workspace --all-targets -- -D warnings'

test-demo: toolchain ## check that what `make demo` builds reports what a full build does
	@reports=$$(mktemp -d) && trap 'rm -r "$$reports"' EXIT && \
	cargo test --quiet --workspace --locked --no-run && \
	$${CARGO_TARGET_DIR:-target}/debug/phasemeter demo > "$$reports/full" && \
	cargo run --quiet --locked -p phasemeter $(DEMO_FLAGS) -- demo > "$$reports/demo" && \
	cmp "$$reports/full" "$$reports/demo"

test-backends: toolchain ## run the tests with a real Collector and Prometheus, a browser, other languages, SQL engines, the OpenTelemetry SDK and NVML's client for Python; check the dependencies' licenses
	@.ci/backends

test-kubernetes: toolchain ## run the tests on a real Kubernetes node with GPUs of the fake driver; needs root
	@.ci/kubernetes

test-arm64: toolchain ## build the image for amd64 and arm64 and test it, arm64 emulated by QEMU; needs Debian
	@.ci/arm64 $(DEMO_FLAGS)

test-all: lint test test-demo test-backends test-kubernetes test-arm64 ## run all of the above, as root on Debian

generate: toolchain ## write again what is generated from code and registry: names, reference pages, alert rules, exercises, pictures
	PHASEMETER_UPDATE=1 cargo test --workspace --locked --test conventions
	PHASEMETER_UPDATE=1 cargo test --workspace --locked --test profiles --test logs --test encode --test files
	PHASEMETER_UPDATE=1 cargo test --workspace --locked --test audit -- demo:: exercises::

manifests: ## render the plain manifests of Kubernetes from the Helm chart, and the table of its values; needs Go
	PATH="$$(tests/kubernetes/build.sh):$$PATH" otel-config/manifests/render.sh otel-config/manifests otel-config/chart/README.md

policies: build-policies ## rebuild the default policies into wasm-rules/dist
	@for policy in $(POLICIES); do \
	    install -m 644 "$$($(MODULE))" wasm-rules/dist/$$policy.wasm || exit 1; \
	done
	@# Also for builds without a compiler. A test of rules compares them. The program embeds them: it is built once, and
	@# before a new policy, which has none yet, is listed.
	@cargo build --quiet --locked -p phasemeter --bin phasemeter
	@for policy in $(POLICIES); do \
	    $${CARGO_TARGET_DIR:-target}/debug/phasemeter policy compile --interpreter wasm-rules/dist/$$policy.wasm && \
	    mv wasm-rules/dist/$$policy.aot wasm-rules/dist/interpreted/ || exit 1; \
	done
	@# Its order is that of evaluation: new policies are added at the end.
	@cd wasm-rules/dist && listed=$$(cut -c67- SHA256SUMS) && \
	    sha256sum $$listed $$(ls *.wasm | grep -vxF "$$listed") > SHA256SUMS.new && mv SHA256SUMS.new SHA256SUMS

bench: toolchain peers ## measure cost and memory beside other programs, and compare recommendations
	cargo build --release --locked -p phasemeter -p phasemeter-bench
	OTELCOL=$$($(COLLECTOR)) target/release/phasemeter-bench $(PARTS)

stress: toolchain ## repeat the tests that depend on time, ports or the driver, on a busy machine
	tests/stress.sh

soak: toolchain $(addprefix soak-,$(or $(PARTS),live kills outage fleet routed)) ## run PARTS for SOAK_SECONDS: live (600) under random driver faults, signals, clock steps, kills and rejections; kills, SOAK_CYCLES (200) of them beside a real Collector, networks, disks and stores that fail; outage (3600), a backend that is down for so long; fleet (3600), 1,000 GPUs through a Collector, the gateway and Prometheus under outages; routed (3600), 1,000 GPUs through three gateways, of which one is killed

SOAK := $(and $(SOAK_SECONDS),PHASEMETER_SOAK_SECONDS=$(SOAK_SECONDS)) cargo test --workspace --locked
SOAK_TESTS := -- --ignored --nocapture

soak-live:
	$(SOAK) --test live $(SOAK_TESTS) soak::

soak-kills:
	OTELCOL=$$($(COLLECTOR)) PHASEMETER_SOAK_CYCLES=$(SOAK_CYCLES) \
	    cargo test --workspace --locked --test collector $(SOAK_TESTS) durable::sums

soak-outage:
	OTELCOL=$$($(COLLECTOR)) $(SOAK) --test collector $(SOAK_TESTS) durable::outage

soak-fleet: SOAK_PART := soak::
soak-routed: SOAK_PART := routed::
soak-fleet soak-routed:
	OTELCOL=$$($(COLLECTOR)) PROMETHEUS=$$(tests/collector/prometheus/build.sh) \
	    $(SOAK) --test collector $(SOAK_TESTS) $(SOAK_PART)

fuzz: toolchain $(FUZZ_BIN) ## run each fuzz target for FUZZ_SECONDS (60); needs the nightly toolchain
	@targets=$$($(FUZZ) list $(FUZZ_DIR)) && for target in $$targets; do \
	    mkdir -p tests/fuzz/corpus/$$target; \
	    case $$target in otlp_request) limits='$(FUZZ_RECEIVER)';; *) limits=;; esac; \
	    $(FUZZ) run $(FUZZ_DIR) $$target tests/fuzz/corpus/$$target tests/fuzz/seeds/$$target \
	        -- -max_total_time=$(FUZZ_SECONDS) $$limits || exit 1; \
	done

mutants: toolchain $(MUTANTS_BIN) ## check that the tests of meter, savings and policy host catch changes; takes hours
	@PATH="$(dir $(MUTANTS_BIN)):$$PATH" .ci/mutants phasemeter-meter phasemeter-savings phasemeter-rules

advisories: $(DENY) ## check the dependencies for known vulnerabilities; needs the network
	@$(DENY) fetch db || { \
	    echo 'The advisory database cannot be reached. Nothing was checked.'; exit 1; }
	@$(CHECK_ADVISORIES)

sbom: toolchain $(CYCLONEDX) ## write the bill of materials of the binary (CycloneDX) to target/release-files
	@.ci/release '' '' $(CYCLONEDX) --sbom

release: toolchain $(AUDITABLE) $(AUDIT_INFO) $(CYCLONEDX) ## build binary, bill of materials, provenance and checksums into target/release-files; for another machine if ARCHITECTURE (amd64, arm64) is given
	@RELEASE_FILES=$(RELEASE_FILES) .ci/cross '$(FOREIGN)' \
	    .ci/release $(AUDITABLE) $(AUDIT_INFO) $(CYCLONEDX) $(RELEASE_FLAGS)

check-reproducible: toolchain $(AUDITABLE) $(AUDIT_INFO) $(CYCLONEDX) ## build a release twice, in two directories, and compare the files; takes as long as two releases
	@.ci/reproducible $(AUDITABLE) $(AUDIT_INFO) $(CYCLONEDX) $(RELEASE_FLAGS)

image: ## build the container image for amd64 and arm64, as OCI archive in target/image; needs Debian, and no container engine
	rm -rf target/image
	@for architecture in $(ARCHITECTURES); do $(MAKE_ALSO) image-root ARCHITECTURE=$$architecture || exit 1; done
	@$(MAKE_ALSO) image-archive

# Of the files of all ARCHITECTURES.
image-archive:
	VERSION=$(VERSION) REVISION=$$(git rev-parse HEAD) otel-config/image/archive.sh target/image/phasemeter.tar \
	    docker.io/library/phasemeter:$(VERSION) otel-config/image/Containerfile \
	    $(foreach architecture,$(ARCHITECTURES),$(architecture)=target/image/$(architecture))

# The files of the image for ARCHITECTURE.
image-root: release
	$(and $(FOREIGN),otel-config/image/libraries.sh $(FOREIGN) target/image/libraries)
	otel-config/image/root.sh $(RELEASE_FILES)/phasemeter target/image/$(ARCHITECTURE) \
	    $(and $(FOREIGN),target/image/libraries)

wheel: release ## build the wheel for PyPI, with the binary and the Python module, into target/wheels; needs Python
	otel-config/python/build.sh $(RELEASE_FILES)/phasemeter target/wheels

collector: ## build an OpenTelemetry Collector and print its path; needs Go
	@$(COLLECTOR)

# What rust-toolchain.toml names. Costs nothing if it is installed.
toolchain:
	@.ci/toolchain

# Gives the same bytes in every directory: paths in the modules are replaced.
build-policies: toolchain
	@sysroot=$$(rustc --print sysroot) && commit=$$(rustc -vV | sed -n 's/^commit-hash: //p') && \
	flags="--remap-path-prefix=$$sysroot/lib/rustlib/src/rust=/rustc/$$commit" && \
	for crates in "$${CARGO_HOME:-$$HOME/.cargo}"/registry/src/*; do \
	    flags="$$flags --remap-path-prefix=$$crates=/crates"; \
	done && \
	RUSTFLAGS="$$flags" cargo build --release --locked --target wasm32-unknown-unknown \
	    --manifest-path wasm-rules/Cargo.toml $(POLICIES:%=-p %)

# The committed modules must be what their sources build.
compare-policies: build-policies
	@status=0; for policy in $(POLICIES); do \
	    built=$$(sha256sum < "$$($(MODULE))") && \
	    committed=$$(sha256sum < wasm-rules/dist/$$policy.wasm) && \
	    if [ "$$built" = "$$committed" ]; then \
	        echo "$$policy.wasm $$(wc -c < wasm-rules/dist/$$policy.wasm) bytes, $${committed%% *}"; \
	    else \
	        echo "wasm-rules/dist/$$policy.wasm differs from its build: run make policies"; \
	        status=1; \
	    fi || status=1; \
	done; exit $$status

# Bans, licenses, sources and known vulnerabilities of all dependencies. Skipped if cargo-deny cannot be
# installed; if CI is set, that fails. Without the network, vulnerabilities cannot be checked: that is a
# line of the summary, which .ci/steps repeats, and not a success.
deny:
	@if ! $(MAKE_ALSO) $(DENY); then \
	    echo 'SKIPPED: dependencies (cargo-deny, which checks them, cannot be installed)'; \
	    [ -z "$$CI" ]; exit; \
	fi; \
	$(DENY) check bans licenses sources && \
	$(DENY) --manifest-path wasm-rules/Cargo.toml --config deny.toml check bans licenses sources && \
	if timeout 60 $(DENY) fetch db; then $(CHECK_ADVISORIES); \
	else echo 'NOT CHECKED: known vulnerabilities of dependencies (their database cannot be reached); run make advisories with the network'; fi

# That a release can be built, and that its files agree: the demo, which compiles fastest.
check-release:
	@if ! $(MAKE_ALSO) $(AUDITABLE) $(AUDIT_INFO) $(CYCLONEDX); then \
	    echo 'SKIPPED: release files (the tools that make them cannot be installed)'; \
	    [ -z "$$CI" ]; exit; \
	fi; \
	$(MAKE_ALSO) release RELEASE_FLAGS='$(DEMO_FLAGS)'

$(AUDITABLE):
	cargo install cargo-auditable --locked --version $(CARGO_AUDITABLE_VERSION) --root $(@:/bin/cargo-auditable=)

$(AUDIT_INFO):
	cargo install rust-audit-info --locked --version $(RUST_AUDIT_INFO_VERSION) --root $(@:/bin/rust-audit-info=)

$(CYCLONEDX):
	cargo install cargo-cyclonedx --locked --version $(CARGO_CYCLONEDX_VERSION) --root $(@:/bin/cargo-cyclonedx=)

$(DENY):
	cargo install cargo-deny --locked --version $(CARGO_DENY_VERSION) --root $(@:/bin/cargo-deny=)

$(FUZZ_BIN):
	cargo install cargo-fuzz --locked --version $(CARGO_FUZZ_VERSION) --root $(@:/bin/cargo-fuzz=)

$(MUTANTS_BIN):
	cargo install cargo-mutants --locked --version $(CARGO_MUTANTS_VERSION) --root $(@:/bin/cargo-mutants=)

# The benchmark runs without those that cannot be installed.
peers:
	@if ! command -v python3 >/dev/null; then \
	    echo 'SKIPPED: other programs of the benchmark: no Python, which runs them'; exit; \
	fi; \
	python3 -m venv $(VENV) && $(VENV)/bin/pip install --quiet --require-hashes -r tests/bench/requirements.txt \
	    || echo 'Not all of tests/bench/requirements.txt can be installed: the benchmark runs without.'
