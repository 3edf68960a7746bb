# The verbs of this project; continuous integration and people run the same ones.
# Everything needs Linux, Rust, Go 1.26 or newer, a C compiler, git and make; the rest sets itself up.

CARGO ?= cargo
LAB := target/debug/lab

.PHONY: build tools demo test unit e2e soak fuzz bench lint fmt dist images sbom

# Our programs, the lab, and the example add-on that the end-to-end tests run.
build:
	$(CARGO) build --locked --workspace --bins --examples

# What the lab runs and does not contain: Kubernetes, etcd, Argo CD, redis. Built or installed once.
tools: build
	$(LAB) tools

# The main job from end to end. At a terminal it stays up until Ctrl-C, unless DEMO_EXIT is set.
demo: build
	$(LAB) demo

# Everything that continuous integration runs. The tools first: some tests run one of them without the lab.
test: lint tools
	$(CARGO) test --locked --workspace

# What needs no lab.
unit:
	$(CARGO) test --locked --workspace --lib --bins

# End-to-end tests on real control planes. `make e2e TEST=name` runs the tests whose names contain it.
# The first line builds the programs that the tests start.
e2e:
	$(CARGO) build --locked --workspace --bins --examples
	$(CARGO) test --locked --workspace --test e2e -- $(TEST)

# Many random histories (SIM_HISTORIES=10000); `make test` runs a few hundred of them.
# A failing one prints its number; SIM_SEED=number repeats it with all details.
soak: export SIM_HISTORIES ?= 10000
soak:
	$(CARGO) test --release --locked -p tests --test simulation converge -- --nocapture

# Coverage-guided fuzzing with libFuzzer, FUZZ_SECONDS for each target; `make fuzz TARGET=resp` runs one. Needs a C++ compiler.
# The first input that fails ends it, in a file below target/fuzz/failed; docs/testing.md says more.
fuzz: export RUSTC_WORKSPACE_WRAPPER := $(CURDIR)/tests/fuzz/instrument
fuzz: FUZZ_SECONDS ?= 60
fuzz: TARGET ?= frames resp filter certificate token request object
fuzz:
	$(CARGO) build --locked -p tests --features libfuzzer --example fuzz
	set -e; for target in $(TARGET); do \
	  mkdir -p target/fuzz/$$target target/fuzz/failed; \
	  FUZZ_TARGET=$$target target/debug/examples/fuzz -max_total_time=$(FUZZ_SECONDS) -max_len=65536 -timeout=10 \
	    -rss_limit_mb=1024 -artifact_prefix=target/fuzz/failed/$$target- target/fuzz/$$target; \
	done

# What our programs cost, as tables in Markdown; docs/performance.md has some. `make bench BENCH=name` measures what has that in
# its name; parameters are variables of the environment.
bench: tools
	$(CARGO) build --locked --release --workspace --bins
	target/release/bench $(BENCH)

lint:
	$(CARGO) fmt --all -- --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

fmt:
	$(CARGO) fmt --all

# What a release is made of (docs/releases.md), for each of PLATFORMS (amd64, arm64): static programs in target/dist, images of them, and
# what is in them, as CycloneDX.
dist images sbom: export PLATFORMS ?= $(if $(filter aarch64,$(shell uname -m)),arm64,amd64)
images: export REGISTRY ?= $(shell release/registry)
images: export TAG ?= v$(shell sed -n 's/^version: //p' manifests/hub/Chart.yaml)

dist:
	release/dist

images: dist
	release/images

sbom:
	release/sbom
