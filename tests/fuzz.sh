#!/usr/bin/env bash
# fuzz.sh TIME [PATTERN]: runs each fuzz target whose package and name match PATTERN for
# TIME (go's notation, 10s), one after the other. What it finds is left in the
# package's testdata/fuzz; the exit status is 1 then.
set -u
cd "$(dirname "$0")/.."
export CGO_ENABLED=0
time=${1:?usage: fuzz.sh TIME [PATTERN]} pattern=${2:-.}
failed=0
while IFS=: read -r file _ line; do
	name=${line#func } name=${name%%(*}
	dir=$(dirname "$file")
	[[ "$dir $name" =~ $pattern ]] || continue
	echo "== $dir $name"
	go test "./$dir" -run '^$' -fuzz "^$name\$" -fuzztime "$time" | tail -n 20 || failed=1
	[ "${PIPESTATUS[0]}" = 0 ] || failed=1
done < <(grep -rn '^func Fuzz' --include='*_test.go' . | sed 's#^\./##')
exit $failed
