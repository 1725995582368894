# SPDX-License-Identifier: Apache-2.0
# Functions of the scripts of the tiers (all.sh, real.sh, guests.sh), which source this file. Each skipped test is listed with
# its reason and does not count as passed. A test that fails, but passes when it is run alone, is listed and counted separately
# (tests/runall). Failures are printed last, so that they are in the part of a long log that is kept.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export CGO_ENABLED=0
umask 022 # users without root run what the tests build
fail=0
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
begun=$SECONDS

# step NAME COMMAND...: if the command fails, the summary includes the end of its output.
step() {
  local name=$1 from=$SECONDS
  shift
  echo; echo "== $name"
  "$@" 2>&1 | tee "$tmp/output"
  local status=${PIPESTATUS[0]}
  echo "$((SECONDS - from)) s: $name" >>"$tmp/times"
  [ "$status" -eq 0 ] && return
  fail=1
  echo "FAILED: $name"
  { echo "failed: $name"; tail -n 15 "$tmp/output" | cut -c1-300 | sed 's/^/    /'; } >>"$tmp/steps"
}

# tests NAME [FLAG | PACKAGE]...: runs tests; flags are those of go test, or of the tests, with = before a value.
tests() {
  local name=$1 from=$SECONDS dir="$tmp/tests $1"
  shift
  mkdir "$dir"
  echo; echo "== $name"
  if [ ! -e "$tmp/runall" ] && ! go build -o "$tmp/runall" ./tests/runall; then
    fail=1
  elif ! "$tmp/runall" -summary "$dir" -- "$@"; then
    fail=1
  fi
  echo "$((SECONDS - from)) s: $name" >>"$tmp/times"
  cat "$dir/details" >>"$tmp/details" 2>/dev/null
  cat "$dir/skipped" >>"$tmp/skipped" 2>/dev/null
  cat "$dir/failed" >>"$tmp/failed" 2>/dev/null
  if [ -e "$dir/counts" ]; then sed "s/\$/: $name/" "$dir/counts"; else echo "$name: did not run"; fi >>"$tmp/counts"
}

# show NAME FILE: prints a section of the summary, unless it is empty.
show() { if [ -s "$2" ]; then echo; echo "== $1"; cat "$2"; fi; }

# finish prints the summary and exits.
finish() {
  show "failed, in detail" "$tmp/details"
  show "skipped, and why" "$tmp/skipped"
  echo "$((SECONDS - begun)) s: all" >>"$tmp/times"
  show "time" "$tmp/times"
  cat "$tmp/steps" "$tmp/failed" >"$tmp/all" 2>/dev/null
  show "failed, or passed only when run alone" "$tmp/all"
  echo
  cat "$tmp/counts"
  exit $fail
}
