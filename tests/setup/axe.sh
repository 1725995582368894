#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# axe.sh [DIR]: fetches axe-core, from npm, for tests/report, and the compiler of TypeScript, which checks the types of the page's
# script. They are unpacked to DIR/axe and DIR/typescript (default build); nothing is installed.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=$(realpath -m "${1:-$here/../../build}")
unpack() { # DIRECTORY FILE PACKAGE
	[ -e "$dir/$1/package/$2" ] && return
	local tmp
	tmp=$(mktemp -d)
	mkdir -p "$dir/$1"
	(cd "$tmp" && npm pack --silent "$3" >/dev/null && tar xzf ./*.tgz -C "$dir/$1") 2>/dev/null || echo "axe: npm has no $3: its test is skipped"
	rm -rf "$tmp"
}
unpack axe axe.min.js axe-core@4.14.1
unpack typescript bin/tsc typescript@5.9.3
