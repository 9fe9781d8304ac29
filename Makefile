# hermes: every target works on a clean clone with Go alone; `make help` lists them.

SHELL := /bin/bash
GO    ?= go
BIN   := bin/hermes

# Tools are pinned here and run with `go run`, so that go.mod stays clean.
GOLANGCI  := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
GOFUMPT   := mvdan.cc/gofumpt@v0.12.0

VERSION   ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS   := -s -w -X main.version=$(VERSION)

.DEFAULT_GOAL := help
.PHONY: help build guests run test race bench lint fmt docs check clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "  %-8s %s\n", $$1, $$2}' Makefile

guests: ## build the WASM tools we ship into tools.d
	@bash wasmtools/guests/build.sh

build: guests ## build the binary into bin/
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/hermes

run: build ## serve agents/ on 127.0.0.1:8420
	exec $(BIN) serve

test: guests ## run every test
	$(GO) test ./...

# What works in one goroutine, on modules as values, has nothing to race with.
ONE_GOROUTINE := wasmtools/(rewrite|module|binary|sdk|guests)

race: guests ## run the tests under the race detector, in short form
	$(GO) test -race -short $$($(GO) list ./... | grep -vE '$(ONE_GOROUTINE)')

bench: guests ## run every benchmark once more than briefly
	$(GO) test -run '^$$' -bench . -benchmem ./...

lint: ## vet and lint
	$(GO) vet ./...
	$(GO) run $(GOLANGCI) run ./...

fmt: ## format Go and HCL
	$(GO) run $(GOFUMPT) -w .
	$(GO) run ./cmd/hermes fmt agents tools.d

docs: guests ## write the generated references in docs/
	$(GO) run ./cmd/hermes docs --out docs

check: lint test race ## everything a change must pass
	$(MAKE) docs
	git diff --exit-code

clean: ## remove what was built, not what you wrote
	rm -rf bin tools.d/*.wasm
