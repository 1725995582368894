#!/usr/bin/env bash
# gofmt, go vet and staticcheck over all that is written by hand.
set -u
cd "$(dirname "$0")/.."
fail=0
unformatted=$(gofmt -l $(git ls-files '*.go' | grep -v '^grammar/parser/'))
if [ -n "$unformatted" ]; then echo "gofmt would change:"; echo "$unformatted"; fail=1; fi
packages=$(go list ./... | grep -v '^btc/grammar/parser')
go vet $packages || fail=1
go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 $packages || fail=1
exit $fail
