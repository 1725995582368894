#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks the scripts named in SCRIPTS with the program BTC against the target files named in TARGETS. The results are also
# written to the file SARIF, if it is set. No script is run.
set -eu
args=()
for t in ${TARGETS:-}; do args+=(--target "$t"); done
scripts=()
for s in $SCRIPTS; do
  [ -e "$s" ] || { echo "no scripts match $s"; exit 1; }
  case $s in -*) s=./$s ;; esac
  scripts+=("$s")
done
[ "${#scripts[@]}" -gt 0 ] || { echo "no scripts: the input is empty"; exit 1; }
if [ -n "${SARIF:-}" ]; then "$BTC" check --untrusted --sarif ${args[@]+"${args[@]}"} "${scripts[@]}" >"$SARIF" || :; fi
exec "$BTC" check --untrusted ${args[@]+"${args[@]}"} "${scripts[@]}"
