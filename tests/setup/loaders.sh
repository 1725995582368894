#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# loaders.sh [DIR]: fetches the loaders that tests/loaders runs objects with, in addition to the Go
# modules.
#
# DIR (default build/loaders) receives
#   bookworm/   libbpf of Debian 12, with headers
#   sid/        a minimal Debian of the newest suite with bpftool, libbpf and a C compiler
#   ig          Inspektor Gadget's program, built from its Go module
#   run/RELEASE-ARCH/   for guests: bpftool, libbpf, its headers (include) and the libraries that both need
#               (lib), of the releases bookworm and sid for amd64 and arm64
#   veristat    built in sid from the package of the kernel sources
#   ebpf_exporter   built in sid from its Go module (a minute of CPU time)
#   veristat-arm64, ebpf_exporter-arm64   the same for guests, with run/sid-arm64 and a cross compiler
# What cannot be fetched is reported in one line, and its tests are skipped. Needs root and debootstrap
# for sid; downloads about 400 MB; keeps existing files.
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

# exporter builds ebpf_exporter, which needs libbpf and cgo, in sid with the Go of this machine. One of
# its modules is missing in the checksum database.
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

# gadget builds Inspektor Gadget's ig from its Go module, which takes three minutes of CPU time.
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

# runtime RELEASE ARCH unpacks bpftool and libbpf with all that they need, with a separate apt state.
runtime() {
	local release=$1 arch=$2 to="$dir/run/$1-$2" mirror apt
	[ -e "$to/bpftool" ] && return
	mirror=$(apt_mirror || true)
	[ -n "$mirror" ] || { echo "loaders: apt has no package source: bpftool and libbpf of $release for $arch are skipped"; return 1; }
	apt=$(mktemp -d)
	rm -rf "$to.new"
	mkdir -p "$apt"/lists/partial "$apt"/archives/partial "$apt/root" "$to.new/lib" "$to.new/include/linux"
	: >"$apt/status"
	echo "deb [arch=$arch signed-by=$keyring] $mirror $release main" >"$apt/sources.list"
	local options="-qq -o Dir::Etc::sourcelist=$apt/sources.list -o Dir::Etc::sourceparts=- -o Dir::State::Lists=$apt/lists
		-o Dir::State::status=$apt/status -o Dir::Cache=$apt -o Acquire::Languages=none -o APT::Architecture=$arch
		-o APT::Architectures=$arch -o APT::Sandbox::User=root -o APT::Default-Release="
	(
		apt-get $options update &&
			apt-get $options install --yes --no-install-recommends --download-only bpftool libbpf-dev libelf-dev &&
			for file in "$apt"/archives/*.deb; do dpkg-deb -x "$file" "$apt/root" || exit 1; done &&
			cp "$apt/root/usr/sbin/bpftool" "$to.new" &&
			cp -r "$apt"/root/usr/include/{bpf,elfutils,gelf.h,libelf.h} "$to.new/include" &&
			cp "$apt"/root/usr/include/linux/{bpf,bpf_common,btf,if_link,perf_event}.h "$to.new/include/linux" &&
			find "$apt/root" \( -name 'ld-linux-*.so.*' -o -path '*-linux-gnu/lib*.so.*' \) -exec cp -L {} "$to.new/lib" \; &&
			cd "$to.new/lib" && ln -s ld-linux-*.so.* ld.so && ln -s libbpf.so.1 libbpf.so &&
			ln -s libelf.so.1 libelf.so && ln -s libz.so.1 libz.so && mv "$to.new" "$to"
	) >"$dir/run/$release-$arch.log" 2>&1
	local status=$?
	rm -rf "$apt"
	[ $status = 0 ] || { rm -rf "$to.new"; echo "loaders: $(tail -n 1 "$dir/run/$release-$arch.log"): bpftool and libbpf of $release for $arch are skipped"; return 1; }
}

# cross sets what a cross compiler needs to link with the libraries of sid, which require a newer C library than its own.
cross() {
	local run="$dir/run/sid-arm64"
	[ -d "$run" ] && command -v aarch64-linux-gnu-gcc >/dev/null || { echo "loaders: no sid for arm64, or no cross compiler: $1 for arm64 is skipped"; return 1; }
	export CC=aarch64-linux-gnu-gcc CGO_CFLAGS="-I$run/include" CGO_LDFLAGS="-L$run/lib -lbpf -Wl,--allow-shlib-undefined"
}

# exporter_arm64 cross compiles ebpf_exporter for guests.
exporter_arm64() (
	[ -x "$dir/ebpf_exporter-arm64" ] && return
	cross ebpf_exporter || return 1
	package=github.com/cloudflare/ebpf_exporter/v2/cmd/ebpf_exporter work=$(mktemp -d)
	(
		cd "$work" && printf 'module exporter\n\ngo 1.26\n' >go.mod && export GOFLAGS=-mod=mod GOSUMDB=off &&
			go get "$package@v2.5.1" && GOARCH=arm64 CGO_ENABLED=1 go build -o ebpf_exporter "$package"
	) >"$dir/exporter-arm64.log" 2>&1 && mv "$work/ebpf_exporter" "$dir/ebpf_exporter-arm64"
	status=$?
	rm -rf "$work"
	[ $status = 0 ] || { echo "loaders: $(tail -n 1 "$dir/exporter-arm64.log"): ebpf_exporter for arm64 is skipped"; return 1; }
)

# veristat_source extracts a single file of the kernel sources, which Debian packages as a whole (150 MB).
veristat_source() {
	[ -s "$dir/veristat.c" ] && return
	local work package
	work=$(mktemp -d)
	package=$(apt-cache pkgnames linux-source-6 | sort -V | tail -n 1)
	(
		cd "$work" && apt-get download -qq "$package" >/dev/null && dpkg --fsys-tarfile ./*.deb |
			tar -xO --wildcards './usr/src/linux-source-*.tar.xz' | xz -dc |
			tar -x --wildcards --occurrence=1 --strip-components=5 '*/tools/testing/selftests/bpf/veristat.c'
	) >"$dir/veristat.log" 2>&1
	mv "$work/veristat.c" "$dir" 2>/dev/null || echo "loaders: no source of the kernel: veristat is skipped"
	rm -rf "$work"
	[ -s "$dir/veristat.c" ]
}

