#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# loaders.sh [DIR]: gets the loaders that tests/loaders runs objects with, beside the Go modules.
#
# DIR (default build/loaders) receives
#   bookworm/   libbpf of Debian 12 with its headers
#   sid/        a minimal Debian of the newest suite with bpftool, libbpf and a C compiler
#   ig          Inspektor Gadget's program, built from its Go module
#   bookworm-arm64/ libbpf of Debian 12 with its headers and libelf, static, for guests
#   veristat    built in sid from the package of the kernel's source
#   ebpf_exporter   built in it from its Go module (a minute of CPU time)
# What cannot be had is named in one line, and its tests are skipped. Needs root and debootstrap
# for the second; fetches about 400 MB; does nothing for what is there.
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

# exporter builds ebpf_exporter, which needs libbpf and cgo, with this machine's Go in sid. The checksum
# database does not have one of its modules.
exporter() {
	[ -x "$dir/ebpf_exporter" ] && return
	[ -d "$dir/sid" ] || { echo "loaders: no sid: ebpf_exporter is skipped"; return 1; }
	local package=github.com/cloudflare/ebpf_exporter/v2/cmd/ebpf_exporter work goroot modules
	work=$(mktemp -d /tmp/ebpf_exporter.XXXXXX)
	goroot=$(go env GOROOT) modules=$(go env GOMODCACHE)
	(
		cd "$work" && printf 'module exporter\n\ngo 1.26\n' >go.mod && export GOFLAGS=-mod=mod GOSUMDB=off &&
			go get "$package@v2.5.1" && go mod download &&
			unshare --mount --propagation private sh -ec '
				root=$1 work=$2 goroot=$3 modules=$4 package=$5
				for d in proc dev tmp; do mount --rbind "/$d" "$root/$d"; done
				for d in "$goroot" "$modules"; do mkdir -p "$root$d"; mount --bind "$d" "$root$d"; done
				exec chroot "$root" env -C "$work" HOME="$work" GOPATH="$work/path" GOCACHE="$work/cache" GOMODCACHE="$modules" GOPROXY=off \
					CGO_ENABLED=1 CGO_LDFLAGS=-l:libbpf.a "$goroot/bin/go" build -o "$work/ebpf_exporter" "$package"
			' sh "$dir/sid" "$work" "$goroot" "$modules" "$package"
	) >"$dir/exporter.log" 2>&1 && mv "$work/ebpf_exporter" "$dir/ebpf_exporter"
	local status=$?
	rm -rf "$work"
	[ $status = 0 ] || { echo "loaders: $(tail -n 1 "$dir/exporter.log"): ebpf_exporter is skipped"; return 1; }
}

# gadget builds Inspektor Gadget's ig from its Go module: three minutes of CPU time.
gadget() {
	[ -x "$dir/ig" ] && return
	local work
	work=$(mktemp -d)
	(
		cd "$work" && printf 'module gadget\n\ngo 1.26\n' >go.mod && export GOFLAGS=-mod=mod GOSUMDB=off CGO_ENABLED=0 &&
			go get "github.com/inspektor-gadget/inspektor-gadget/cmd/ig@v0.45.0" &&
			go build -o ig github.com/inspektor-gadget/inspektor-gadget/cmd/ig
	) >"$dir/ig.log" 2>&1 && mv "$work/ig" "$dir/ig"
	local status=$?
	rm -rf "$work"
	[ $status = 0 ] || { echo "loaders: $(tail -n 1 "$dir/ig.log"): ig is skipped"; return 1; }
}

# arm64 gets the static libraries by an apt state of its own.
arm64() {
	[ -e "$dir/bookworm-arm64/usr/include/bpf/libbpf.h" ] && return
	local mirror apt
	mirror=$(apt_mirror || true)
	[ -n "$mirror" ] || { echo "loaders: apt has no package source: libbpf of arm64 is skipped"; return 1; }
	apt=$(mktemp -d)
	mkdir -p "$apt"/lists/partial "$apt"/archives/partial
	: >"$apt/status"
	echo "deb [arch=arm64 signed-by=$keyring] $mirror bookworm main" >"$apt/sources.list"
	local options="-qq -o Dir::Etc::sourcelist=$apt/sources.list -o Dir::Etc::sourceparts=- -o Dir::State::Lists=$apt/lists
		-o Dir::State::status=$apt/status -o Dir::Cache=$apt -o Acquire::Languages=none -o APT::Architecture=arm64
		-o APT::Architectures=arm64 -o APT::Sandbox::User=root -o APT::Default-Release="
	(
		cd "$apt" && apt-get $options update && apt-get $options download libbpf-dev libelf-dev zlib1g-dev linux-libc-dev >/dev/null &&
			for f in *.deb; do dpkg -x "$f" "$dir/bookworm-arm64" || exit 1; done
	) >"$dir/arm64.log" 2>&1
	local status=$?
	rm -rf "$apt"
	[ $status = 0 ] || { rm -rf "$dir/bookworm-arm64"; echo "loaders: $(tail -n 1 "$dir/arm64.log"): libbpf of arm64 is skipped"; return 1; }
}

# veristat is one file of the kernel's source, which Debian packages as a whole (150 MB).
veristat() {
	[ -x "$dir/veristat" ] && return
	[ -d "$dir/sid" ] || { echo "loaders: no sid: veristat is skipped"; return 1; }
	local work package
	work=$(mktemp -d /tmp/veristat.XXXXXX)
	package=$(apt-cache pkgnames linux-source-6 | sort -V | tail -n 1)
	(
		cd "$work" && apt-get download -qq "$package" >/dev/null && dpkg --fsys-tarfile ./*.deb |
			tar -xO --wildcards './usr/src/linux-source-*.tar.xz' | xz -dc |
			tar -x --wildcards --occurrence=1 --strip-components=5 '*/tools/testing/selftests/bpf/veristat.c'
		[ -s veristat.c ] && unshare --mount --propagation private sh -ec 'mount --rbind /tmp "$1/tmp"; exec chroot "$1" \
			gcc -O1 -o "$2/veristat" "$2/veristat.c" -lbpf -lelf' sh "$dir/sid" "$work"
	) >"$dir/veristat.log" 2>&1 && mv "$work/veristat" "$dir/veristat"
	local status=$?
	rm -rf "$work"
	[ $status = 0 ] || { echo "loaders: $(tail -n 1 "$dir/veristat.log"): veristat is skipped"; return 1; }
}

bookworm && echo "loaders: libbpf $(sed -n 's/^Version: //p' "$dir/bookworm/usr/lib/"*/pkgconfig/libbpf.pc)"
sid && echo "loaders: $(chroot "$dir/sid" bpftool version 2>/dev/null | tr '\n' ' ')"
arm64 && echo "loaders: libbpf for arm64"
veristat && echo "loaders: veristat"
exporter && echo "loaders: ebpf_exporter 2.5.1"
gadget && echo "loaders: ig 0.45.0"
exit 0
