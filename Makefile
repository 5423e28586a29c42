# What is here: `make help`. Needs Go, a C compiler (for the race detector), make and git, nothing else.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

# Build in any checkout, also in one that git does not trust (a CI runner's): binaries carry no commit.
export GOFLAGS := -buildvcs=false $(GOFLAGS)

# The nouns: pure packages, tested with the race detector.
PURE := $(wildcard alloc augment claim cluster compound dump explain fabric inventory lint scenario show selector simulate)
PURE_PACKAGES := $(PURE:%=./%/...)
# Everything else but the import law: most of it runs on an embedded control plane. What takes longest comes first.
RIM_PACKAGES = ./sandbox/story ./sandbox/crash \
	$$(go list ./... | grep -Ev '^kerf\.dev/kerf(/($(subst $() ,|,$(PURE)))(/.*)?)?$$|/sandbox/(story|crash)$$')

BENCHMARKS := $(patsubst %,./%/...,$(wildcard alloc bench inventory selector))

# Not cached: the go command does not see that the law's test reads other packages.
IMPORT_LAW := go test -count=1 .

LINT := go tool -modfile=tools/go.mod golangci-lint

.PHONY: help
help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: bin/kerf-sandbox ## Run examples/partitioned-gpus on an embedded control plane.
	bin/kerf-sandbox run examples/partitioned-gpus

.PHONY: test
test: fmt ## Run vet, gofmt, the import law and all tests, stories on both backends.
	go vet ./...
	$(IMPORT_LAW)
	@# The nouns compute while the control planes wait.
	@$(MAKE) --no-print-directory -j 2 test-nouns test-rim

# One at a time, since each uses as many processors as there are. No noun starts a goroutine, which the law checks: the
# race detector looks at the tests that call one from several, and at what does I/O.
CONCURRENT := ./selector/... ./fabric/redfish/... ./scenario/...
.PHONY: test-nouns
test-nouns:
	go test -p 1 -timeout 30m $(filter-out $(CONCURRENT),$(PURE_PACKAGES))
	go test -race -p 1 -timeout 30m $(CONCURRENT)
	go test -race -p 1 -timeout 30m -run AtOnce ./alloc

# Two at a time: a control plane mostly waits, so that two of them share two cores well.
.PHONY: test-rim
test-rim:
	go test -p 2 -timeout 30m $(RIM_PACKAGES)

# LONG is how long what has no end goes on, SEED where the drawing begins.
LONG ?= 10m
SEED ?= 1
LONG_TEST := go test -count=1 -timeout 4h
FUZZ := $(LONG_TEST) -run '^$$' -fuzztime $(LONG) -fuzzminimizetime 3x -fuzz

.PHONY: test-long
test-long: ## Run the long form of every test with chance in it: three hours on two cores. LONG=30m, SEED=2: longer, others.
	$(LONG_TEST) -race $(PURE_PACKAGES)
	$(LONG_TEST) ./sandbox/storm -steps 480 -kills 10 -seed $(SEED)
	$(LONG_TEST) ./sandbox/churn -rounds 200
	$(LONG_TEST) ./sandbox/race -seeds 20 -mode R
	$(LONG_TEST) ./kube/dropin -seeds 15000 -seed $(SEED)
	$(LONG_TEST) ./fabric -worlds 60
	$(LONG_TEST) ./inventory/histories -histories $(LONG) -seed $(SEED)
	$(LONG_TEST) ./bench/alloc -run Hostile -hostile $(LONG) -seed $(SEED)
	$(LONG_TEST) ./simulate/hostile -seeds 5000 -first $(SEED)
	$(FUZZ) FuzzAllocate ./alloc
	$(FUZZ) FuzzParse ./augment
	$(FUZZ) FuzzHistories ./inventory/histories
	$(FUZZ) FuzzExpression ./selector
	$(FUZZ) FuzzWorlds ./simulate/hostile

.PHONY: check
check: fmt ## Run the linters, gofmt and the import law.
	$(IMPORT_LAW)
	$(LINT) run ./...

.PHONY: bench
bench: ## Run the benchmarks.
	go test -run '^$$' -bench . -benchmem $(BENCHMARKS)

.PHONY: gen
gen: ## Write the generated files again.
	go generate ./...

.PHONY: fmt
fmt:
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "not gofmt-ed:"; echo "$$unformatted"; exit 1; fi

# The go command decides what is out of date. It names every package that it compiles: the recipe counts them, since
# the first build of kerf-sandbox and kerf-scheduler compiles Kubernetes and takes minutes.
BINARIES := bin/kerf bin/kerf-controller bin/kerf-redfish bin/kerf-sandbox bin/kerf-scheduler
.PHONY: $(BINARIES)
$(BINARIES):
	@echo "building $@ (the first time, all that it is made of is compiled: with Kubernetes, 17 minutes of CPU time)" >&2
	@total=$$(go list -deps ./cmd/$(@F) | wc -l); \
	go build -v -ldflags=-w -o $@ ./cmd/$(@F) 2>&1 | awk -v total="$$total" ' \
		/^[^ #:]+$$/ { if (++n % 100 == 0) printf "  compiled %d of at most %d packages\n", n, total; fflush(); next } \
		{ print }' >&2
