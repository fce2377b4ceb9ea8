# The two main targets: `make run` runs the demonstration, `make test` runs all checks and tests.
# Each target installs missing Debian packages by name and reports that.

CARGO ?= cargo
# A recent Rust need not be first on PATH. Makes below this one inherit the result.
ifeq ($(MAKELEVEL),0)
export PATH := $(shell scripts/recent-rust --path)
endif
DEMO_FLAGS ?=

# Destinations of `make install`. DESTDIR, for packagers, is prepended to every path, but not to the
# paths inside the units. The configuration is always in /etc, where the programs look for it.
PREFIX ?= /usr
DESTDIR ?=
# Directory of the built programs.
BUILT ?= target/release
PROGRAMS = covalent covalentd covalent-control covalent-echo covalent-replay covalent-bank covalent-registers covalent-bench
# Those that `covalent demo` starts (cli/src/demo), and itself. A test compares them.
DEMO_PROGRAMS = covalent covalentd covalent-control covalent-echo covalent-replay covalent-bank covalent-bench
LIBRARIES = $(LIBRARY_FILE) libcovalent.a
VERSION := $(shell sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
# The soname of the shared library (set in verbs/c/build.rs), and its file.
LIBRARY_NAME = libcovalent.so.0
LIBRARY_FILE = libcovalent.so.$(VERSION)
# Programs with manual pages and completions. The first one generates them.
DESCRIBED = covalent covalentd covalent-control
UNITS = covalentd.socket covalentd.service covalent-control.service covalent.target
# sysusers.d file that creates the user of the services.
SYSUSERS_DIR = $(DESTDIR)$(PREFIX)/lib/sysusers.d
# systemd drop-ins that the administrator copies if needed; see the file.
DROP_INS = covalentd-dpdk.conf
# Schema for telemetry clients.
SCHEMA = base/grpc-schema/proto/covalent/telemetry/v1/telemetry.proto
# For Prometheus and Grafana; docs/metrics.md describes each file.
TELEMETRY = prometheus.yml alerts.yml alerts_test.yml grafana.json
BIN_DIR = $(DESTDIR)$(PREFIX)/bin
# Debian packages use a directory for each architecture.
LIBRARY_DIR ?= $(PREFIX)/lib
LIB_DIR = $(DESTDIR)$(LIBRARY_DIR)
INCLUDE_DIR = $(DESTDIR)$(PREFIX)/include
UNIT_DIR = $(DESTDIR)$(PREFIX)/lib/systemd/system
SHARE_DIR = $(DESTDIR)$(PREFIX)/share/covalent
MAN_DIR = $(DESTDIR)$(PREFIX)/share/man
BASH_DIR = $(DESTDIR)$(PREFIX)/share/bash-completion/completions
ZSH_DIR = $(DESTDIR)$(PREFIX)/share/zsh/vendor-completions
FISH_DIR = $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
COMPLETIONS = $(DESCRIBED:%=$(BASH_DIR)/%) $(DESCRIBED:%=$(ZSH_DIR)/_%) $(DESCRIBED:%=$(FISH_DIR)/%.fish)
# One page for each command of `covalent`.
MAN_PAGES = $(MAN_DIR)/man1/covalent.1 $(MAN_DIR)/man1/covalent-*.1 $(MAN_DIR)/man8/covalentd.8 $(MAN_DIR)/man8/covalent-control.8
# Plugin directory of Debian's Wireshark with PREFIX=/usr.
DISSECTOR_DIR = $(DESTDIR)$(PREFIX)/lib/$(shell gcc -print-multiarch 2>/dev/null)/wireshark/plugins
CONFIG_DIR = $(DESTDIR)/etc/covalent

# Debian 12 has only CMake 3.25. Installed below target, so `make clean` removes it.
BENCH_CMAKE_VERSION = 4.4.4
BENCH_CMAKE = target/bench-tools/bin/cmake
# Unpacked, not installed: the Debian package would start a service.
BENCH_ETCD = target/bench-tools/etcd/usr/bin/etcd
# Site generator of the documentation; Debian 12 has none. Built without optimization and debug
# information: that takes a third of the time, and the site still takes only seconds.
MDBOOK_VERSION = 0.5.4
MDBOOK = target/doc-tools/mdbook-$(MDBOOK_VERSION)/bin/mdbook
# Compares the client crate's interface with that of an earlier version. Debian 12 has none. A new
# Rust needs a new version of it. Built without optimization, as mdBook.
SEMVER_CHECKS_VERSION = 0.51.0
SEMVER_CHECKS = target/doc-tools/cargo-semver-checks-$(SEMVER_CHECKS_VERSION)/bin/cargo-semver-checks
# A commit or a tag. Before the first tag: the last commit, so only uncommitted changes are compared.
SEMVER_BASELINE ?= $(shell git describe --tags --abbrev=0 2>/dev/null || git rev-parse HEAD)
# Unpacked too, unless Prometheus is installed. The tests look for it there.
PROMETHEUS = target/test-tools/prometheus/usr/bin/prometheus
# Test tools without a Debian package, or whose package would start a service.
UNIT_TOOLS = $(if $(shell command -v prometheus),,$(PROMETHEUS)) $(MDBOOK)

# Sizes of the meshes that `fresh` simulates: a debug build takes a second for the smallest.
FRESH_NODES = 12,25,40

.PHONY: help run test fresh unit-build beside-lint test-packages publish-check semver-check build install uninstall deb deb-test docs lint unit dpdk-test dpdk-build metrics schema ebpf ebpf-check loom spec spec-bounded instructions fuzz soak guest-test bench bench-page bench-peers clean

help:            ## Shows this list
	@grep -hE '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed 's/: .*##/\t/' | expand -t 16

# Without default features, `covalent-bench` has only the suites that the demonstration runs.
run:             ## Builds the programs of the demonstration and runs it
	@scripts/install-packages build
	@$(CARGO) build --profile demo --workspace --no-default-features --locked $(DEMO_PROGRAMS:%=--bin %)
	@target/demo/covalent demo $(DEMO_FLAGS)

build:           ## Builds everything in release mode
	@scripts/install-packages build
	@$(CARGO) build --release --workspace --locked
	@scripts/link-library $(BUILT)/libcovalent_c.a $(VERSION) $(BUILT)
	@sed -e 's,@VERSION@,$(VERSION),' -e 's,@PREFIX@,$(CURDIR)/verbs/c,' -e 's,@LIBDIR@,$(abspath $(BUILT)),' -e 's/-lcovalent/& -Wl,-rpath,$${libdir}/' verbs/c/covalent.pc.in >$(BUILT)/covalent-uninstalled.pc

# Does not build, because it runs as root.
install:         ## Installs the output of `make build`: PREFIX=/usr, DESTDIR= (as root)
	@for file in $(PROGRAMS) $(LIBRARIES); do \
		[ -e $(BUILT)/$$file ] || { echo "install: $(BUILT)/$$file is missing: run \`make build\` first" >&2; exit 1; }; \
	done
	@install -d $(BIN_DIR) $(LIB_DIR) $(INCLUDE_DIR) $(UNIT_DIR) $(SYSUSERS_DIR) $(SHARE_DIR) $(CONFIG_DIR) $(MAN_DIR) $(BASH_DIR) $(ZSH_DIR) $(FISH_DIR)
	@install -m 755 $(PROGRAMS:%=$(BUILT)/%) $(BIN_DIR)
	@install -m 644 $(BUILT)/$(LIBRARY_FILE) $(LIB_DIR)/$(LIBRARY_FILE)
	@ln -sf $(LIBRARY_FILE) $(LIB_DIR)/$(LIBRARY_NAME)
	@ln -sf $(LIBRARY_NAME) $(LIB_DIR)/libcovalent.so
	@install -m 644 $(BUILT)/libcovalent.a $(LIB_DIR)
	@install -m 644 verbs/c/include/covalent.h $(INCLUDE_DIR)
	@install -d $(LIB_DIR)/pkgconfig
	@sed -e 's,@VERSION@,$(VERSION),' -e 's,@PREFIX@,$(PREFIX),' -e 's,@LIBDIR@,$(LIBRARY_DIR),' verbs/c/covalent.pc.in >$(LIB_DIR)/pkgconfig/covalent.pc
	@chmod 644 $(LIB_DIR)/pkgconfig/covalent.pc
	@for unit in $(UNITS); do \
		sed -E 's,^(ExecStart|ExecReload)=/usr/bin/,\1=$(PREFIX)/bin/,' configs/$$unit >$(UNIT_DIR)/$$unit && \
		chmod 644 $(UNIT_DIR)/$$unit || exit 1; \
	done
	@install -m 644 configs/covalent.sysusers $(SYSUSERS_DIR)/covalent.conf
	@[ -n "$(DESTDIR)" ] || ! command -v systemd-sysusers >/dev/null || systemd-sysusers $(SYSUSERS_DIR)/covalent.conf
	@install -m 644 $(DROP_INS:%=configs/%) $(TELEMETRY:%=configs/%) $(SCHEMA) $(SHARE_DIR)
	@umask 022 && $(BUILT)/covalent man $(MAN_DIR) >/dev/null && \
	for program in $(DESCRIBED); do \
		$(BUILT)/covalent completions bash $$program >$(BASH_DIR)/$$program && \
		$(BUILT)/covalent completions zsh $$program >$(ZSH_DIR)/_$$program && \
		$(BUILT)/covalent completions fish $$program >$(FISH_DIR)/$$program.fish || exit 1; \
	done
	@install -d $(DISSECTOR_DIR)
	@install -m 644 configs/covalent.lua $(DISSECTOR_DIR)
	@if [ -e $(CONFIG_DIR)/covalent.toml ]; then \
		echo "kept: $(CONFIG_DIR)/covalent.toml"; \
	else \
		install -m 644 configs/covalent.toml $(CONFIG_DIR)/covalent.toml; \
		echo "made: $(CONFIG_DIR)/covalent.toml; set node.name and the port's interface there"; \
	fi
	@[ -n "$(DESTDIR)" ] || [ "$$(id -u)" -ne 0 ] || ldconfig
	@echo "installed below $(DESTDIR)$(PREFIX). So far only root may attach applications; to let others, as root:"
	@echo "  usermod -aG covalent USER   (without systemd first: useradd --system --user-group covalent)"
	@echo "  and set group = \"covalent\" under [node] in /etc/covalent/covalent.toml, before the daemon starts"

uninstall:       ## Removes the installed files; configuration and state stay
	@rm -f $(PROGRAMS:%=$(BIN_DIR)/%) $(LIBRARIES:%=$(LIB_DIR)/%) $(LIB_DIR)/$(LIBRARY_NAME) $(LIB_DIR)/libcovalent.so $(LIB_DIR)/pkgconfig/covalent.pc $(INCLUDE_DIR)/covalent.h $(UNITS:%=$(UNIT_DIR)/%) $(SYSUSERS_DIR)/covalent.conf $(DROP_INS:%=$(SHARE_DIR)/%) $(TELEMETRY:%=$(SHARE_DIR)/%) $(SHARE_DIR)/telemetry.proto $(COMPLETIONS) $(MAN_PAGES) $(DISSECTOR_DIR)/covalent.lua
	@rmdir $(SHARE_DIR) 2>/dev/null || true
	@rmdir -p $(DISSECTOR_DIR) 2>/dev/null || true
	@[ -n "$(DESTDIR)" ] || [ "$$(id -u)" -ne 0 ] || ldconfig
	@echo "removed. Left as they are: /etc/covalent, /var/lib/covalent (the node's GUID) and the user covalent"

deb: build       ## Builds Debian packages in target/debian and lints them
	@scripts/install-packages deb
	@scripts/deb $(BUILT)

deb-test:        ## Tests the packages in a clean Debian (as root; downloads 100 MB)
	@scripts/install-packages deb
	@scripts/deb-test

docs: $(MDBOOK)  ## Builds the documentation site target/site/index.html and checks every link
	@scripts/install-packages build
	@$(CARGO) build --workspace --bin covalent-guide --locked --quiet
	@MDBOOK_PREPROCESSOR__REPOSITORY__COMMAND="$(CURDIR)/target/debug/covalent-guide preprocess" $(MDBOOK) build docs
	@target/debug/covalent-guide check target/site

$(MDBOOK):
	@scripts/install-packages build
	@echo "installing: mdBook $(MDBOOK_VERSION) into target/doc-tools; a minute, once"
	@CARGO_PROFILE_DEV_DEBUG=false $(CARGO) install mdbook --version $(MDBOOK_VERSION) --debug --locked --quiet --no-default-features --features search --root target/doc-tools/mdbook-$(MDBOOK_VERSION)

# A minute of CPU time the first time, then seconds. Refuses uncommitted changes. `lint` packs without
# building.
publish-check:   ## Packs, builds and checks the crates for crates.io; publishes nothing
	@scripts/install-packages build
	@CARGO="$(CARGO)" scripts/check-packages --build

# The types that `covalent` exports are in these crates. Features are for the daemon.
semver-check: $(SEMVER_CHECKS) ## Finds breaking changes of the client crate since SEMVER_BASELINE (the last tag)
	@CARGO="$(CARGO)" $(SEMVER_CHECKS) semver-checks --baseline-rev $(SEMVER_BASELINE) --only-explicit-features -p covalent -p covalent-ipc -p covalent-pipe -p covalent-protocol -p covalent-api

$(SEMVER_CHECKS):
	@scripts/install-packages build
	@echo "installing: cargo-semver-checks $(SEMVER_CHECKS_VERSION) into target/doc-tools; minutes, once"
	@$(CARGO) install cargo-semver-checks --version $(SEMVER_CHECKS_VERSION) --debug --locked --quiet --root target/doc-tools/cargo-semver-checks-$(SEMVER_CHECKS_VERSION)

# Builds and model checks run first, in two concurrent chains: they share no directory, measure no
# time, and neither keeps two processors busy alone. The second chain begins with the packages that
# the first needs late. Tests that depend on time run alone afterwards.
test:            ## All checks: lints, docs, XDP object, model checkers, instruction counts, tests
	@scripts/install-packages build
	@mkdir -p target
	@$(MAKE) --no-print-directory beside-lint >target/beside-lint.log 2>&1 & beside=$$!; \
	$(MAKE) --no-print-directory lint spec-bounded dpdk-build unit-build; status=$$?; \
	wait $$beside || status=$$?; \
	cat target/beside-lint.log; \
	exit $$status
	@$(MAKE) --no-print-directory fresh unit dpdk-test

beside-lint: test-packages ebpf-check loom instructions $(UNIT_TOOLS)

test-packages:
	@scripts/install-packages build bpf spec count units tools peers dpdk

# The link state machine needs no operating system. It is checked for a bare-metal target if that is
# installed.
BARE_TARGET := x86_64-unknown-none

# The guide is built with the features of the workspace, as the tests are. With `-p` its
# dependencies would have other features, and would be built twice.
lint:            ## rustfmt, clippy, rustdoc, line lengths, spelling, word list, programs in the pages
	@scripts/install-packages build
	@$(CARGO) fmt --all --check
	@$(CARGO) build --workspace --bin covalent-guide --locked --quiet
	@target/debug/covalent-guide style
	@target/debug/covalent-guide excerpts
	@CARGO="$(CARGO)" scripts/check-packages
	@$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	@$(CARGO) clippy -p covalent-protocol --no-default-features --locked --quiet -- -D warnings
	@$(CARGO) clippy -p covalent --lib --locked --quiet -- -D warnings
	@test ! -d "$$(rustc --print target-libdir --target $(BARE_TARGET))" || $(CARGO) check -p covalent-protocol --no-default-features --target $(BARE_TARGET) --locked --quiet
	@RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --features covalent/tokio --no-deps --locked --quiet

# Uses the build of the tests, which detects arithmetic overflow. Prints how to replay a failure.
fresh: unit-build ## Simulates links, groups and meshes with fresh seeds, 20 s each
	@target/debug/covalent sim hunt --seconds-each 20 --nodes $(FRESH_NODES)

# Builds all targets at once: programs built without the tests would have dependencies with other
# features, and would be rebuilt.
unit: unit-build $(UNIT_TOOLS) ## Runs every test; CLI tests use the binaries built here
	@CARGO="$(CARGO)" scripts/test

unit-build:
	@scripts/install-packages build units tools peers
	@$(CARGO) build --workspace --all-targets --locked

$(PROMETHEUS):
	@echo "unpacking: prometheus into target/test-tools"
	@mkdir -p target/test-tools/prometheus
	@cd target/test-tools && { apt-get download -q prometheus || { apt-get update -q && apt-get download -q prometheus; }; } >/dev/null
	@dpkg -x target/test-tools/prometheus_*.deb target/test-tools/prometheus
	@touch $@

# Runs the conformance suite on DPDK's devices and a short demonstration over them, and checks that
# an echo costs an application the same over every kind of port. Builds like `unit`, so that only
# code with DPDK is rebuilt. Leaves a covalentd with DPDK in target/debug; the next build of `unit`
# replaces it. The unit tests of `dataplane/src/port/dpdk` are in `unit`: they need no DPDK.
dpdk-test: dpdk-build ## Lints, tests and a demonstration of DPDK ports; compares the echo cost of ports
	@scripts/install-packages count
	@CARGO="$(CARGO)" scripts/test --features dpdk --test dpdk
	@$(CARGO) build --workspace --features dpdk --bin covalentd --test dpdk --locked
	@target/debug/covalent demo --port dpdk --quick
	@scripts/count-echo cable af_xdp net_memif net_af_xdp

# In `make test` these run beside other builds.
dpdk-build:
	@scripts/install-packages build dpdk
	@$(CARGO) clippy --workspace --features dpdk --lib --bin covalentd --test dpdk --locked -- -D warnings
	@RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --features dpdk --no-deps --locked --quiet
	@$(CARGO) build --workspace --features dpdk --bin covalentd --test dpdk --locked

metrics:         ## Regenerates docs/metrics.md and configs/grafana.json from the declared metrics
	@scripts/install-packages build
	@$(CARGO) build --workspace --example metrics --locked -q
	@target/debug/examples/metrics page >docs/metrics.md
	@target/debug/examples/metrics dashboard >configs/grafana.json

schema:          ## Regenerates the code in base/grpc-schema/generated from the gRPC schema
	@scripts/install-packages build
	@$(CARGO) run --locked -q -p covalent-grpc-schema --example generate

ebpf:            ## Rebuilds the committed XDP object from source
	@scripts/install-packages build bpf
	@$(CARGO) run --locked -q --manifest-path ebpf/builder/Cargo.toml

ebpf-check:      ## Rebuilds the XDP object and compares it with the committed one byte by byte
	@scripts/install-packages build bpf
	@$(CARGO) run --locked -q --manifest-path ebpf/builder/Cargo.toml -- --check

loom:            ## Model-checks the pipe's notification protocol; bounds: pipe/tests/loom/main.rs
	@scripts/install-packages build
	@RUSTFLAGS="--cfg loom" $(CARGO) test -p covalent-ipc -p covalent-pipe --test loom --profile loom --locked --target-dir target/loom

spec:            ## Model-checks the link: specification (Spin), code (stateright), mutants
	@scripts/install-packages build spec
	@CARGO="$(CARGO)" scripts/spec

spec-bounded:    ## Model-checks the specification (Spin) within smaller bounds, in seconds
	@scripts/install-packages build spec
	@CARGO="$(CARGO)" scripts/spec --bounded

instructions:    ## Counts the instructions for each packet and compares them with their ceilings
	@scripts/install-packages build count
	@scripts/count-instructions

fuzz:            ## Fuzzes the decoders for FUZZ_SECONDS (300); prints each seed and how to replay
	@scripts/install-packages build
	@CARGO="$(CARGO)" scripts/fuzz

# - Malicious, dying and slow applications around the daemon: SOAK_SECONDS (300) each.
# - Control and the daemon killed during reloads (120 s).
# - As root: a rack of eight nodes with a group, with cable cuts and killed nodes (120 s).
# - As root: a bank over links that are cut (60 s). Registers that lose servers and nodes (60 s).
# - Every failure of small meshes.
# - Fresh seeds, which are printed: 100,000 simulations of links, 100,000 of groups, 750 meshes, and
#   churn in a mesh of 1,000 nodes.
soak:            ## Long fault-injection tests and simulations, SOAK_SECONDS each (as root for all)
	@scripts/install-packages build
	@SOAK_SECONDS=$${SOAK_SECONDS:-300} $(CARGO) test -p covalent-dataplane --test trust --release --locked -- --nocapture --test-threads=1
	@$(CARGO) build --release --locked --bin covalentd --bin covalent-control
	@SOAK_SECONDS=$${SOAK_SECONDS:-120} $(CARGO) test -p covalent-dataplane --test daemon --release --locked -- killed:: idle_control:: --nocapture --test-threads=1
	@SOAK_SECONDS=$${SOAK_SECONDS:-120} $(CARGO) test -p covalent-apps --test live --release --locked -- rack --nocapture --test-threads=1
	@SOAK_SECONDS=$${SOAK_SECONDS:-60} $(CARGO) test -p covalent-apps --test live --release --locked -- soak registers --nocapture --test-threads=1
	@$(CARGO) build --release --locked --bin covalent
	@target/release/covalent sim mesh --exhaustive three
	@target/release/covalent sim mesh --exhaustive sixteen
	@target/release/covalent sim mesh --exhaustive sixteen --load far
	@target/release/covalent sim mesh --nodes 1000 --shape torus --seed 20261123 --faults all
	@target/release/covalent sim mesh --nodes 1000 --shape random:4 --seed 874980063928 --faults all
	@target/release/covalent sim mesh --shape torus --grow 10,100,1000 --faults cut --churn 1 --load none
	@base=$$(shuf -i 0-999999999999 -n 1); run() { echo "covalent sim $$*"; target/release/covalent sim $$*; }; \
	range() { echo "--seeds $$base..$$((base + $$1))"; }; \
	run mesh --nodes 10 --load far --jitter 40 $$(range 500) && \
	run mesh --shape grid:4x4 --load far $$(range 200) && \
	run mesh --nodes 1000 --shape torus --faults cut,silent,one-way,flap,crash,stall --load none --seed $$base && \
	run hunt links --runs 100000 --minutes 1000 --base $$base && \
	run hunt groups --runs 100000 --minutes 1000 --base $$base && \
	run hunt meshes --runs 50 --nodes 100 --minutes 1000 --base $$base

# Takes half an hour on an idle machine. GUEST_JOBS="conformance igb" runs only the jobs whose names
# contain these words. Downloads the kernels, and generates docs/supported-kernels.md.
guest-test:      ## Tests stock Debian kernels and drivers of real NICs under QEMU (as root)
	@scripts/install-packages build dpdk guest
	@$(CARGO) build --release --workspace --features ibverbs --locked
	@CARGO="$(CARGO)" target/release/covalent-guest run $(GUEST_JOBS)
	@target/release/covalent-guest page

# Compares with DPDK, iceoryx2, Aeron, UCX, libfabric, sockets, Redis, etcd and bare AF_XDP. Runs
# all suites even if one misses its goal. The exit status is that of the last failure.
bench: build bench-peers ## Benchmarks Covalent and other systems; results in bench/results (as root)
	@status=0; \
	for suite in latency rate streams atomics multicast failover loss exchanges system-calls idle restart counters scrape; do \
		target/release/covalent-bench $$suite --results bench/results || status=$$?; \
	done; \
	scripts/count-instructions --results bench/results || status=$$?; \
	exit $$status

bench-page:      ## Generates docs/performance.md and its plots from the last results
	@target/release/covalent-bench page

# Only this target needs the other systems: iceoryx2 and Aeron take minutes to build, and UCX and libfabric
# need Debian packages. Aeron needs CMake 3.30 or newer.
bench-peers: $(BENCH_CMAKE) $(BENCH_ETCD) ## Installs the other systems and builds the benchmarks with them
	@scripts/install-packages build bench count
	@CMAKE=$(CURDIR)/$(BENCH_CMAKE) $(CARGO) build --release -p covalent-bench --features peers --locked

$(BENCH_CMAKE):
	@scripts/install-packages bench
	@echo "installing: CMake $(BENCH_CMAKE_VERSION) into target/bench-tools"
	@python3 -m venv target/bench-tools
	@target/bench-tools/bin/pip install --quiet --disable-pip-version-check cmake==$(BENCH_CMAKE_VERSION)

$(BENCH_ETCD):
	@echo "unpacking: etcd-server and etcd-client into target/bench-tools"
	@mkdir -p target/bench-tools/etcd
	@cd target/bench-tools && { apt-get download -q etcd-server etcd-client || { apt-get update -q && apt-get download -q etcd-server etcd-client; }; } >/dev/null
	@for package in target/bench-tools/etcd-*.deb; do dpkg -x $$package target/bench-tools/etcd; done
	@touch $@

clean:           ## Removes all build output
	@$(CARGO) clean
