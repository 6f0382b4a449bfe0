# `make` alone prints what there is.
export CGO_ENABLED = 0
# The same for all that is built here, so that each package is compiled once and not once for
# each target; those of the caller come last and count. grpcnotrace leaves out pages of grpc-go that
# nobody serves, and what they need.
TAGS := grpcnotrace
export GOFLAGS := -trimpath -buildvcs=false -tags=$(TAGS) $(GOFLAGS)
GO ?= go
BIN := bin/mayfly
STATICCHECK := tools/bin/staticcheck
# How long make fuzz runs each function.
FUZZTIME ?= 10s

.PHONY: help
help: ## print the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## build the server: bin/mayfly
	$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/mayfly

# What make dist builds for, and what it writes into the binaries and packages.
ARCHES ?= amd64 arm64
VERSION := $(shell sed -n 's/^const Version = "\(.*\)"/\1/p' internal/config/version.go)
# Without git there is none of the two: unknown, and the beginning of 1970.
REVISION ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
COMMITTED ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
LDFLAGS := -s -w -X github.com/mayflydb/mayfly/internal/config.Revision=$(REVISION)

.PHONY: dist
dist: ## packages (deb, rpm), an OCI image, a Helm chart, manifests, bills of materials and checksums: bin/dist
	rm -rf bin/dist bin/release
	for arch in $(ARCHES); do \
		GOOS=linux GOARCH=$$arch $(GO) build -ldflags '$(LDFLAGS)' -o bin/release/mayfly-$$arch ./cmd/mayfly || exit 1; \
	done
	cd packaging && $(GO) build -o ../bin/packaging .
	bin/packaging -version $(VERSION) -time $(COMMITTED) -files packaging/files -chart packaging/chart -compose packaging/compose.yaml -out bin/dist $(foreach a,$(ARCHES),-binary $(a)=bin/release/mayfly-$(a))

.PHONY: test-dist
test-dist: dist ## what make dist has made: run, installed, built again elsewhere; needs root on Debian
	cd packaging && $(GO) vet ./... && $(GO) test -count=1 ./...
	ARCHES='$(ARCHES)' VERSION=$(VERSION) REVISION=$(REVISION) COMMITTED=$(COMMITTED) ./packaging/test

.PHONY: run
run: build ## start a server with sample data that expires before your eyes
	$(BIN) demo

.PHONY: test
test: lint test-unit test-e2e ## install what the tests need, then run all of them

.PHONY: test-unit
test-unit: ## the Go tests with assertions on, without anything to install
	$(GO) test -tags invariants,$(TAGS) -timeout 15m ./cmd/... ./embed/... ./internal/...

.PHONY: test-e2e
test-e2e: build ## real drivers, mongosh, applications, crashes and full disks against a real server
	./e2e/install
	MAYFLY_BIN=$(abspath $(BIN)) $(GO) test -count=1 -timeout 15m ./e2e/...
	MAYFLY_BIN=$(abspath $(BIN)) $(GO) test -count=1 -timeout 10m ./internal/bench -run 'TestSharded$$'
	./e2e/run
	./e2e/cosmos/run
	./e2e/debian/run
	$(MAKE) test-dist ARCHES=$$(dpkg --print-architecture)

.PHONY: test-crash
test-crash: build ## kill -9 under load, again and again (long form)
	MAYFLY_BIN=$(abspath $(BIN)) $(GO) test -count=1 -timeout 30m ./e2e/crash -crash.rounds=120

.PHONY: test-archive
test-archive: ## archives whose store fails and whose server dies, 2000 times at random (long form)
	$(GO) test -count=1 -timeout 30m ./internal/expire -run 'TestArchivedOnce|TestArchiveForget' -archivetrials=2000

# How long make test-nemesis disturbs the set, and by which schedule.
NEMESIS ?= 1h
SEED ?= $(shell date +%s)

.PHONY: test-nemesis
test-nemesis: build ## a replica set of three processes, disturbed for NEMESIS=1h by the schedule of a SEED; then a cluster, as long
	./e2e/install
	MAYFLY_BIN=$(abspath $(BIN)) $(GO) test -count=1 -v -timeout 24h ./e2e/nemesis -run TestNemesis -nemesis.duration $(NEMESIS) -nemesis.seed $(SEED)
	MAYFLY_BIN=$(abspath $(BIN)) $(GO) test -count=1 -v -timeout 24h ./e2e/cluster -run TestNemesisThroughRouters -cluster.nemesis $(NEMESIS) -cluster.seed $(SEED)

# How many seeds make sim runs, and from which one on; and of a cluster's requests that may come
# twice, how many of a hundred come again in the runs with many of those.
SEEDS ?= 10000
FIRST ?= 1
DOUBLED ?= 150