veristat() {
	[ -x "$dir/veristat" ] && return
	[ -d "$dir/sid" ] || { echo "loaders: no sid: veristat is skipped"; return 1; }
	veristat_source || return 1
	unshare --mount --propagation private sh -ec 'mkdir -p "$1/tmp"; mount -t tmpfs tmpfs "$1/tmp"; cp "$2/veristat.c" "$1/tmp"
		chroot "$1" gcc -O1 -o /tmp/veristat /tmp/veristat.c -lbpf -lelf; cp "$1/tmp/veristat" "$2"' \
		sh "$dir/sid" "$dir" >"$dir/veristat.log" 2>&1 && return
	echo "loaders: $(tail -n 1 "$dir/veristat.log"): veristat is skipped"
	return 1
}

veristat_arm64() (
	[ -x "$dir/veristat-arm64" ] && return
	cross veristat && veristat_source || return 1
	$CC -O1 $CGO_CFLAGS -o "$dir/veristat-arm64" "$dir/veristat.c" $CGO_LDFLAGS -lelf >"$dir/veristat-arm64.log" 2>&1 && return
	echo "loaders: $(tail -n 1 "$dir/veristat-arm64.log"): veristat for arm64 is skipped"
	return 1
)

mkdir -p "$dir/run"
bookworm && echo "loaders: libbpf $(sed -n 's/^Version: //p' "$dir/bookworm/usr/lib/"*/pkgconfig/libbpf.pc)"
sid && echo "loaders: $(chroot "$dir/sid" bpftool version 2>/dev/null | tr '\n' ' ')"
for arch in amd64 arm64; do
	for release in bookworm sid; do
		runtime $release $arch && echo "loaders: bpftool and libbpf of $release for $arch: $(basename "$(readlink -f "$dir/run/$release-$arch/lib/libbpf.so")")"
	done
done
veristat && echo "loaders: veristat"
veristat_arm64 && echo "loaders: veristat for arm64"
exporter && echo "loaders: ebpf_exporter 2.5.1"
exporter_arm64 && echo "loaders: ebpf_exporter 2.5.1 for arm64"
gadget && echo "loaders: ig 0.45.0"
exit 0
