#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# fuzz.sh TIME [PATTERN [JOBS]]: runs each fuzz target whose package and name match the regular
# expression PATTERN for TIME (10s, 2m), JOBS at once (default 1). A failing input is printed and left
# in testdata/fuzz of the package, to be committed with its fix; the exit status is then 1. An input
# that fails only while fuzzing is ignored: the fuzzing engine kills a target that does not respond for
# 10 seconds, which happens on a busy machine.
set -u
cd "$(dirname "$0")/.."
export CGO_ENABLED=0
[ $# -ge 1 ] || { echo "usage: fuzz.sh TIME [PATTERN [JOBS]]" >&2; exit 2; }
one() {
	local out input
	if out=$(go test "./$1" -run '^$' -fuzz "^$2\$" -fuzztime "$3" -parallel "$4" 2>&1); then
		echo "ok    $1 $2: $(grep -o 'execs: [0-9]*' <<<"$out" | tail -n 1)"
		return
	fi
	input=$(sed -n 's/^ *Failing input written to //p' <<<"$out" | tail -n 1)
	if [ -n "$input" ] && go test "./$1" -run "^$2\$/^$(basename "$input")\$" >/dev/null 2>&1; then
		rm -f "$1/$input"
		echo "busy  $1 $2: an input failed while fuzzing and does not fail by itself"
	elif [ -n "$input" ]; then
		echo "FAIL  $1 $2: $1/$input"
		cat "$1/$input"
		tail -n 40 <<<"$out"
		return 1
	elif grep -qE 'failure while testing seed corpus|build failed' <<<"$out"; then
		echo "FAIL  $1 $2"
		tail -n 40 <<<"$out"
		return 1
	else # time was up before the first input, on a busy machine
		echo "none  $1 $2: $(tail -n 3 <<<"$out" | tr '\n' ' ')"
	fi
}
export -f one
jobs=${3:-1}
workers=$(($(nproc) / jobs))
grep -rn '^func Fuzz' --include='*_test.go' . |
	sed -E 's#^\./(.*)/[^/]*:[0-9]+:func (Fuzz[A-Za-z0-9]*).*#\1 \2#' | grep -E "${2:-.}" |
	xargs -P "$jobs" -L 1 bash -c 'one "$2" "$3" "$0" "$1"' "$1" "$((workers > 0 ? workers : 1))"
[ $? -eq 0 ]
