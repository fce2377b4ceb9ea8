# Two commands do everything: `make run` shows Covalent at work, `make test` passes its tests.
# Each installs what it needs by Debian package name and says so.

CARGO ?= cargo
DEMO_FLAGS ?=

.PHONY: help run test build lint unit ebpf ebpf-check loom bench clean

help:            ## Shows this list
	@grep -hE '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed 's/: .*##/\t/' | expand -t 16

run: build       ## Builds in release and runs the demonstration
	@target/release/covalent demo $(DEMO_FLAGS)

build:           ## Builds everything in release
	@scripts/install-packages build
	@$(CARGO) build --release --workspace --locked

test: lint ebpf-check unit ## Format, lints, docs, the XDP object against its source, every test

lint:            ## rustfmt, clippy and rustdoc, warnings are errors
	@scripts/install-packages build
	@$(CARGO) fmt --all --check
	@$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	@RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked --quiet

unit:            ## Every test; those of the command line drive the binaries built here
	@scripts/install-packages build
	@$(CARGO) build --workspace --locked
	@scripts/test

ebpf:            ## Rebuilds the committed XDP object from source
	@scripts/install-packages build bpf
	@$(CARGO) run --locked -q --manifest-path ebpf/builder/Cargo.toml

ebpf-check:      ## Rebuilds the XDP object and compares it with the committed one, byte for byte
	@scripts/install-packages build bpf
	@$(CARGO) run --locked -q --manifest-path ebpf/builder/Cargo.toml -- --check

loom:            ## Checks the pipe's notification protocol under every interleaving
	@RUSTFLAGS="--cfg loom" $(CARGO) test -p covalent-pipe --test loom --release --locked --target-dir target/loom

bench: build     ## Our side and the bare peers, in one run, with raw results in bench/results
	@target/release/covalent-bench all --results bench/results

clean:           ## Removes what was built
	@$(CARGO) clean
