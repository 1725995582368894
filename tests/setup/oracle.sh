#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# oracle.sh [DIR]: makes the bpftrace that tests compare with.
#
# DIR (default build/oracle) receives
#   root/       a minimal Debian of the newest available suite with bpftrace and
#               the packages for its own test engine (python3, procps)
#   root.ext4   the same as a disk image, for "vmrun -disk"
#   version     the suite and "bpftrace --version"
# Run it through tests/setup/bpftrace-oracle. Needs root, debootstrap and mkfs.ext4; downloads about
# 250 MB; does nothing if DIR is complete.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
dir=$(realpath -m "${1:-$here/../../build/oracle}")

if [ -s "$dir/version" ] && [ -s "$dir/root.ext4" ] && [ -x "$dir/root/usr/bin/bpftrace" ]; then
	echo "oracle: $(tr '\n' ' ' <"$dir/version")"
	exit 0
fi
fail() { echo "oracle: not made: $*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || fail "needs root"
for t in debootstrap mkfs.ext4; do
	command -v "$t" >/dev/null || fail "needs $t"
done
mirror=$(apt_mirror || true)
[ -n "$mirror" ] || fail "apt has no package source on this machine"
apt_proxy

mkdir -p "$dir"
made=
for suite in ${SUITES:-sid forky trixie}; do
	script=/usr/share/debootstrap/scripts/$suite
	[ -e "$script" ] || script=/usr/share/debootstrap/scripts/sid
	rm -rf "$dir/root" "$dir/version"
	if debootstrap --variant=minbase --include=bpftrace,python3,procps --keyring="$keyring" \
		"$suite" "$dir/root" "$mirror" "$script" >"$dir/debootstrap-$suite.log" 2>&1; then
		made=$suite
		break
	fi
	echo "oracle: suite $suite failed: $(tail -n 1 "$dir/debootstrap-$suite.log") (see $dir/debootstrap-$suite.log)" >&2
done
[ -n "$made" ] || fail "no suite of $mirror could be installed"

rm -rf "$dir/root/var/cache/apt/archives" "$dir/root/var/lib/apt/lists" "$dir/root/usr/share/doc" "$dir/root/usr/share/locale"
mkdir -p "$dir"/root/{put,out,vmrun,work,sys,proc,dev,tmp}
version=$(chroot "$dir/root" bpftrace --version) || fail "bpftrace in $dir/root does not run"

# The size of the image is that of its contents plus 25 %. It is only ever opened as a snapshot.
kb=$(du -sk "$dir/root" | cut -f1)
rm -f "$dir/root.ext4"
mkfs.ext4 -q -d "$dir/root" -m 0 -O ^has_journal "$dir/root.ext4" "$((kb + kb / 4 + 65536))k"
printf '%s\n%s\n' "$made" "$version" >"$dir/version"
echo "oracle: $(tr '\n' ' ' <"$dir/version")"
