#!/bin/bash
# loaders.sh [DIR]: gets the loaders that tests/loaders runs objects with, beside the Go modules.
#
# DIR (default build/loaders) receives
#   bookworm/   libbpf of Debian 12 with its headers
#   sid/        a minimal Debian of the newest suite with bpftool and libbpf
# What cannot be had is named in one line, and its tests are skipped. Needs root and debootstrap
# for the second; fetches about 150 MB; does nothing for what is there.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
dir=$(realpath -m "${1:-$here/../../build/loaders}")
mkdir -p "$dir"

bookworm() {
	[ -e "$dir/bookworm/usr/include/bpf/libbpf.h" ] && return
	local tmp
	tmp=$(mktemp -d)
	(
		cd "$tmp" && apt-get download -qq libbpf-dev libbpf1 libelf1 zlib1g >/dev/null &&
			for f in *.deb; do dpkg -x "$f" "$dir/bookworm" || exit 1; done
	) || { rm -rf "$tmp" "$dir/bookworm"; echo "loaders: apt has no libbpf-dev: libbpf of this Debian is skipped"; return 1; }
	rm -rf "$tmp"
}

sid() {
	[ -x "$dir/sid/usr/sbin/bpftool" ] && return
	if [ "$(id -u)" != 0 ] || ! command -v debootstrap >/dev/null; then
		echo "loaders: not root, or no debootstrap: bpftool and libbpf of sid are skipped"
		return 1
	fi
	local mirror
	mirror=$(apt_mirror || true)
	[ -n "$mirror" ] || { echo "loaders: apt has no package source: bpftool and libbpf of sid are skipped"; return 1; }
	apt_proxy
	rm -rf "$dir/sid"
	if ! debootstrap --variant=minbase --include=bpftool,libbpf1,gcc,libc6-dev,libbpf-dev,libelf-dev,zlib1g-dev --keyring="$keyring" sid "$dir/sid" "$mirror" >"$dir/sid.log" 2>&1; then
		echo "loaders: $(tail -n 1 "$dir/sid.log"): bpftool and libbpf of sid are skipped"
		rm -rf "$dir/sid"
		return 1
	fi
	rm -rf "$dir/sid/var/cache/apt/archives" "$dir/sid/var/lib/apt/lists" "$dir/sid/usr/share/doc" "$dir/sid/usr/share/locale"
}

bookworm && echo "loaders: libbpf $(sed -n 's/^Version: //p' "$dir/bookworm/usr/lib/"*/pkgconfig/libbpf.pc)"
sid && echo "loaders: $(chroot "$dir/sid" bpftool version 2>/dev/null | tr '\n' ' ')"
exit 0
