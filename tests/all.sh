#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the first tier on what the machine has: format and vet, unit and file tests, as root the suites on this kernel, and
# guests of some kernels. tests/README.md has the tiers.
. "$(dirname "$0")/steps.sh"

step "format, vet, staticcheck" bash tests/lint.sh
step "build" make -s build
tests "tests" ./...
# Of the fuzz targets, one of hostile input shows that fuzzing works. Inputs that once failed are in testdata/fuzz, and part of
# the tests above. A failure found by random input does not decide the run: the same commit would pass or fail by chance.
fuzzing() {
  bash tests/fuzz.sh 5s 'internal/manifest FuzzDecode$' || echo "FOUND: an input that fails is above; commit it in testdata/fuzz with its fix"
}
step "fuzzing of one target (make test-real fuzzes each, make fuzz takes an hour)" fuzzing
# The parser process of loader/symbols drops privileges in all threads. Go does not support this in
# programs with cgo, and thus not with the race detector.
if command -v gcc >/dev/null; then
  export CGO_ENABLED=1
  tests "data races" -race $(go list ./loader/... | grep -v /symbols$)
else
  echo "skipped data races: no gcc"
fi
finish
