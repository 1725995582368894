#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs all checks of the project: format and vet, unit and file tests, the native load and run suites
# (as root), and the kernel matrix under QEMU. Each skipped test is listed with its reason and does not
# count as passed. A test that fails, but passes when it is run alone, is listed and counted separately
# (tests/runall). Failures are printed last, so that they are in the part of a long log that is kept.
set -u
cd "$(dirname "$0")/.."
export CGO_ENABLED=0
umask 022 # users without root run what the tests build
fail=0
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
# step NAME COMMAND...: if the command fails, the summary includes the end of its output.
step() {
  local name=$1
  shift
  echo; echo "== $name"
  "$@" 2>&1 | tee "$tmp/output"
  [ "${PIPESTATUS[0]}" -eq 0 ] && return
  fail=1
  echo "FAILED: $name"
  { echo "failed: $name"; tail -n 15 "$tmp/output" | cut -c1-300 | sed 's/^/    /'; } >>"$tmp/steps"
}
# show NAME FILE: prints a section of the summary, unless it is empty.
show() { if [ -s "$2" ]; then echo; echo "== $1"; cat "$2"; fi; }

step "format, vet, staticcheck" bash tests/lint.sh
step "build" make -s build
echo; echo "== tests"
go build -o "$tmp/runall" ./tests/runall && "$tmp/runall" -summary "$tmp" -- ./... || fail=1
# The parser process of loader/symbols drops privileges in all threads. Go does not support this in
# programs with cgo, and thus not with the race detector.
races() {
  mkdir "$tmp/races"
  CGO_ENABLED=1 "$tmp/runall" -summary "$tmp/races" -- -race $(go list ./loader/... | grep -v /symbols$)
  local status=$?
  cat "$tmp/races/failed" "$tmp/races/counts"
  return $status
}
# Failures found by random input do not decide the run, because the same commit would then pass or fail
# by chance. The inputs kept in testdata/fuzz are part of the tests above.
fuzzing() {
  bash tests/fuzz.sh 5s . 2 || echo "FOUND: an input that fails is above; commit it in testdata/fuzz with its fix"
}
step "fuzzing, 5 seconds for each target (make fuzz takes an hour)" fuzzing
if command -v gcc >/dev/null; then
  step "data races" races
else
  echo "skipped data races: no gcc"
fi

show "failed, in detail" "$tmp/details"
show "skipped, and why" "$tmp/skipped"
cat "$tmp/steps" "$tmp/failed" >"$tmp/all" 2>/dev/null
show "failed, or passed only when run alone" "$tmp/all"
echo
if [ -e "$tmp/counts" ]; then cat "$tmp/counts"; else echo "the tests did not run"; fi
exit $fail
