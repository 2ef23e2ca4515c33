# Modelgate. `make` alone lists the targets.

GO ?= go
TOOL := $(GO) tool -modfile=tools/go.mod
ARGS ?=
FUZZTIME ?= 30s
SOAK ?= 1h

# Whoever names an Envoy needs no other.
ENVOY := $(if $(MODELGATE_ENVOY),,envoy)
export MODELGATE_ENVOY ?= $(CURDIR)/bin/envoy

# The image's flags for everything: what one command has compiled the next one does not compile again. No debugger reads it.
export GOFLAGS ?= -trimpath -gcflags=all=-dwarf=false
export CGO_ENABLED ?= 0

.PHONY: help build image release envoy run test test-all test-ha test-chart test-mesh fuzz soak peers bench bench-check screenshots lint generate fresh clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

build: ## Build bin/modelgate
	$(GO) build -trimpath -ldflags="-s -w" -o bin/modelgate ./cmd/modelgate

image: ## Make dist/image: the image for amd64 and arm64, as OCI layout and as a file, and what is in it (SBOM)
	$(GO) -C tools/release run . image $(ARGS)

release: ## Make dist/release of VERSION, which the commit has as its tag: archives, packages, image, chart, SBOMs and checksums
	$(GO) -C tools/release run . release -version "$(VERSION)" $$(tools/release/envoy.sh .cache/release | sed 's/^/-envoy ..\/..\//') $(ARGS)

envoy: ## Install bin/envoy, the pinned release of Envoy
	@tools/envoy/install.sh bin/envoy .cache/envoy

run: build $(ENVOY) ## Run the gateway in ./data (ARGS="--listen 127.0.0.1:0")
	bin/modelgate run $(ARGS)

test: $(ENVOY) ## Run the tests against the real Envoy, those that take long in a shorter form or not at all
	tools/test.sh services vet unit proportion modules clients system

test-all: $(ENVOY) ## Run every test whole, also those of test-ha and test-chart, and with the race detector, lint and fresh (as root)
	MODELGATE_ALL=1 ARGS="$(ARGS)" tools/test.sh 'services&' 'clients&' 'cluster&' 'modules&' 'lint&' 'fresh&' \
		vet services race proportion clients cluster system ha chart modules lint fresh

test-ha: $(ENVOY) ## Replace, lose and restore every part under load, and run two versions at once
	tools/test.sh services ha

test-chart: $(ENVOY) ## Install the chart into a real Kubernetes, and prove it (as root; the first time builds Kubernetes, ten minutes)
	ARGS="$(ARGS)" tools/test.sh services chart

test-mesh: $(ENVOY) ## Run the control planes of Istio and of Envoy Gateway with ours (as root; the first time builds them, a quarter of an hour)
	tools/test.sh services mesh

fuzz: ## Run every fuzz target for a while (FUZZTIME=30s)
	@for package in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n 1 dirname | sort -u); do \
		targets=$$($(GO) test -list '^Fuzz' $$package) || exit 1; \
		for target in $$(echo "$$targets" | grep '^Fuzz'); do \
			echo "$$package $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 2s $$package || exit 1; \
		done; \
	done

soak: $(ENVOY) ## Play scripts on ext_proc's transport, by frames beside grpc-go and over Envoy (SOAK=1h each, writes docs/benchmarks-soak*)
	MODELGATE_SOAK=$(SOAK) MODELGATE_SOAK_RECORD=$(CURDIR)/docs/benchmarks-soak.txt \
		$(GO) test -count 1 -timeout 0 -run '^TestSoak$$' ./extproc/transport
	MODELGATE_SOAK=$(SOAK) MODELGATE_SOAK_RECORD=$(CURDIR)/docs/benchmarks-soak-envoy.txt \
		$(GO) test -count 1 -timeout 0 -run '^TestSoak$$' ./test/e2e

peers: ## Install the gateways of others that bench measures too (the first time takes many minutes)
	@test/bench/peers/install.sh .cache/peers

bench: build $(ENVOY) peers ## Measure the gateway beside Envoy alone and other gateways, the job service, limits, ledger and pages, and each codec (writes docs/benchmarks*)
	$(GO) run ./test/bench -envoy $(MODELGATE_ENVOY) -modelgate bin/modelgate -aigateway .cache/peers/aigw -litellm .cache/peers/litellm/bin/litellm -portkey .cache/peers/portkey/node_modules/@portkey-ai/gateway/build/start-server.js -out docs/benchmarks.md -record docs/benchmarks.json
	$(GO) run ./test/bench -envoy $(MODELGATE_ENVOY) -modelgate bin/modelgate -what instructions -out docs/benchmarks-listener.md
	$(GO) test -run '^$$' -bench Jobs -benchtime 1x -timeout 30m ./test/e2e > docs/benchmarks-jobs.txt
	$(GO) test -p 1 -run '^$$' -bench . -benchtime 0.5s ./internal/limit ./internal/usage ./controlplane/ledger > docs/benchmarks-limits.txt
	$(GO) test -timeout 40m -run '^$$' -bench 'Pages' -benchtime 20x ./controlplane/dashboard > docs/benchmarks-pages.txt
	$(GO) test -p 1 -run '^$$' -bench Codec -benchtime 0.2s ./internal/provider/... > docs/benchmarks-codecs.txt
	$(GO) test -p 1 -run '^$$' -bench 'Chat|Stream|Guard' -benchtime 0.5s ./extproc/exchange ./internal/guard > docs/benchmarks-exchange.txt

bench-check: build $(ENVOY) ## Measure the gateway again, and print what has moved by more than 10 % since docs/benchmarks.json was recorded
	$(GO) run ./test/bench -envoy $(MODELGATE_ENVOY) -modelgate bin/modelgate -check docs/benchmarks.json

screenshots: $(ENVOY) ## Make the pictures of the documentation anew (writes docs/images)
	test/browser/setup.sh
	MODELGATE_ALL=1 PICTURES=$(CURDIR)/docs/images $(GO) test -count 1 -run '^TestPictures$$' ./test/browser

lint: ## Run the linters
	$(TOOL) golangci-lint run ./...
	cd charts && $(GO) tool -modfile=../tools/go.mod golangci-lint run ./...
	cd tools/release && $(GO) tool -modfile=../go.mod golangci-lint run ./...

generate: ## Write the generated files again
	$(TOOL) buf generate --path api
	$(GO) generate ./...

fresh: ## Check that the generated files are up to date
	@rm -rf .cache/fresh && mkdir -p .cache/fresh/new
	@git ls-files -z --cached --others --exclude-standard | \
		tar --create --null --ignore-failed-read --files-from - --file .cache/fresh/tree.tar 2>/dev/null
	@tar --extract --file .cache/fresh/tree.tar --directory .cache/fresh/new
	@$(MAKE) --no-print-directory --directory .cache/fresh/new generate
	@tar --diff --file .cache/fresh/tree.tar --directory .cache/fresh/new | grep -v 'Mod time differs' > .cache/fresh/differences || true
	@if [ -s .cache/fresh/differences ]; then cat .cache/fresh/differences; echo "run make generate"; exit 1; fi
	@rm -rf .cache/fresh

clean: ## Remove what was built; downloads stay in .cache
	rm -rf bin .cache/fresh
