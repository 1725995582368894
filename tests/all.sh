#!/usr/bin/env bash
# All checks of the project: format and vet, unit and file tests, the native
# load and run suites (root), and the kernel matrix under QEMU. What cannot run
# here is named in one line each; nothing skipped counts as passed.
set -u
cd "$(dirname "$0")/.."
export CGO_ENABLED=0
fail=0
step() { echo; echo "== $1"; shift; "$@" || { echo "FAILED: $*"; fail=1; }; }
step "format, vet, staticcheck" bash tests/lint.sh
step "build" make -s build
log=$(mktemp)
step "tests" bash -c "set -o pipefail; go test -timeout 30m -v ./... 2>&1 | tee '$log' | grep -vE '^(=== |    --- (PASS|SKIP)|--- PASS|PASS$|\?   )'"
passed=$(grep -cE '^ *--- PASS' "$log"); failed=$(grep -cE '^ *--- FAIL' "$log"); skipped=$(grep -cE '^ *--- SKIP' "$log")
if [ "$skipped" -gt 0 ]; then echo; echo "skipped:"; grep -A1 -E '^ *--- SKIP' "$log" | grep -vE '^--$' | head -60; fi
rm -f "$log"
echo
echo "$passed passed, $failed failed, $skipped skipped"
exit $fail
