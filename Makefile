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
RIM_PACKAGES = ./sandbox/story $$(go list ./... | grep -Ev '^kerf\.dev/kerf(/($(subst $() ,|,$(PURE)))(/.*)?)?$$' | grep -v /sandbox/story$$)

BENCHMARKS := $(patsubst %,./%/...,$(wildcard alloc bench inventory selector))

# Not cached: the go command does not see that the law's test reads other packages.
IMPORT_LAW := go test -count=1 .

LINT := go tool -modfile=tools/go.mod golangci-lint

.PHONY: help
help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-6s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: bin/kerf-sandbox ## Run examples/partitioned-gpus on an embedded control plane.
	bin/kerf-sandbox run examples/partitioned-gpus

.PHONY: test
test: fmt ## Run vet, gofmt, the import law and all tests, stories on both backends.
	go vet ./...
	$(IMPORT_LAW)
	go test -race -timeout 20m $(PURE_PACKAGES)
	@# Two at a time: a control plane mostly waits, so that two of them share two cores well.
	go test -p 2 -timeout 30m $(RIM_PACKAGES)

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
