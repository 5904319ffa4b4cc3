# `make` lists the targets. Everything longer than a line lives in scripts/.

# A build that nobody watches must use the dependencies that were committed.
LOCKED := $(if $(CI),--locked)

.DEFAULT_GOAL := help
.PHONY: help run test test-fdb lint fmt bench tools clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## Run a node on this machine
	cargo run $(LOCKED) -p cadre -- dev

test: ## Run all tests; installs a NATS server under target/tools when there is none
	@scripts/test $(LOCKED)

test-fdb: ## Run the FoundationDB tests: on FDB_CLUSTER_FILE, else on a throw-away server
	@scripts/test-fdb --require

lint: ## Check formatting, lints, docs, the FoundationDB feature and the dependency policy
	@scripts/lint $(LOCKED)

fmt: ## Format the code
	cargo fmt --all
	cargo fmt --manifest-path bench/engines/Cargo.toml

bench: ## Measure store, steps, messages and feed; prints a table and JSON
	@CADRE_NATS_SERVER=$$(scripts/nats-server) cargo run $(LOCKED) --release -p cadre-loadtest -- bench

tools: ## Install what tests and lints need: a NATS server (pip), libclang (apt)
	@scripts/nats-server
	@scripts/libclang

clean: ## Remove everything that was built or installed here
	cargo clean
	cargo clean --manifest-path bench/engines/Cargo.toml
