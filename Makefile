# SPDX-License-Identifier: Apache-2.0
# "make help" says what each target does: the text after ## is its line.
GO       ?= go
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# For linux/amd64, functions are not aligned (Go: to 32 bytes), which makes btrun 135 KB smaller.
LDFLAGS  := -s -w $(shell cat tools/ldflags.$$($(GO) env GOOS)-$$($(GO) env GOARCH) 2>/dev/null) -X main.version=$(VERSION)
# Without inlining in these packages, with their short slices of unknown length on the heap, and without checks that their
# iterators end when a loop does, btrun is 380 KB smaller; no user waits for them.
COLD     := $(shell cat tools/noinline.flags)
GCFLAGS  := $(foreach p,$(shell cat tools/noinline.txt),'-gcflags=$(p)=$(COLD)')
# Without the assembly of crypto packages, most of which btrun never runs, it is 65 KB smaller. It hashes an object once.
bin/btrun: TAGS := -tags $(shell cat tools/btrun.tags)
export CGO_ENABLED = 0

.PHONY: all help build demo setup test check test-real test-kernels test-loaders test-tools test-metrics test-release dist-twice \
	race lint bench fuzz mutate lines module-path release generate docs site clean

all: build

help: ## this list
	@sed -nE 's/^([a-z-]+):.* ## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | while IFS=$$(printf '\t') read -r target line; do \
		printf '  %-14s %s\n' "$$target" "$$line"; done

build: bin/btc bin/btrun ## btc and btrun, in bin (V=1: shows the commands)

bin/btc bin/btrun: bin/%: FORCE
	@mkdir -p bin
	@echo 'building $@'
	$(if $(V),,@)$(GO) build -trimpath $(TAGS) $(GCFLAGS) -ldflags '$(LDFLAGS)' -o $@ ./cmd/$*

.PHONY: FORCE
FORCE:

demo: build ## traces a small workload of its own and prints the report (root)
	@sh tests/demo.sh

setup: ## installs what the tests need with apt (root, Debian), and fetches kernels and QEMU below build
	@bash tests/setup/install.sh

test: setup ## sets up, and runs every test, of expensive ones the cheapest cases (20 minutes; CI runs it)
	@bash tests/all.sh

check: ## the same tests with what the machine has: installs nothing
	@bash tests/all.sh

test-real: ## programs of others, which it fetches below build: tracers, loaders, monitoring, distributions (an hour)
	@bash tests/real.sh

# module-path renames the Go module, so that others can require it: its path then begins with a host
# name. Imports, tests, scripts and documents change with it.
#   make module-path MODULE=example.com/tools/btc
module-path: ## renames the Go module: MODULE=example.com/tools/btc
	@$(GO) run ./tools/modulepath '$(MODULE)'

# race runs the tests of package btrace and of the packages below it with Go's race detector
# (needs a C compiler).
race: ## tests of btrace and the loader with the race detector (a C compiler)
	CGO_ENABLED=1 $(GO) test -race -count=1 ./btrace ./loader/run ./loader/symbols

# test-kernels runs the cases on one kernel of the matrix, or on all, loads all objects there, and compares all verdicts of btc
# check with btrun:
#   make test-kernels KERNEL=6.12 RUN=kprobe     KERNEL is a directory of build/kernels, RUN a pattern of cases or scripts
test-kernels: ## all cases and objects on all kernels in emulated guests (hours), or KERNEL=6.12 RUN=pattern
	@KERNEL='$(KERNEL)' RUN='$(RUN)' bash tests/guests.sh

# test-loaders fetches other loaders of BPF objects, as far as they are available, and runs objects
# with each of them (docs/loaders.md has the table). With KERNEL it runs them in an emulated guest:
#   make test-loaders KERNEL=6.1-rt RUN=hist     KERNEL is a directory of build/kernels or a pattern: sid.*
test-loaders: ## objects with other loaders, which it fetches; in guests with KERNEL=pattern RUN=pattern
	@bash tests/setup/loaders.sh
ifdef KERNEL
	$(GO) test ./tests/loaders -count=1 -v -timeout 60m -run TestGuests -kernel '$(KERNEL)' $(if $(RUN),-case '$(RUN)')
else
	$(GO) test ./tests/loaders -count=1 -v -all
endif

