# Two commands do everything: `make run` shows Covalent at work, `make test` passes its tests.
# Each installs what it needs by Debian package name and says so.

CARGO ?= cargo
DEMO_FLAGS ?=

# Where `make install` puts things. DESTDIR is put in front of every path, for packagers; the paths in the units leave it out.
# The configuration is in /etc whatever PREFIX is, because the programs look for it there.
PREFIX ?= /usr
DESTDIR ?=
# Where the programs were built.
BUILT ?= target/release
PROGRAMS = covalent covalentd covalent-control covalent-echo covalent-replay covalent-bank covalent-registers covalent-bench
LIBRARIES = libcovalent.so libcovalent.a
VERSION := $(shell sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
# The name by which the loader knows the shared library (verbs/c/build.rs), and the file behind it.
LIBRARY_NAME = libcovalent.so.0
LIBRARY_FILE = libcovalent.so.$(VERSION)
# Those with manual pages and completions, which the first of them makes.
DESCRIBED = covalent covalentd covalent-control
UNITS = covalentd.socket covalentd.service covalent-control.service covalent.target
# Makes the user of the services.
SYSUSERS_DIR = $(DESTDIR)$(PREFIX)/lib/sysusers.d
# Copied by who needs it; see the file.
DROP_INS = covalentd-dpdk.conf
# With which clients of telemetry are made.
SCHEMA = telemetry/proto/covalent/telemetry/v1/telemetry.proto
# For Prometheus and Grafana; docs/metrics.md says what each is.
TELEMETRY = prometheus.yml alerts.yml alerts_test.yml grafana.json
BIN_DIR = $(DESTDIR)$(PREFIX)/bin
# Debian keeps libraries of several architectures apart.
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
# One for each command of `covalent`.
MAN_PAGES = $(MAN_DIR)/man1/covalent.1 $(MAN_DIR)/man1/covalent-*.1 $(MAN_DIR)/man8/covalentd.8 $(MAN_DIR)/man8/covalent-control.8
# Where Debian's Wireshark looks with PREFIX=/usr.
DISSECTOR_DIR = $(DESTDIR)$(PREFIX)/lib/$(shell gcc -print-multiarch 2>/dev/null)/wireshark/plugins
CONFIG_DIR = $(DESTDIR)/etc/covalent

# Debian 12 has CMake 3.25; this one is put where `make clean` removes it.
BENCH_CMAKE_VERSION = 4.4.4
BENCH_CMAKE = target/bench-tools/bin/cmake
# Unpacked and not installed, for Debian's package would start a service.
BENCH_ETCD = target/bench-tools/etcd/usr/bin/etcd
# What makes a site of the documentation. Debian 12 has none. Unoptimized, it takes seconds for the site, and a third of the time to build.
MDBOOK_VERSION = 0.5.4
MDBOOK = target/doc-tools/mdbook-$(MDBOOK_VERSION)/bin/mdbook
# So is this, unless it is installed already. The tests look for it there.
PROMETHEUS = target/test-tools/prometheus/usr/bin/prometheus
# Tools of the tests that Debian has no package of, or one that would start a service.
UNIT_TOOLS = $(if $(shell command -v prometheus),,$(PROMETHEUS)) $(MDBOOK)

# Nodes of meshes of fresh seeds: a debug build takes a second for the smallest.
FRESH_NODES = 12,25,40

.PHONY: help run test fresh unit-build beside-lint build install uninstall deb deb-test docs lint unit dpdk-test metrics ebpf ebpf-check loom spec spec-bounded instructions fuzz soak guest-test bench bench-page bench-peers clean

help:            ## Shows this list
	@grep -hE '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed 's/: .*##/\t/' | expand -t 16

run: build       ## Builds in release and runs the demonstration
	@target/release/covalent demo $(DEMO_FLAGS)

build:           ## Builds everything in release
	@scripts/install-packages build
	@$(CARGO) build --release --workspace --locked

# Does not build: that would be done as root.
install:         ## Installs what `make build` made: PREFIX=/usr, DESTDIR= (as root)
	@for file in $(PROGRAMS) $(LIBRARIES); do \
		[ -e $(BUILT)/$$file ] || { echo "install: $(BUILT)/$$file is missing: run \`make build\` first" >&2; exit 1; }; \
	done
	@install -d $(BIN_DIR) $(LIB_DIR) $(INCLUDE_DIR) $(UNIT_DIR) $(SYSUSERS_DIR) $(SHARE_DIR) $(CONFIG_DIR) $(MAN_DIR) $(BASH_DIR) $(ZSH_DIR) $(FISH_DIR)
	@install -m 755 $(PROGRAMS:%=$(BUILT)/%) $(BIN_DIR)
	@install -m 644 $(BUILT)/libcovalent.so $(LIB_DIR)/$(LIBRARY_FILE)
	@ln -sf $(LIBRARY_FILE) $(LIB_DIR)/$(LIBRARY_NAME)
	@ln -sf $(LIBRARY_NAME) $(LIB_DIR)/libcovalent.so
	@install -m 644 $(BUILT)/libcovalent.a $(LIB_DIR)
	@install -m 644 verbs/c/include/covalent.h $(INCLUDE_DIR)
	@install -d $(LIB_DIR)/pkgconfig
	@sed -e 's,@PREFIX@,$(PREFIX),' -e 's,@LIBDIR@,$(LIBRARY_DIR),' -e 's,@VERSION@,$(VERSION),' verbs/c/covalent.pc.in >$(LIB_DIR)/pkgconfig/covalent.pc
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

uninstall:       ## Removes what `make install` installed; configuration and state stay
	@rm -f $(PROGRAMS:%=$(BIN_DIR)/%) $(LIBRARIES:%=$(LIB_DIR)/%) $(LIB_DIR)/$(LIBRARY_NAME) $(LIB_DIR)/$(LIBRARY_FILE) $(LIB_DIR)/pkgconfig/covalent.pc $(INCLUDE_DIR)/covalent.h $(UNITS:%=$(UNIT_DIR)/%) $(SYSUSERS_DIR)/covalent.conf $(DROP_INS:%=$(SHARE_DIR)/%) $(TELEMETRY:%=$(SHARE_DIR)/%) $(SHARE_DIR)/telemetry.proto $(COMPLETIONS) $(MAN_PAGES) $(DISSECTOR_DIR)/covalent.lua
	@rmdir $(SHARE_DIR) 2>/dev/null || true
	@rmdir -p $(DISSECTOR_DIR) 2>/dev/null || true
	@[ -n "$(DESTDIR)" ] || [ "$$(id -u)" -ne 0 ] || ldconfig
	@echo "removed. Left as they are: /etc/covalent, /var/lib/covalent (the node's GUID) and the user covalent"

deb: build       ## Builds Debian packages of what `make install` installs, and lints them: target/debian
	@scripts/install-packages deb
	@scripts/deb $(BUILT)

deb-test:        ## Installs the packages of `make deb` in a clean Debian, uses, removes and purges them there (as root); downloads 100 MB by name
	@scripts/install-packages deb
	@scripts/deb-test

docs: $(MDBOOK)  ## Builds the documentation as a site, target/site/index.html, and looks at every link of it
	@scripts/install-packages build
	@$(CARGO) build --locked --quiet -p covalent-guide
	@MDBOOK_PREPROCESSOR__REPOSITORY__COMMAND="$(CURDIR)/target/debug/covalent-guide preprocess" $(MDBOOK) build docs
	@target/debug/covalent-guide check target/site

$(MDBOOK):
	@scripts/install-packages build
	@echo "installing: mdBook $(MDBOOK_VERSION) into target/doc-tools; a minute, once"
	@$(CARGO) install mdbook --version $(MDBOOK_VERSION) --debug --locked --quiet --no-default-features --features search --root target/doc-tools/mdbook-$(MDBOOK_VERSION)

# First what is built and searched, in two chains: they share no folder and time nothing, and neither keeps two processors busy alone. Then, with nothing
# beside it, what is timed.
test:            ## Format, lints, docs, the XDP object against its source, pipes and links under their model checkers, instructions for each packet, fresh seeds of the simulators, every test, DPDK ports
	@scripts/install-packages build bpf spec count units tools peers dpdk
	@mkdir -p target
	@$(MAKE) --no-print-directory beside-lint >target/beside-lint.log 2>&1 & beside=$$!; \
	$(MAKE) --no-print-directory lint spec-bounded unit-build; status=$$?; \
	wait $$beside || status=$$?; \
	cat target/beside-lint.log; \
	exit $$status
	@$(MAKE) --no-print-directory fresh unit dpdk-test

beside-lint: ebpf-check loom instructions $(UNIT_TOOLS)

# The link machine needs no operating system: it is checked for a target without one, where that is installed.
BARE_TARGET := x86_64-unknown-none

lint:            ## rustfmt, clippy and rustdoc, warnings are errors
	@scripts/install-packages build
	@$(CARGO) fmt --all --check
	@$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	@$(CARGO) clippy -p covalent-protocol --no-default-features --locked --quiet -- -D warnings
	@test ! -d "$$(rustc --print target-libdir --target $(BARE_TARGET))" || $(CARGO) check -p covalent-protocol --no-default-features --target $(BARE_TARGET) --locked --quiet
	@RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked --quiet

# Built as the tests are, so that no arithmetic overflows unseen.
fresh: unit-build ## Fresh seeds of links, groups and meshes, 20 s of a core each; prints how to replay one that breaks an invariant
	@target/debug/covalent sim hunt --seconds-each 20 --nodes $(FRESH_NODES)

# All targets at once: programs that were built without the tests have their dependencies with other features, and are built again for them.
unit: unit-build $(UNIT_TOOLS) ## Every test; those of the command line drive the binaries built here
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

# As `unit` builds, so that only what knows of DPDK is built again. Leaves a covalentd with DPDK inside in target/debug; whoever wants the other there builds again, as `unit` does.
dpdk-test:       ## Lints and tests of what is built with the feature `dpdk`: the conformance suite on DPDK's devices, a short demonstration over them, and that an echo costs an application the same over every kind of port
	@scripts/install-packages build dpdk count
	@$(CARGO) clippy --workspace --features dpdk --lib --bin covalentd --test dpdk --locked -- -D warnings
	@RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --features dpdk --no-deps --locked --quiet
	@$(CARGO) test --workspace --features dpdk --lib --locked --quiet -- port::dpdk
	@CARGO="$(CARGO)" scripts/test --features dpdk --test dpdk
	@$(CARGO) build --workspace --features dpdk --bin covalentd --test dpdk --locked
	@target/debug/covalent demo --port dpdk --quick
	@scripts/count-echo cable af_xdp net_memif net_af_xdp

metrics:         ## Writes docs/metrics.md and configs/grafana.json anew, of the declarations of the metrics
	@scripts/install-packages build
	@$(CARGO) build --workspace --example metrics --locked -q
	@target/debug/examples/metrics page >docs/metrics.md
	@target/debug/examples/metrics dashboard >configs/grafana.json

ebpf:            ## Rebuilds the committed XDP object from source
	@scripts/install-packages build bpf
	@$(CARGO) run --locked -q --manifest-path ebpf/builder/Cargo.toml

ebpf-check:      ## Rebuilds the XDP object and compares it with the committed one, byte for byte
	@scripts/install-packages build bpf
	@$(CARGO) run --locked -q --manifest-path ebpf/builder/Cargo.toml -- --check

loom:            ## Checks the pipe's notification protocol under the model checker; pipe/tests/loom/main.rs says within which bounds
	@scripts/install-packages build
	@RUSTFLAGS="--cfg loom" $(CARGO) test -p covalent-pipe --test loom --release --locked --target-dir target/loom

spec:            ## Every run, within bounds, of the link's specification (Spin) and of the production state machines (stateright), and the mutants that must be found
	@scripts/install-packages build spec
	@CARGO="$(CARGO)" scripts/spec

spec-bounded:    ## The specification alone (Spin) within smaller bounds, in seconds; `make unit` explores the machines within theirs
	@scripts/install-packages build spec
	@CARGO="$(CARGO)" scripts/spec --bounded

instructions:    ## Instructions that a pipe spends on a packet, against their ceilings
	@scripts/install-packages build count
	@scripts/count-instructions

fuzz:            ## Decoders on damaged bytes with fresh seeds for FUZZ_SECONDS (300); prints each seed, and how to replay one that fails
	@scripts/install-packages build
	@CARGO="$(CARGO)" scripts/fuzz

soak:            ## Lying, dying and slow applications around the daemon for SOAK_SECONDS (300) each; control and the daemon killed in reloads (120); as root, a rack of eight nodes whose cables are cut and whose nodes are killed (120), with a group on it, and a bank over links that are cut (60); registers whose servers and nodes are taken away (60); every failure of small meshes; of fresh seeds, which it prints, 100,000 worlds of links, 100,000 groups, 750 meshes and churn in one of 1,000 nodes
	@scripts/install-packages build
	@SOAK_SECONDS=$${SOAK_SECONDS:-300} $(CARGO) test -p covalent-dataplane --test trust --release --locked -- --nocapture --test-threads=1
	@$(CARGO) build --release --locked --bin covalentd --bin covalent-control
	@SOAK_SECONDS=$${SOAK_SECONDS:-120} $(CARGO) test -p covalent-dataplane --test daemon --release --locked -- killed:: rest:: --nocapture --test-threads=1
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

# Takes half an hour beside nothing else; GUEST_JOBS="conformance igb" runs only the jobs whose names have these words.
guest-test:      ## Runs Covalent on stock Debian kernels under QEMU, on drivers of real NICs; downloads them by name (as root); makes docs/supported-kernels.md
	@scripts/install-packages build dpdk guest
	@$(CARGO) build --release --workspace --features ibverbs --locked
	@CARGO="$(CARGO)" target/release/covalent-guest run $(GUEST_JOBS)
	@target/release/covalent-guest page

# Everything is measured, also when a goal before it was missed; the last line's status is that of the worst.
bench: build bench-peers ## Runs beside DPDK, iceoryx2, Aeron, UCX, libfabric, sockets, Redis, etcd, bare AF_XDP; results in bench/results (as root)
	@status=0; \
	for suite in latency rate streams atomics multicast failover loss exchanges system-calls idle restart counters scrape; do \
		target/release/covalent-bench $$suite --results bench/results || status=$$?; \
	done; \
	scripts/count-instructions --results bench/results || status=$$?; \
	exit $$status

bench-page:      ## Makes docs/performance.md and its plots from the last results in bench/results
	@target/release/covalent-bench page

# iceoryx2 and Aeron take minutes to build, and UCX and libfabric want Debian's packages, so only this asks for them. Aeron's sources want CMake 3.30 or newer.
bench-peers: $(BENCH_CMAKE) $(BENCH_ETCD) ## Installs the peers of the benchmarks and builds them in
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

clean:           ## Removes what was built
	@$(CARGO) clean
