# Hearth's commands. `make demo` and `make test` need nothing but Rust, a C++
# compiler, Python 3 and make: they fetch and build what is missing first.

CACHE ?= $(or $(HEARTH_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/hearth)
ROCKSDB_VERSION := $(shell sed -n 's/^rocksdb = { version = "=\([0-9.]*\)".*/\1/p' Cargo.toml)

export HEARTH_CACHE := $(CACHE)
export CARGO_TARGET_DIR ?= $(CACHE)/target
export ROCKSDB_LIB_DIR := $(CACHE)/rocksdb-$(ROCKSDB_VERSION)-$(shell uname -m)
export ROCKSDB_STATIC := 1

.PHONY: demo test lint build bin bench soak setup env

demo: build
	@$(CARGO_TARGET_DIR)/release/hearth demo

test: setup lint
	@python3 -c 'print("test: building and running every test")'
	@cargo test --quiet --workspace --features tests/failpoints

lint:
	@cargo fmt --check
	@cargo clippy --quiet --workspace --all-targets --features tests/failpoints -- -D warnings

build: setup
	@cargo build --release -p node

# Prints the path of the binary that `make build` makes.
bin:
	@echo $(CARGO_TARGET_DIR)/release/hearth

bench: setup
	@cargo bench --quiet -p tests --features failpoints

setup:
	@deploy/setup/packages.sh
	@deploy/setup/rocksdb.sh "$(CURDIR)" "$(ROCKSDB_LIB_DIR)"
	@python3 deploy/setup/fetch_model.py "$(CACHE)"

# `eval "$(make -s env)"` sets up a shell for calling cargo by hand.
env:
	@echo 'export HEARTH_CACHE=$(HEARTH_CACHE) CARGO_TARGET_DIR=$(CARGO_TARGET_DIR) ROCKSDB_LIB_DIR=$(ROCKSDB_LIB_DIR) ROCKSDB_STATIC=1'
