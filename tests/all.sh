#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All checks of the project: format and vet, unit and file tests, the native
# load and run suites (root), and the kernel matrix under QEMU. What cannot run
# here is named in one line each; nothing skipped counts as passed.
set -u
cd "$(dirname "$0")/.."
export CGO_ENABLED=0
fail=0
step() { echo; echo "== $1"; shift; "$@" || { echo "FAILED: $1"; fail=1; }; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT
tests() { # every package's verdict as it comes; details of failures below
  # -count=1: many suites build the programs in a child process, which the test cache cannot see.
  go test -count=1 -timeout 30m -v ./... >"$log" 2>&1
  local status=$?
  grep -aE '^(ok|FAIL|panic:)' "$log"
  return $status
}
step "format, vet, staticcheck" bash tests/lint.sh
step "build" make -s build
step "tests" tests
# The parser process of loader/symbols drops privileges in all threads, which Go refuses in
# programs with cgo, and so with the race detector.
races() {
  CGO_ENABLED=1 go test -race -count=1 $(go list ./loader/... | grep -v /symbols$) 2>&1 | grep -av 'no test files'
  return "${PIPESTATUS[0]}"
}
# What random inputs find does not decide the run: the same commit would pass or not by chance. The
# inputs that were kept, in testdata/fuzz, are part of the tests above.
fuzzing() {
  bash tests/fuzz.sh 5s . 2 || echo "FOUND: an input that fails is above; commit it in testdata/fuzz with its fix"
}
step "fuzzing, 5 seconds for each target (make fuzz takes an hour)" fuzzing
if command -v gcc >/dev/null; then
  step "data races" races
else
  echo "skipped data races: no gcc"
fi
count() { grep -acE "^ *--- $1" "$log"; }
if [ "$(count FAIL)" -gt 0 ]; then
  echo; echo "== failed"
  awk '/^=== (RUN|NAME|CONT) / { name = $3; next }
    /^ *--- (PASS|SKIP): / { next }
    /^ *--- FAIL: / { print $3 ":"; printf "%s", words[$3]; next }
    /^(ok|FAIL|PASS)/ { next }
    ++lines[name] <= 60 { words[name] = words[name] "    " substr($0, 1, 300) "\n" }' "$log" |
    tr -cd '\11\12\15\40-\176' | head -n 400
fi
if [ "$(count SKIP)" -gt 0 ]; then
  echo; echo "== skipped, and why"
  # go test -v prints a test's words under its name, before its verdict
  awk '/^=== (RUN|NAME|CONT) / { name = $3 }
    /^ +[a-z_]+\.go:[0-9]+: / { sub(/^ +[a-z_]+\.go:[0-9]+: /, ""); reason[name] = $0 }
    /^ *--- SKIP: / { print $3 ": " reason[$3] }' "$log"
fi
echo
grep -aoE '^ *--- FAIL: [^ ]+' "$log" | sed 's/^ *--- FAIL: /failed: /'
echo "$(count PASS) passed, $(count FAIL) failed, $(count SKIP) skipped"
exit $fail