# test-tools runs the tools of examples in an emulated guest, each beside bpftrace's own tool and that
# of libbpf-tools, as far as they can be had:
#   make test-tools KERNEL=6.12 RUN=biosnoop     KERNEL is a directory of build/kernels or a pattern
test-tools: ## tools of examples beside those of bpftrace and libbpf-tools, in guests: KERNEL=pattern RUN=pattern
	@bash tests/setup/oracle.sh
	@bash tests/setup/bcc.sh
	$(GO) test ./tests/tools -count=1 -v -timeout 3h -run TestGuests -kernel '$(or $(KERNEL),.*)' $(if $(RUN),-tool '$(RUN)')

# test-metrics fetches the programs that fleets run (node_exporter, Prometheus, kubectl, an OpenSSH
# server, an OpenTelemetry Collector), as far as they are available, and runs btrun and btc with them.
test-metrics: ## btrun and btc fan with Prometheus, node_exporter, kubectl, sshd, an OpenTelemetry Collector
	@bash tests/setup/fleet.sh
	$(GO) test ./tests/metrics ./tests/fan -count=1 -v -timeout 20m

# release writes the files of a release to dist/: archives, packages, the image, checksums.
# PLATFORMS=linux/amd64 limits it to one platform. Builds are reproducible: the same commit and Go
# version give the same bytes. MAINTAINER='Name <address>' is the packages' maintainer; default: git's.
DIST       ?= dist
PLATFORMS  ?=
MAINTAINER ?= $(shell git config user.name) <$(shell git config user.email)>
release: ## archives, packages, image and checksums, in dist: PLATFORMS=linux/amd64 VERSION=v1
	@out=$$(realpath -m '$(DIST)') && cd tools/release && $(GO) run . -root ../.. -out "$$out" \
		-version '$(VERSION)' -time "$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct 2>/dev/null || stat -c %Y go.mod)}" -platforms '$(PLATFORMS)' \
		-maintainer '$(MAINTAINER)'

# test-release makes the release for this machine's platform twice, compares the results, and installs
# one (root; Debian systems are downloaded to build/roots).
test-release: dist-twice ## a release is reproducible, and installs in distributions
	$(GO) test ./tests/release -count=1 -v -timeout 30m -dist "$(CURDIR)/build/release/1" \
		-again "$(CURDIR)/build/release/2" -roots "$(CURDIR)/build/roots"

dist-twice: ## the release of this platform twice, in build/release
	for n in 1 2; do \
		$(MAKE) release DIST=build/release/$$n PLATFORMS=linux/$$($(GO) env GOARCH) \
			MAINTAINER='Release Test <test@release.invalid>' || exit; \
	done

lint: ## gofmt, vet, staticcheck, go mod tidy, vulnerabilities, generated code
	@bash tests/lint.sh

# bench compares with bpftrace on this kernel (root; about a quarter of an hour). BENCH has options,
# such as "-quick -only events".
bench: ## compares with bpftrace (root; a quarter of an hour): BENCH="-quick -only events"
	@bash tests/setup/oracle.sh
	$(GO) run ./tests/bench $(BENCH)

# fuzz runs every fuzz target for FUZZTIME (about an hour in total), and tests a million mutated
# manifests. For a quick run: FUZZTIME=10s MUTANTS=20000
FUZZTIME ?= 100s
MUTANTS  ?= 1000000
fuzz: ## every fuzz target, and mutated manifests (an hour): FUZZTIME=10s MUTANTS=20000
	@bash tests/fuzz.sh $(FUZZTIME) . 2
	$(GO) test ./tests/mutants -count=1 -timeout 0 -v -mutants $(MUTANTS) -jobs 0 -seed $$(date +%s)

# mutate is mutation testing: it changes the code in one place at a time and reports how many of the
# changes the tests of the package detect (hours). For a quick run: MUTATE="-n 10 ./passes"
mutate: ## which changes of a package its own tests notice (hours): MUTATE="-n 10 ./passes"
	$(GO) run ./tests/mutate $(MUTATE)

# lines counts the lines of code (without comments, blank lines, tests and generated files) by top-level directory.
lines: ## lines of code, comments and tests
	@$(GO) run ./tools/lines

generate: ## the parser from the grammar (Node.js)
	$(GO) generate ./...

# docs rewrites the generated parts of docs/ and the tour.
docs: ## the generated parts of docs and of the tour
	$(GO) test ./internal/manifest ./manifest ./ir ./tests/arch ./tests/docs ./tests/tools ./tests/tour ./cmd/btc ./report/flamegraph \
		-run 'Schema|Language|Errors|Document|Scripts|Reference$$|Figures|Pages|Packages|Pictures|Types$$' -update

# site renders README.md and docs to static HTML in build/site.
site: ## README and docs as HTML, in build/site
	$(GO) run ./tools/site build/site

clean: ## removes bin, build and dist
	rm -rf bin build dist
