#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs gofmt, go vet and staticcheck on all hand-written code, for the systems that each program is
# released for, and checks that go.mod is tidy and that generated code is up to date.
set -u
cd "$(dirname "$0")/.."
fail=0
unformatted=$(gofmt -l $(git ls-files '*.go' | grep -v '^grammar/parser/'))
if [ -n "$unformatted" ]; then echo "gofmt would change:"; echo "$unformatted"; fail=1; fi
packages=$(go list ./... | grep -v '^btc/grammar/parser')
go vet $packages || fail=1
(cd tools/release && go vet ./... && go test ./...) || fail=1
go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 $packages || fail=1
# btc can also be built for other systems.
for os in darwin windows; do
  ours=$(GOOS=$os go list -deps ./cmd/btc | grep '^btc/' | grep -v '^btc/grammar/parser')
  GOOS=$os go vet $ours || { echo "btc does not build on $os"; fail=1; }
done

# offline reports whether the output of a command says that its registry cannot be reached.
offline() { grep -qE 'dial tcp|no such host|ENOTFOUND|EAI_AGAIN|ECONNREFUSED|network' <<<"$1"; }
if ! out=$(go mod tidy -diff 2>&1); then
  if offline "$out"; then echo "lint: skipped go mod tidy: no module proxy"; else echo "$out"; echo "go.mod or go.sum is not tidy: run go mod tidy"; fail=1; fi
fi

# Looks for known vulnerabilities in the dependencies and in Go, in the code that the programs call.
if ! out=$(go run golang.org/x/vuln/cmd/govulncheck@v1.9.0 ./cmd/btc ./cmd/btrun ./btrace 2>&1); then
  if offline "$out"; then echo "lint: skipped govulncheck: no module proxy, or no vulnerability database"; else echo "$out"; fail=1; fi
fi

# Checks that the workflows, and the scripts and expressions in them, are valid.
if ! out=$(go run github.com/rhysd/actionlint/cmd/actionlint@v1.7.7 -no-color .github/workflows/*.yml 2>&1); then
  if offline "$out"; then echo "lint: skipped actionlint: no module proxy"; else echo "$out"; fail=1; fi
fi

# Generates the parser again in a copy of the tree, and compares.
if command -v node >/dev/null && command -v npm >/dev/null; then
  copy=$(mktemp -d)
  trap 'rm -rf "$copy"' EXIT
  git ls-files -z go.mod go.sum grammar tools/antlr | xargs -0 cp --parents -t "$copy"
  if ! out=$(cd "$copy" && go generate ./grammar 2>&1); then
    if offline "$out"; then echo "lint: skipped go generate: no npm registry"; else echo "$out"; fail=1; fi
  elif ! diff -r grammar "$copy/grammar"; then
    echo "grammar/parser is not what go generate writes: run make generate"; fail=1
  fi
else
  echo "lint: skipped go generate: no node or npm"
fi
exit $fail
