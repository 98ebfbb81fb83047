# varve: `make` prints the targets, each with what it does.

GO       ?= go
FUZZTIME ?= 20s

# How much and what make crash does; SEED=7 does the same programs again.
CRASHPOINTS ?= 1000000
SEED        ?= $(shell date +%s)

# Everything is built and vetted for these; tests run on the machine's own.
PLATFORMS := linux/amd64 linux/386 linux/arm64 darwin/arm64 windows/amd64

# The race detector needs a C compiler; without one Go sets CGO_ENABLED=0.
RACE := $(if $(filter 1,$(shell $(GO) env CGO_ENABLED)),-race)

.DEFAULT_GOAL := help

.PHONY: help
help: ## print this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: ## load a million generated events, replay them, prove every copy equal
	$(GO) run ./examples/replay

# The tests that do less beside the race detector, found by what they ask.
CUT_SHORT = $(shell awk 'FNR == 1 { name = "" } /^func / { split($$2, word, "[^A-Za-z0-9_]"); name = word[1] } \
	/raceDetector|stride|manySegments|loseOf/ && name ~ /^Test/ { print name }' *_test.go | sort -u | paste -sd '|' -)

.PHONY: test
test: ## all tests, with the race detector where a C compiler is found, and what that cannot do without it
	$(GO) test $(RACE) -timeout 15m ./...
	$(if $(RACE),$(GO) test -timeout 15m -run '^TestMemoryUnderLoad$$' .)

.PHONY: test-long
test-long: ## in full, without the race detector, what it cuts short
	$(GO) test -timeout 30m -run '^($(or $(CUT_SHORT),$(error no test is cut short)))$$' .

.PHONY: check
check: lint ## format, vet and build on all platforms, staticcheck, short tests
	$(GO) test -short ./...

.PHONY: lint
lint: fmt cross staticcheck ## the part of check that runs no test

.PHONY: fmt
fmt: ## fail if a file is not gofmt's
	@files=$$(gofmt -l .) && test -z "$$files" || { echo "not formatted:" >&2; echo "$$files" >&2; exit 1; }

.PHONY: cross
cross: ## build and vet for every platform
	@set -e; for platform in $(PLATFORMS); do \
		echo "build and vet $$platform"; \
		export GOOS=$${platform%/*} GOARCH=$${platform#*/} CGO_ENABLED=0; \
		$(GO) build ./...; \
		$(GO) vet -tags interop ./...; \
	done

.PHONY: staticcheck
staticcheck: ## run staticcheck, pinned in tools/go.mod
	$(GO) tool -modfile=tools/go.mod staticcheck -tags interop ./...

.PHONY: test386
test386: ## short tests as a 32-bit program (a linux/amd64 machine runs it)
	GOARCH=386 CGO_ENABLED=0 $(GO) test -short -timeout 10m ./...

.PHONY: fuzz
fuzz: ## fuzz every native target for FUZZTIME each (20s)
	@set -e; packages=$$($(GO) list ./...); for package in $$packages; do \
		targets=$$($(GO) test -list '^Fuzz' $$package); \
		for target in $$(echo "$$targets" | grep '^Fuzz' || true); do \
			echo "fuzz $$package $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x $$package; \
		done; \
	done

.PHONY: mutants
mutants: ## break the engine on purpose, one protection at a time: each break must be caught (minutes)
	$(GO) run ./fuzz/mutants

.PHONY: crash
crash: ## crash random programs at CRASHPOINTS (a million) calls, and verify what each leaves (quarter of an hour)
	$(GO) test -count=1 -timeout 0 -run TestCampaign ./fuzz/crash -v -crash.points=$(CRASHPOINTS) -crash.seed=$(SEED)

.PHONY: corrupt
corrupt: ## damage a small data directory in every way, one at a time (most of an hour; CORRUPT="-n 20000" is a sample)
	$(GO) run ./fuzz/corrupt $(CORRUPT)

.PHONY: interop
interop: ## Apache Kafka reads our files, we read its (needs a JDK and Maven)
	$(GO) test -tags interop -count=1 -timeout 15m ./interop/...

.PHONY: bench
bench: ## measure everything, against peers and targets: docs/benchmarks.md (an hour, 40 GB of disk; BENCH="-dir /disk")
	cd bench && $(GO) run . -growth -page ../docs/benchmarks.md -json ../docs/benchmarks/run.json $(BENCH)

.PHONY: bench-quick
bench-quick: ## the rows that a change is most likely to spoil, a line each; fails where one is short
	cd bench && $(GO) run . -quick $(BENCH)

.PHONY: bench-check
bench-check: ## build, vet, staticcheck and test the benchmark's own code, a module of its own
	cd bench && $(GO) build -o /dev/null ./... && $(GO) vet ./... && $(GO) test -count=1 ./...
	$(GO) tool -modfile=tools/go.mod staticcheck -version
	staticcheck=$$($(GO) tool -modfile=tools/go.mod -n staticcheck) && cd bench && $$staticcheck ./...

.PHONY: sql-check
sql-check: ## build, vet, staticcheck and test examples/sqlonce, a module of its own, for it needs a database
	cd examples/sqlonce && $(GO) build -o /dev/null ./... && $(GO) vet ./... && $(GO) test -count=1 ./...
	staticcheck=$$($(GO) tool -modfile=tools/go.mod -n staticcheck) && cd examples/sqlonce && $$staticcheck ./...

.PHONY: docs
docs: ## hold the documentation against the code
	$(GO) test -count=1 ./internal/docs/
