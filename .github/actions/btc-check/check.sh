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
  # A name begins lines of the output, and a line that begins with :: is a command to the runner (workflow command).
  case $s in
  *$'\n'* | *$'\r'*) echo "a script has a line break in its name"; exit 1 ;;
  -* | :* | " "*) s=./$s ;;
  esac
  scripts+=("$s")
done
[ "${#scripts[@]}" -gt 0 ] || { echo "no scripts: the input is empty"; exit 1; }
# No text of a script is a command either. One stream, because the runner reads two in any order.
token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
echo "::stop-commands::$token"
exec 2>&1
if [ -n "${SARIF:-}" ]; then "$BTC" check --untrusted --sarif ${args[@]+"${args[@]}"} "${scripts[@]}" >"$SARIF" || :; fi
status=0
"$BTC" check --untrusted ${args[@]+"${args[@]}"} "${scripts[@]}" || status=$?
echo "::$token::"
exit "$status"
