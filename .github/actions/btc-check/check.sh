#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles the scripts named in SCRIPTS with the program BTC, and checks the objects against the
# target files named in TARGETS. No script is run.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
args=()
for t in ${TARGETS:-}; do args+=(--target "$t"); done
status=0 n=0
for script in $SCRIPTS; do
  n=$((n + 1))
  object=$dir/$n-$(basename "$script" .bt).o
  if ! "$BTC" compile --untrusted "$script" -o "$object"; then status=1; continue; fi
  "$BTC" check "$object" "${args[@]}" || status=1
done
[ "$n" -gt 0 ] || { echo "no scripts match $SCRIPTS"; exit 1; }
exit $status
