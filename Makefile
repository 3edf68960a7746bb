# The verbs of this project; continuous integration and people run the same ones.
# Everything needs Linux, Rust, Go 1.26 or newer, a C compiler, git and make; the rest sets itself up.

CARGO ?= cargo
LAB := target/debug/lab

.PHONY: build tools demo test test-quick unit e2e e2e-durations coverage mutants conformance interop compatibility results soak fuzz bench lint fmt dist images sbom

# Our programs, the lab, and the example add-on that the end-to-end tests run.
build:
	$(CARGO) build --locked --workspace --bins --examples

# What the lab runs and does not contain: Kubernetes, etcd, Argo CD, redis. Built or installed once.
tools: build
	$(LAB) tools

# The main job from end to end. At a terminal it stays up until Ctrl-C, unless DEMO_EXIT is set.
demo: build
	$(LAB) demo

# Everything that continuous integration runs, and how long each part took. The tools first: some tests run one of them without the lab.
test test-quick: export STOPWATCH := $(CURDIR)/target/stopwatch
MEASURED := --config "target.'cfg(unix)'.runner=['$(CURDIR)/tests/stopwatch']"
test:
	mkdir -p target && rm -f $(STOPWATCH)
	tests/stopwatch lint $(MAKE) lint
	tests/stopwatch tools $(MAKE) tools
	tests/stopwatch build $(CARGO) test --locked --workspace --no-run
	$(CARGO) test --locked --workspace $(MEASURED); result=$$?; tests/stopwatch; exit $$result

# Unit tests, rules, and a few histories of the simulation: no lab.
test-quick: export SIM_HISTORIES ?= 20
test-quick: QUICK := --lib --bins --test rules --test simulation
test-quick: tools
	mkdir -p target && rm -f $(STOPWATCH)
	tests/stopwatch build $(CARGO) test --locked --workspace $(QUICK) --no-run
	$(CARGO) test --locked --workspace $(QUICK) $(MEASURED); result=$$?; tests/stopwatch; exit $$result

# What needs no lab.
unit:
	$(CARGO) test --locked --workspace --lib --bins

# End-to-end tests on real control planes. `make e2e TEST=name` runs the tests whose names contain it.
# The first line builds the programs that the tests start.
e2e:
	$(CARGO) build --locked --workspace --bins --examples
	$(CARGO) test --locked --workspace --test e2e -- $(TEST)

# The same, and records how long the groups take: that balances the parts that run at once.
e2e-durations: export LAB_DURATIONS := $(CURDIR)/tests/e2e/durations.txt
e2e-durations: e2e

# Which lines of production code the unit tests and the simulation run. It names modules below COVERAGE_THRESHOLD per cent.
coverage: build
	$(LAB) coverage

# Whether unit tests and simulation notice changes of the synchronization: a sample of MUTANTS_SAMPLE, drawn by MUTANTS_SEED.
# It takes hours; an interrupted run continues. docs/testing.md says more.
mutants: export SIM_HISTORIES ?= 20
mutants: export SIM_BASE ?= 1000000
mutants: build
	$(LAB) mutants

# End-to-end tests with programs of other projects. The results go into docs/results and into the tables of the pages, so there must be no
# uncommitted changes elsewhere; docs/testing.md says more. TEST="name name" runs other tests.
# With OCM (OCM_BIN_DIR, perhaps CLUSTERADM_BIN).
conformance: TEST ?= conformance:: enrols_a_cluster $(if $(CLUSTERADM_BIN),survives_clusteradm clusteradm_disables under_its_label)
conformance: build
	$(LAB) results ocm $(TEST:%=--test %)

# With the Go argocd-agent (ARGOCD_AGENT_BIN): every test with a Go program has that in its name.
interop: TEST ?= a_go_
interop: build
	$(LAB) results argocd-agent $(TEST:%=--test %)

# With another Kubernetes (KUBERNETES_VERSION or KUBEBUILDER_ASSETS) or Argo CD (ARGOCD_BIN and ARGOCD_SOURCE), or with those of the lab.
compatibility: PEERS ?= $(or $(strip $(if $(KUBERNETES_VERSION)$(KUBEBUILDER_ASSETS),kubernetes) $(if $(ARGOCD_BIN),argocd)),kubernetes argocd)
compatibility: TEST ?= enrolment:: delivery:: live:: trees:: users:: sets:: console::
compatibility: build
	$(LAB) results $(PEERS) $(TEST:%=--test %)

# The tables of the pages from docs/results, without a run.
results: build
	$(LAB) results

# Many random histories (SIM_HISTORIES=10000), half of them new; `make test` runs some of them. SIM_BASE repeats the new ones.
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
