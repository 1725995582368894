#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# readers.sh [DIR]: fetches speedscope, from npm, for tests/readers. It is unpacked to DIR/speedscope (default build);
# nothing is installed. What no package has, a person can put there: DIR/flamegraph/flamegraph.pl of FlameGraph,
# DIR/inferno/bin/inferno-flamegraph, and DIR/perfetto/trace_processor_shell; their tests are skipped otherwise.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=$(realpath -m "${1:-$here/../../build}")
[ -e "$dir/speedscope/package/dist/release/index.html" ] && exit
tmp=$(mktemp -d)
mkdir -p "$dir/speedscope"
(cd "$tmp" && npm pack --silent speedscope@1.25.0 >/dev/null && tar xzf speedscope-*.tgz -C "$dir/speedscope") 2>/dev/null ||
	echo "readers: npm has no speedscope: its test is skipped"
rm -rf "$tmp"
