# SPDX-License-Identifier: Apache-2.0
# Start with:
#   make demo    builds btc and btrun and traces a small workload
#   make test    installs what the tests need, if it is permitted to, and runs all tests
GO       ?= go
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# For linux/amd64, functions are not aligned (Go: to 32 bytes), which makes btrun 135 KB smaller.
LDFLAGS  := -s -w $(shell cat tools/ldflags.$$($(GO) env GOOS)-$$($(GO) env GOARCH) 2>/dev/null) -X main.version=$(VERSION)
# Without inlining in these packages, and with their short slices of unknown length on the heap, btrun is 300 KB smaller;
# no user waits for them.
COLD     := $(shell cat tools/noinline.flags)
GCFLAGS  := $(foreach p,$(shell cat tools/noinline.txt),'-gcflags=$(p)=$(COLD)')
export CGO_ENABLED = 0

.PHONY: all build demo test module-path race test-kernels test-loaders test-tools release test-release lint bench fuzz mutate lines \
	generate docs site clean

all: build

build: bin/btc bin/btrun

bin/btc bin/btrun: bin/%: FORCE
	@mkdir -p bin
	$(GO) build -trimpath $(GCFLAGS) -ldflags '$(LDFLAGS)' -o $@ ./cmd/$*

.PHONY: FORCE
FORCE:

demo: build
	@sh tests/demo.sh

test:
	@bash tests/setup/install.sh
	@bash tests/all.sh

# module-path renames the Go module, so that others can require it: its path then begins with a host
# name. Imports, tests, scripts and documents change with it.
#   make module-path MODULE=example.com/tools/btc
module-path:
	@$(GO) run ./tools/modulepath '$(MODULE)'

# race runs the tests of package btrace and of the packages below it with Go's race detector
# (needs a C compiler).
race:
	CGO_ENABLED=1 $(GO) test -race -count=1 ./btrace ./loader/run ./loader/symbols

# test-kernels runs the cases on one kernel of the matrix, or on all, and compares all verdicts of btc check with btrun:
#   make test-kernels KERNEL=6.12 RUN=kprobe     KERNEL is a directory of build/kernels, RUN a pattern of cases or scripts
test-kernels:
	$(GO) test ./tests/kernels -count=1 -v -timeout 30m $(if $(KERNEL),-kernel '$(KERNEL)') $(if $(RUN),-case '$(RUN)')
	$(GO) test ./tests/load -count=1 -v -timeout 90m -run ForecastMatrix -kernel '$(or $(KERNEL),.*)' $(if $(RUN),-script '$(RUN)')

# test-loaders fetches other loaders of BPF objects, as far as they are available, and runs objects
# with each of them (docs/loaders.md has the table). With KERNEL it runs them in an emulated guest:
#   make test-loaders KERNEL=6.1-rt RUN=hist     KERNEL is a directory of build/kernels or a pattern: sid.*
test-loaders:
	@bash tests/setup/loaders.sh
ifdef KERNEL
	$(GO) test ./tests/loaders -count=1 -v -timeout 60m -run TestGuests -kernel '$(KERNEL)' $(if $(RUN),-case '$(RUN)')
else
	$(GO) test ./tests/loaders -count=1 -v -all
endif

# test-tools runs the tools of examples in an emulated guest, each beside bpftrace's own tool and that
# of libbpf-tools, as far as they can be had:
#   make test-tools KERNEL=6.12 RUN=biosnoop     KERNEL is a directory of build/kernels or a pattern
test-tools:
	@bash tests/setup/oracle.sh
	@bash tests/setup/bcc.sh
	$(GO) test ./tests/tools -count=1 -v -timeout 3h -run TestGuests -kernel '$(or $(KERNEL),.*)' $(if $(RUN),-tool '$(RUN)')

# test-metrics fetches the programs that fleets run (node_exporter, Prometheus, kubectl, an OpenSSH
# server, an OpenTelemetry Collector), as far as they are available, and runs btrun and btc with them.
test-metrics:
	@bash tests/setup/fleet.sh
	$(GO) test ./tests/metrics ./tests/fan -count=1 -v -timeout 20m

# release writes the files of a release to dist/: archives, packages, the image, checksums.
# PLATFORMS=linux/amd64 limits it to one platform. Builds are reproducible: the same commit and Go
# version give the same bytes. MAINTAINER='Name <address>' is the packages' maintainer; default: git's.
DIST       ?= dist
PLATFORMS  ?=
MAINTAINER ?= $(shell git config user.name) <$(shell git config user.email)>
release:
	@out=$$(realpath -m '$(DIST)') && cd tools/release && $(GO) run . -root ../.. -out "$$out" \
		-version '$(VERSION)' -time "$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct 2>/dev/null || stat -c %Y go.mod)}" -platforms '$(PLATFORMS)' \
		-maintainer '$(MAINTAINER)'

# test-release makes the release for this machine's platform twice, compares the results, and installs
# one (root; Debian systems are downloaded to build/roots).
test-release:
	for n in 1 2; do \
		$(MAKE) release DIST=build/release/$$n PLATFORMS=linux/$$($(GO) env GOARCH) \
			MAINTAINER='Release Test <test@release.invalid>' || exit; \
	done
	$(GO) test ./tests/release -count=1 -v -timeout 30m -dist "$(CURDIR)/build/release/1" \
		-again "$(CURDIR)/build/release/2" -roots "$(CURDIR)/build/roots"

lint:
	@bash tests/lint.sh

# bench compares with bpftrace on this kernel (root; about a quarter of an hour). BENCH has options,
# such as "-quick -only events", or "-only guest,kernels" for the measurements in emulated guests.
bench:
	@bash tests/setup/oracle.sh
	$(GO) run ./tests/bench $(BENCH)

# fuzz runs every fuzz target for FUZZTIME (about an hour in total), and tests a million mutated
# manifests. For a quick run: FUZZTIME=10s MUTANTS=20000
FUZZTIME ?= 100s
MUTANTS  ?= 1000000
fuzz:
	@bash tests/fuzz.sh $(FUZZTIME) . 2
	$(GO) test ./tests/mutants -count=1 -timeout 0 -v -mutants $(MUTANTS) -jobs 0 -seed $$(date +%s)

# mutate is mutation testing: it changes the code in one place at a time and reports how many of the
# changes the tests of the package detect (about half an hour). For a quick run: MUTATE="-n 10 ./passes"
mutate:
	$(GO) run ./tests/mutate $(MUTATE)

# lines counts the lines of code (without comments, blank lines, tests and generated files) by top-level directory.
lines:
	@$(GO) run ./tools/lines

generate:
	$(GO) generate ./...

# docs rewrites the generated parts of docs/ and the tour.
docs:
	$(GO) test ./internal/manifest ./ir ./tests/docs ./tests/tools ./tests/tour ./cmd/btc \
		-run 'Schema|Language|Errors|Document|Scripts|Reference$$|Figures|Pages' -update

# site renders README.md and docs to static HTML in build/site.
site:
	$(GO) run ./tools/site build/site

clean:
	rm -rf bin build dist
