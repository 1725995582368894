#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bcc.sh [DIR]: gets what tests/tools compares the tools of examples with, beside bpftrace.
#
# DIR (default build/bcc) receives
#   bookworm/ sid/   libbpf-tools of these suites of Debian, unpacked
#   xfs/             mkfs.xfs of sid with its libraries
# Packages come from where this machine's apt gets its own; apt's state is not touched. What cannot
# be had is named in one line, and the comparisons with it are skipped. Fetches about 40 MB; does
# nothing for what is there.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
dir=$(realpath -m "${1:-$here/../../build/bcc}")
mkdir -p "$dir"

# unpack NAME SUITE FILE PACKAGE...: packages of a suite below DIR/NAME, unless FILE is there.
unpack() {
	local name=$1 suite=$2 file=$3
	shift 3
	if [ ! -e "$dir/$name/$file" ]; then
		rm -rf "$dir/$name"
		unpack_packages "$suite" "$(dpkg --print-architecture)" "$dir/$name" "$@" >"$dir/$name.log" 2>&1 || {
			rm -rf "$dir/$name"
			echo "bcc: $(tail -n 1 "$dir/$name.log"): $* of $suite: skipped"
			return 1
		}
	fi
	echo "bcc: $* of $suite"
}

unpack bookworm bookworm usr/sbin/opensnoop libbpf-tools
unpack sid sid usr/sbin/opensnoop-libbpf libbpf-tools
unpack xfs sid usr/sbin/mkfs.xfs xfsprogs libinih1 liburcu8t64 libedit2
exit 0