.PHONY: sim
sim: ## members of a replica set in virtual time, their disks, network and clocks disturbed: SEEDS=10000; then a cluster, a tenth as many, and a hundredth with many doubled requests
	$(GO) test -count=1 -timeout 12h ./internal/repl -run 'TestSimulation(OnStores)?$$' -v -seeds $(SEEDS) -first-seed $(FIRST)
	$(GO) test -count=1 -timeout 12h ./internal/cluster/clustersim -run 'TestCluster(OfSets)?$$' -v -seeds $$(($(SEEDS) / 10)) -sets $$(($(SEEDS) / 100)) -first-seed $(FIRST)
	$(GO) test -count=1 -timeout 12h ./internal/cluster/clustersim -run 'TestCluster(OfSets)?$$' -v -seeds $$(($(SEEDS) / 100)) -sets $$(($(SEEDS) / 1000)) -first-seed $(FIRST) -doubled $(DOUBLED)

.PHONY: scale
scale: ## the shards of a simulated cluster doubled: 1,000 shards, 10,000,000 chunks, 100 routers
	$(GO) test -count=1 -timeout 2h ./internal/shard -run 'TestScale$$' -v -scale

.PHONY: test-cluster
test-cluster: build ## a cluster whose parts are killed at every step of a move, of DDL and of commits
	MAYFLY_BIN=$(abspath $(BIN)) $(GO) test -count=1 -v -timeout 30m ./e2e/cluster -run 'TestKill|TestTransfers' -cluster.long

# How often make test-moves moves.
MOVES ?= 50

.PHONY: test-moves
test-moves: ## a range moved under writes, MOVES=50 times, three at a time so that they wait for each other: is no change lost?
	$(GO) test -c -tags invariants,$(TAGS) -o bin/moves.test ./internal/cluster/shardsvr
	cd internal/cluster/shardsvr && seq $(MOVES) | xargs -n 1 -P 3 $(abspath bin/moves.test) -test.run 'TestMove$$' -test.timeout 5m -test.count 1 --
test-backup: build ## 200 restores of a set under load to times chosen at random
	MAYFLY_BIN=$(abspath $(BIN)) $(GO) test -count=1 -v -timeout 60m ./e2e/backup -run TestAt -backup.restores 200

# The revision from which make test-upgrade comes.
FROM ?= 329ed436

.PHONY: test-upgrade
test-upgrade: build ## a set goes from another revision to this build and back, member by member: FROM=revision
	rm -rf bin/from && git worktree prune && git worktree add --detach bin/from $(FROM)
	cd bin/from && $(GO) build -ldflags '-s -w' -o ../mayfly-from ./cmd/mayfly
	git worktree remove --force bin/from
	MAYFLY_BIN=$(abspath $(BIN)) $(GO) test -count=1 -v -timeout 10m ./e2e/upgrade -upgrade.from $(abspath bin/mayfly-from)

.PHONY: fuzz
fuzz: ## every fuzz function of the tree, FUZZTIME=10s each
	@for file in $$(git grep -l '^func Fuzz' -- '*_test.go'); do \
		for name in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' $$file); do \
			echo "== $$name in $$(dirname $$file)"; \
			$(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) ./$$(dirname $$file) || exit 1; \
		done; \
	done

.PHONY: lint
lint: $(STATICCHECK) ## formatting, vet, staticcheck, licences, known vulnerabilities
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); exit 1; }
	$(GO) vet ./...
	$(GO) vet -tags invariants,$(TAGS) ./internal/invariant
	$(STATICCHECK) ./...
	cd packaging && $(GO) build -o ../bin/checklicences ./checklicences
	bin/checklicences
	./tools/vulnerabilities

$(STATICCHECK): tools/go.mod tools/go.sum
	cd tools && GOBIN=$(abspath tools/bin) $(GO) install tool
	@touch $@

.PHONY: bench
bench: build ## a server beside PostgreSQL and Pebble, as a table; BENCH='-rows expiry' and the like choose
	$(GO) build -o bin/mayfly-bench ./cmd/mayfly-bench
	./internal/bench/run $(BENCH)

.PHONY: bench-go
bench-go: ## the Go benchmarks of the hot paths
	$(GO) test -run '^$$$$' -bench . -benchmem ./internal/...

.PHONY: race
race: ## the Go tests under the race detector; it needs a C compiler, which nothing else does
	CGO_ENABLED=1 $(GO) test -race ./internal/...

.PHONY: console
console: ## build the page of the console from console/ into internal/console/assets
	cd console && npm ci --no-audit --no-fund --ignore-scripts && npm run check && npm run build

.PHONY: bench-console
bench-console: build ## how fast the console is, as a browser measures it, with 10,000 collections and a million chunks
	./e2e/install
	cd e2e/node && node consolebench.js

.PHONY: clean
clean: ## remove what was built
	rm -rf bin
