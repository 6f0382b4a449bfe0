# `make` alone prints what there is.
export CGO_ENABLED = 0
GO ?= go
BIN := bin/mayfly

.PHONY: help
help: ## print the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## build the server: bin/mayfly
	$(GO) build -trimpath -ldflags '-s -w' -o $(BIN) ./cmd/mayfly

.PHONY: run
run: build ## start a server with sample data that expires before your eyes
	$(BIN) demo

.PHONY: test
test: lint test-unit test-e2e ## install what the tests need, then run all of them

.PHONY: test-unit
test-unit: ## the Go tests, without anything to install
	$(GO) test -timeout 15m ./...

.PHONY: test-e2e
test-e2e: build ## real drivers, mongosh and applications against a real server
	./e2e/run
	./e2e/cosmos/run

.PHONY: test-crash
test-crash: build ## kill -9 under load, again and again (long form)
	$(GO) test -count=1 -timeout 30m ./e2e/crash -crash.rounds=120

.PHONY: lint
lint: ## formatting, vet
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); exit 1; }
	$(GO) vet ./...

.PHONY: bench
bench: build ## a server beside PostgreSQL and Pebble, as a table; BENCH='-rows expiry' and the like choose
	./internal/bench/run $(BENCH)

.PHONY: bench-go
bench-go: ## the Go benchmarks of the hot paths
	$(GO) test -run '^$$$$' -bench . -benchmem ./internal/...

.PHONY: clean
clean: ## remove what was built
	rm -rf bin
