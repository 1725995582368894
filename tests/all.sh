#!/usr/bin/env bash
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
  go test -timeout 30m -v ./... >"$log" 2>&1
  local status=$?
  grep -aE '^(ok|FAIL|panic:)' "$log"
  return $status
}
step "format, vet, staticcheck" bash tests/lint.sh
step "build" make -s build
step "tests" tests
count() { grep -acE "^ *--- $1" "$log"; }
if [ "$(count SKIP)" -gt 0 ]; then
  echo; echo "== skipped, and why"
  grep -aA1 -E '^ *--- SKIP' "$log" | grep -av '^--$'
fi
if [ "$(count FAIL)" -gt 0 ]; then
  echo; echo "== failed"
  awk '/^ *--- FAIL/ { show = 1 } /^ *--- (PASS|SKIP)/ { show = 0 } /^(ok|FAIL|PASS|=== )/ { show = 0 } show' "$log" | head -n 400
fi
echo
echo "$(count PASS) passed, $(count FAIL) failed, $(count SKIP) skipped"
exit $fail
