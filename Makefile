# Two commands matter to a newcomer:
#   make demo    builds btc and btrun and traces a workload for real
#   make test    installs what the tests need (where it may) and runs them all
GO       ?= go
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS  := -s -w -X main.version=$(VERSION)
export CGO_ENABLED = 0

.PHONY: all build demo test lint bench generate docs clean

all: build

build: bin/btc bin/btrun

bin/btc bin/btrun: bin/%: FORCE
	@mkdir -p bin
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $@ ./cmd/$*

.PHONY: FORCE
FORCE:

demo: build
	@sh tests/demo.sh

test:
	@bash tests/setup/install.sh
	@bash tests/all.sh

lint:
	@bash tests/lint.sh

generate:
	$(GO) generate ./...

# docs rewrites the parts of docs/ and the tour that are made from the program.
docs:
	$(GO) test ./loader/manifest ./tests/docs ./tests/tour -run 'Schema|Language|Errors|Document|Scripts' -update

clean:
	rm -rf bin build
