# Hearth's commands. `make demo` and `make test` need Debian or Ubuntu, Rust, Python 3.11 or later, and
# make: they fetch and build what is missing first.

# One build at a time: they share a folder.
.NOTPARALLEL:
CACHE := $(or $(HEARTH_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/hearth)

export HEARTH_CACHE := $(CACHE)
export CARGO_TARGET_DIR ?= $(CACHE)/target
# A library of its own for each version of the crate and of the script that compiles it. The folder has
# a static library only, so the linker takes that. ROCKSDB_STATIC would copy it into a crate, which
# could then not be compiled beside it.
export ROCKSDB_LIB_DIR := $(CACHE)/rocksdb-$(shell (grep -A1 '^name = "librocksdb-sys"' Cargo.lock; \
    grep -A1 '^name = "lz4-sys"' Cargo.lock; cat deploy/setup/rocksdb.py; uname -m; echo "$$CXX") | sha256sum | cut -c1-16)
# Debian's, of the package libjemalloc-dev.
export JEMALLOC_OVERRIDE := /usr/lib/$(shell uname -m)-linux-gnu/libjemalloc_pic.a
# Tests and benches load ONNX Runtime themselves; `hearth` sets this by itself.
export ORT_DISABLE_TELEMETRY := 1
# The compiler of the tests' own crates; deploy/setup/build.py says why.
LINTING := RUSTC_WORKSPACE_WRAPPER=clippy-driver
unexport RUSTC_WORKSPACE_WRAPPER
BUILD := deploy/setup/packages.sh && python3 deploy/setup/build.py
BIN := $(CACHE)/bin/hearth
FUZZ := "$(CACHE)/fuzz/bin/cargo-fuzz" fuzz run --fuzz-dir tests/fuzz --sanitizer none target
DENY := "$(CACHE)/deny/bin/cargo-deny" --log-level error

.PHONY: demo test sim mutants test-ui test-deploy dashboard lint audit build release image bin install conformance adapters bench bench-large model eval eval-peers soak setup env

demo:
	@$(BUILD) hearth
	@echo 'demo: this build is quick to make and slow to run; `make install` makes the fast one'
	@"$(CARGO_TARGET_DIR)/debug/hearth" demo

# Tests at a time. Many wait, some for minutes, so two more than processors is quicker.
TEST_THREADS ?= $(shell expr $$(nproc) + 2)
test: lint
	@unshare --net --mount --pid --fork true 2>/dev/null || \
	    echo 'test: without the rights of root, full disks and outgoing connections are not tested'
	@echo 'test: running every test'
	@$(LINTING) RUST_TEST_THREADS=$(TEST_THREADS) \
	    cargo test --quiet --workspace --features tests/failpoints,tests/benches

# Runs of a simulated cluster, each with the faults of its seed: SEEDS of them, or the one of SEED.
SEEDS ?= 200
sim: setup
	@$(LINTING) HEARTH_SEEDS=$(SEEDS) $(if $(SEED),HEARTH_SEED=$(SEED)) cargo test --quiet --workspace \
	    --features tests/failpoints,tests/benches --test seeds -- --nocapture

# Faults in copies of the sources, one after the other, which tests must notice: all, or those with the names NAMES,
# such as prune-races-create.
mutants: setup
	@python3 tests/mutants/run.py "$(CACHE)" $(NAMES)

# Also compiles the tests: clippy's driver is a compiler.
lint:
	@cargo fmt --check
	@python3 deploy/clients/python/generate.py --check
	@$(BUILD) tests
	@deploy/setup/pypi.sh "$(CACHE)" deny
	@$(DENY) check bans licenses sources

# Known faults of dependencies. Fetches RustSec's database from github.com.
audit:
	@deploy/setup/pypi.sh "$(CACHE)" deny
	@$(DENY) check advisories

# The optimised binary. Without its symbols, which are in a file beside it: debuggers and perf find them.
build: setup
	@HEARTH_COMMIT=$${HEARTH_COMMIT:-$$(git describe --always --dirty --abbrev=12 --match nothing)} cargo build --release -p node
	@mkdir -p "$(CACHE)/bin"
	@objcopy --only-keep-debug $(CARGO_TARGET_DIR)/release/hearth "$(BIN).debug"
	@cd "$(CACHE)/bin" && objcopy --strip-all --add-gnu-debuglink=hearth.debug \
	    $(CARGO_TARGET_DIR)/release/hearth "$(BIN).new" && mv "$(BIN).new" "$(BIN)"

# The packages of a release, in dist. The working tree has no changes; MINISIGN_KEY names a key to sign with.
DIST ?= dist
release: setup
	@deploy/package/release.sh "$(CACHE)" "$(DIST)"

# The image of a node, with docker or buildah. It compiles everything itself.
IMAGE ?= hearth:latest
image:
	@deploy/container/image.sh "$(IMAGE)"

# Prints the path of the binary that `make build` makes.
bin:
	@echo "$(BIN)"

# Installs below PREFIX what a package has: the binary, its model and library, completions and manual pages.
PREFIX ?= /usr/local
install: build
	@python3 deploy/package/dist.py tree "$(BIN)" "$(DESTDIR)$(PREFIX)"
	@echo 'install: $(DESTDIR)$(PREFIX)/bin/hearth'

# The conformance suite of the Model Context Protocol and its Inspector, against a cluster.
conformance: setup
	@deploy/setup/node.sh "$(CACHE)" tests/conformance conformance
	@$(LINTING) cargo build --quiet -p tests --features failpoints --bin hearth-under-test
	@tests/conformance/run.sh "$(CACHE)" $(CARGO_TARGET_DIR)/debug/hearth-under-test

# Real coding agents with three nodes and a model on loopback. Then the clients for Python and TypeScript, and their
# adapters with the real frameworks, each while the leader is killed.
adapters: setup
	@deploy/setup/node.sh "$(CACHE)" tests/adapters adapters
	@deploy/setup/node.sh "$(CACHE)" tests/adapters/typescript adapters-typescript
	@deploy/setup/pypi.sh "$(CACHE)" frameworks
	@$(LINTING) cargo build --quiet -p tests --features failpoints --bin hearth-under-test
	@PATH="$$(echo "$(CACHE)"/node-*/bin):$$PATH" python3 tests/adapters/run.py "$(CACHE)" $(CARGO_TARGET_DIR)/debug/hearth-under-test
	@PYTHONPATH=deploy/clients/python "$(CACHE)/frameworks/bin/python" tests/adapters/python/run.py $(CARGO_TARGET_DIR)/debug/hearth-under-test
	@"$$(echo "$(CACHE)"/node-*/bin/node)" tests/adapters/typescript/run.mjs "$(CACHE)" $(CARGO_TARGET_DIR)/debug/hearth-under-test

# Builds the dashboard into api/ui/dist, which the binary contains.
dashboard: setup
	@deploy/setup/node.sh "$(CACHE)" api/ui dashboard
	@api/ui/build.sh "$(CACHE)"

# The packages and the image of a quick build: installed, started, killed, replaced, upgraded and removed, on
# machines and in containers of the test. Needs root.
test-deploy:
	@deploy/setup/packages.sh packaging
	@deploy/setup/packages.sh containers
	@deploy/setup/pypi.sh "$(CACHE)" packaging
	@deploy/setup/pypi.sh "$(CACHE)" deploying
	@deploy/setup/debian.sh "$(CACHE)"
	@$(BUILD) hearth
	@strip -o "$(CACHE)/quick-hearth" "$(CARGO_TARGET_DIR)/debug/hearth"
	@rm -rf "$(CACHE)/quick-dist"
	@python3 deploy/package/dist.py dist --fast "$(CACHE)/quick-hearth" "$(CACHE)/quick-dist"
	@lintian --fail-on error "$(CACHE)"/quick-dist/*.deb
	@systemd-analyze security --offline=true --threshold=20 deploy/package/hearth.service >/dev/null
	@"$(CACHE)/deploying/bin/python" deploy/helm/render.py --check
	@"$(CACHE)/deploying/bin/python" tests/deploy/run.py "$(CACHE)" "$(CACHE)/quick-dist"

# The dashboard in a browser, against clusters of three nodes. Fails if its sources build another
# api/ui/dist.
test-ui: setup
	@deploy/setup/pypi.sh "$(CACHE)" clients
	@deploy/setup/node.sh "$(CACHE)" api/ui dashboard
	@deploy/setup/packages.sh browser
	@$(LINTING) cargo build --quiet -p tests --features failpoints --bin hearth-under-test
	@api/ui/test.sh "$(CACHE)" $(CARGO_TARGET_DIR)/debug/hearth-under-test

# Benches of the engine, then the service under load. Let nothing else run.
BENCH_LOAD = $(CARGO_TARGET_DIR)/release/load --binary $(CARGO_TARGET_DIR)/release/hearth-under-test
bench: setup
	@python3 deploy/setup/glosses.py "$(CACHE)"
	@deploy/setup/unpack.sh "$(CACHE)" etcd etcd-server
	@cargo build --quiet --release -p tests --features failpoints,yardsticks
	@cargo bench --quiet -p tests --features failpoints,yardsticks
	@echo; echo "Search through the graph:"; $(CARGO_TARGET_DIR)/release/recall
	@echo; echo "Service, hashing embedder:"; $(BENCH_LOAD) --restart
	@echo; echo "Creates with syncs of 5 ms:"; $(BENCH_LOAD) --memories 0 --operations create \
	    --clients 1,64 --failpoints 'log-sync=sleep(5)'
	@echo; echo "Service, real embedder:"; $(BENCH_LOAD) --memories 500 --real-embedder \
	    --operations search,create --clients 1,16,64
	@echo; $(BENCH_LOAD) --embedding
	@echo; echo "Three nodes:"; $(BENCH_LOAD) --nodes 3 --operations get,create --clients 1,16,64
	@echo; $(BENCH_LOAD) --nodes 3 --memories 10000 --failovers 20
	@echo; $(BENCH_LOAD) --nodes 3 --memories 10000 --failovers 20 --freeze
	@echo; echo "Beside etcd:"; $(CARGO_TARGET_DIR)/release/beside_etcd \
	    --binary $(CARGO_TARGET_DIR)/release/hearth-under-test --etcd "$(CACHE)/etcd/usr/bin/etcd" \
	    --texts "$(CACHE)/glosses/glosses.txt"
	@echo; echo "100,000 definitions:"; $(BENCH_LOAD) --memories 100000 --graph \
	    --nice --texts "$(CACHE)/glosses/glosses.txt" --operations hot-context,search --clients 1,4
	@echo; echo "Start-up, backups and another model:"; $(BENCH_LOAD) --memories 100000 \
	    --operations get --clients 4 --backup --model-change
	@echo; $(BENCH_LOAD) --memories 100000 --operations get --clients 4 --restart

# A million memories, and searches beside Chroma: some 40 minutes. Let nothing else run.
bench-large: setup
	@python3 deploy/setup/glosses.py "$(CACHE)"
	@deploy/setup/chroma.sh "$(CACHE)"
	@cargo build --quiet --release -p tests --features failpoints,benches
	@echo; echo "A million memories:"; $(BENCH_LOAD) --memories 1000000 --growth --backup \
	    --texts "$(CACHE)/glosses/glosses.txt"
	@echo; echo "Beside Chroma:"; $(CARGO_TARGET_DIR)/release/beside_chroma \
	    --binary $(CARGO_TARGET_DIR)/release/hearth-under-test --chroma "$(CACHE)/chroma-1.5.9"

# How well searches answer questions; docs/search.md has the table.
EVAL_OPTIONS ?= --steps
eval: setup
	@python3 deploy/setup/glosses.py "$(CACHE)"
	@python3 deploy/setup/questions.py "$(CACHE)"
	@cargo build --quiet --release -p tests --features failpoints,benches
	@$(CARGO_TARGET_DIR)/release/eval $(EVAL_OPTIONS)

# The same questions and vectors at other memory services; docs/search.md has the table. Needs a Python whose SQLite loads
# extensions, as Debian's does.
eval-peers: setup
	@python3 deploy/setup/glosses.py "$(CACHE)"
	@python3 deploy/setup/questions.py "$(CACHE)"
	@deploy/setup/pypi.sh "$(CACHE)" peers
	@cargo build --quiet --release -p tests --features failpoints,benches
	@$(CARGO_TARGET_DIR)/release/eval --print-sets > "$(CACHE)/peers/sets.jsonl"
	@echo "Hearth:"; $(CARGO_TARGET_DIR)/release/eval
	@for peer in mem0 mcp-memory-service; do echo; echo "$$peer:"; \
	    "$(CACHE)/peers/bin/python" tests/peers.py "$(CACHE)/peers/sets.jsonl" "$(CACHE)/eval-vectors" $$peer || exit 1; done

# The long forms of the tests' claims; docs/testing.md has the latest result.
soak: setup
	@cargo build --quiet --release -p tests --features failpoints,benches
	@$(BENCH_LOAD) --nodes 3 --steady 1800
	@cargo test --quiet --release -p tests --features failpoints --test it upgrade
	@$(MAKE) --no-print-directory sim SEEDS=10000
	@HEARTH_SEEDS=500 HEARTH_STEPS=300 cargo test --quiet --release -p storage --test it model
	@HEARTH_SEEDS=200 cargo test --quiet --release -p storage --test it crossings
	@HEARTH_SECONDS=300 HEARTH_SEED=7 cargo test --quiet --release -p tests \
	    --features failpoints --test it chaos -- --nocapture --test-threads 1
	@HEARTH_SECONDS=300 cargo test --quiet --release -p tests \
	    --features failpoints --test it timers -- --nocapture
	@HEARTH_RUNS=200 HEARTH_SEED=7 cargo test --quiet --release -p tests \
	    --features failpoints --test it deliveries -- --nocapture
	@HEARTH_EXAMPLES=100 HEARTH_PHASES=examples,coverage,fuzzing cargo test --quiet --release -p tests \
	    --features failpoints --test it openapi::responses -- --nocapture
	@$(MAKE) --no-print-directory model
	@cargo test --quiet --release -p tests \
	    --features failpoints --test it embedder::multilingual -- --ignored --nocapture
	@deploy/setup/node.sh "$(CACHE)" tests/azurite azurite
	@cargo test --quiet --release -p tests \
	    --features failpoints --test it backup_buckets -- --ignored --nocapture
	@HEARTH_SECONDS=600 HEARTH_PERCENTILE=99 HEARTH_LATENCY_MS=100 HEARTH_SLOWER=5 HEARTH_REQUESTS=1000 HEARTH_SHARED=1 \
	    HEARTH_CONNECTIONS=1024 cargo test --quiet \
	    --release -p tests --features failpoints --test it -- hostile::together hostile::shares \
	    hostile::tenants hostile::connections --nocapture --test-threads 1
	@HEARTH_SECONDS=3600 HEARTH_SEED=7 cargo test --quiet --release -p tests \
	    --features failpoints --test it attacker_with -- --nocapture --test-threads 1
	@HEARTH_TENANTS=9999 cargo test --quiet --release -p tests \
	    --features failpoints --test it idle_tenants -- --nocapture
	@cargo install --quiet --locked --root "$(CACHE)/fuzz" cargo-fuzz@0.13.2
	@cp Cargo.lock tests/fuzz/ && rm -rf tests/fuzz/corpus
	@targets=$$($(FUZZ)) && [ -n "$$targets" ] && for target in $$targets; do \
	    HEARTH_TARGET=$$target $(FUZZ) tests/fuzz/corpus/$$target -- -max_total_time=600 -rss_limit_mb=1024 || exit 1; done

# Another embedding model in the cache; docs/models.md says for whom. MODEL=english is the one of `make setup`.
MODEL ?= multilingual
model:
	@deploy/setup/packages.sh && python3 deploy/setup/fetch_model.py "$(CACHE)" --model $(MODEL)

setup:
	@$(BUILD) setup

# `eval "$(make -s env)"` sets up a shell for calling cargo by hand.
env:
	@echo 'export HEARTH_CACHE=$(HEARTH_CACHE) CARGO_TARGET_DIR=$(CARGO_TARGET_DIR) ROCKSDB_LIB_DIR=$(ROCKSDB_LIB_DIR) JEMALLOC_OVERRIDE=$(JEMALLOC_OVERRIDE)'
	@echo 'export ORT_DISABLE_TELEMETRY=$(ORT_DISABLE_TELEMETRY) CARGO_INCREMENTAL=1 $(LINTING)'
