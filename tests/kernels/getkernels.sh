#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# getkernels.sh [DIR] [NAME...]: fetches the Debian kernels to test on.
#
# DIR (default build/kernels) receives the following files for each of 5.10 6.1 6.12 sid (x86_64),
# 6.1-arm64 and sid-arm64. The kernels 6.12-riscv64, sid-riscv64, 6.12-arm64, 6.1-rt, 6.12-rt,
# 6.12-full and 6.12-full-arm64 are only fetched if named. (rt is the kernel with PREEMPT_RT; full is
# the kernel for real machines, with all drivers, the only one on riscv64.)
#   NAME/vmlinux       the uncompressed kernel; NAME/Image on architectures other than x86_64
#   NAME/vmlinux.btf   its BTF, as in /sys/kernel/btf/vmlinux
#   NAME/config        its configuration
#   NAME/release       its "uname -r"
#   NAME/modules       some of its modules (modules_of below), uncompressed, with all that
#                      they depend on: NAME.ko, NAME.btf, order (the load order)
#   NAME/busybox       on architectures other than x86_64: the static busybox for the guests
# and, if one of them is for arm64,
#   bpftool-arm64      bpftool and its libraries for the guests (lib)
# The packages come from the sources of this machine's apt; apt's state is not changed. Existing
# kernels are kept: remove the directory of a kernel to fetch it again. A kernel that cannot be fetched
# is reported with the reason, and the exit status is 1. Needs apt, dpkg-deb, go, zstd, lz4, xz;
# downloads about 25 MB per kernel, and 115 MB for riscv64, which has no cloud kernel.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../setup/lib.sh"
dir=$(realpath -m "${1:-$here/../../build/kernels}")
[ $# -gt 0 ] && shift
names=${*:-5.10 6.1 6.12 sid 6.1-arm64 sid-arm64}

# name -> suite, and the pattern of its cloud kernel packages (ARCH is replaced by Debian's name of the
# architecture); the newest match is used.
declare -A suite=([6.12-full]=trixie [6.12-rt]=trixie [6.1-rt]=bookworm [5.10]=bullseye [6.1]=bookworm [6.12]=trixie [sid]=sid)
declare -A pattern=(
	[5.10]='^linux-image-5\.10\.0-[0-9]+-cloud-ARCH-unsigned$'
	[6.1]='^linux-image-6\.1\.0-[0-9]+-cloud-ARCH-unsigned$'
	[6.12]='^linux-image-6\.12\.[0-9]+\+deb13-cloud-ARCH-unsigned$'
	[6.1-rt]='^linux-image-6\.1\.0-[0-9]+-rt-ARCH-unsigned$'
	[6.12-rt]='^linux-image-6\.12\.[0-9]+\+deb13-rt-ARCH-unsigned$'
	[6.12-full]='^linux-image-6\.12\.[0-9]+\+deb13-ARCH-unsigned$'
	[sid]='^linux-(binary-unsigned-[0-9.]+\+deb[0-9]+-cloud-ARCH|image-[0-9.]+\+deb[0-9]+-cloud-ARCH-unsigned)$'
	[6.12-riscv64]='^linux-image-6\.12\.[0-9]+\+deb13-riscv64$'
	[sid-riscv64]='^linux-binary-[0-9.]+\+deb[0-9]+-riscv64$'
)
arch_of() { case $1 in *-arm64) echo arm64 ;; *-riscv64) echo riscv64 ;; *) echo amd64 ;; esac; }

# release_of NAME: NAME without its architecture.
release_of() { local n=${1%-arm64}; echo "${n%-riscv64}"; }

# pattern_of NAME: its own pattern, or else that of its release.
pattern_of() {
	local p=${pattern[$1]:-${pattern[$(release_of "$1")]}}
	echo "${p//ARCH/$(arch_of "$1")}"
}

# modules_of NAME: the modules that guests load, and for a full kernel also those described in the
# embedded targets.
modules_of() {
	case $1 in
	*-full*) echo crc32c_generic kvm xfs nf_conntrack nf_nat scsi_mod nf_tables nfsd nfs nfsv4 sunrpc cfg80211 mac80211 fuse \
		btrfs ext4 jbd2 i915 amdgpu drm gpu_sched nvme nvme_core overlay bridge cifs ceph libceph dm_mod f2fs \
		usbcore netfs cachefiles wireguard ip_vs binder_linux ;;
	*-riscv64) echo kvm xfs nf_conntrack scsi_mod nf_conntrack_irc nf_nat nf_tables nfsd nfs nfsv4 sunrpc cfg80211 mac80211 fuse \
		btrfs ext4 jbd2 drm gpu_sched nvme nvme_core overlay bridge cifs ceph libceph dm_mod f2fs \
		usbcore netfs cachefiles wireguard ip_vs binder_linux ;;
	*) echo kvm xfs nf_conntrack scsi_mod nf_conntrack_irc raid1 ;;
	esac
}

missing=
for n in $names; do [ -s "$dir/$n/vmlinux.btf" ] && [ -s "$dir/$n/modules/order" ] || missing="$missing $n"; done
# bpftool for guests of another architecture, with its libraries; from a release whose bpftool needs
# few of them.
tool="$dir/bpftool-arm64"
tool_suite=bookworm
wanttool=
case " $names " in *-arm64\ *) [ -x "$tool/bpftool" ] || wanttool=yes ;; esac

if [ -z "$missing$wanttool" ]; then
	for n in $names; do echo "kernel $n: $(cat "$dir/$n/release")"; done
	exit 0
fi

mirror=$(apt_mirror || true)
if [ -z "$mirror" ]; then
	echo "kernels:$missing${wanttool:+ bpftool-arm64}: not fetched: apt has no package source on this machine" >&2
	exit 1
fi
mkdir -p "$dir/.bin"
(cd "$here/../.." && go build -o "$dir/.bin/" ./tests/kernels/cmd/{unpackkernel,unpackmodules,extractbtf}) || exit 1

# begin ARCH NAME...: a separate package state for these suites, or for the suites of these kernels.
# The packages installed on this machine are ignored.
begin() {
	local arch=$1 suites
	shift
	suites=$(for n in "$@"; do echo "${suite[$(release_of "$n")]:-$n}"; done | sort -u)
	apt="$dir/.apt"
	rm -rf "$apt"
	mkdir -p "$apt"/{lists/partial,archives/partial,debs}
	: >"$apt/status"
	for n in $suites; do
		echo "deb [arch=$arch signed-by=$keyring] $mirror $n main"
	done >"$apt/sources.list"
	aptopt=(-o Dir::Etc::sourcelist="$apt/sources.list" -o Dir::Etc::sourceparts=-
		-o Dir::State::Lists="$apt/lists" -o Dir::State::status="$apt/status" -o Dir::Cache="$apt"
		-o Acquire::Languages=none -o APT::Architecture="$arch" -o APT::Architectures="$arch"
		-o APT::Sandbox::User=root -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false
		-o APT::Default-Release= -qq)
	apt-get "${aptopt[@]}" update || true # a missing suite is reported below as a kernel without a package
}

# newest PATTERN: prints the matching package with the highest version.
newest() {
	apt-cache "${aptopt[@]}" pkgnames linux- | grep -E "$1" | while read -r p; do
		echo "$(apt-cache "${aptopt[@]}" show "$p" | awk '/^Version:/ { print $2; exit }') $p"
	done | sort -V | tail -n 1 | cut -d' ' -f2
}

# fetch NAME: prints the reason if it fails.
fetch() {
	local n=$1 package packages vmlinuz config to="$dir/$1" x="$dir/.unpacked"
	local arch=$(arch_of "$n") base
	package=$(newest "$(pattern_of "$n")")
	[ -n "$package" ] || { echo "suite ${suite[$(release_of "$n")]} has no such package"; return 1; }
	packages=$package
	# Newer releases have the configuration and the modules in separate packages.
	base=${package#linux-binary-}
	if [ "$base" != "$package" ]; then
		for p in linux-base linux-modules; do
			apt-cache "${aptopt[@]}" show "$p-${base#unsigned-}" >/dev/null 2>&1 && packages="$packages $p-${base#unsigned-}"
		done
	fi
	[ "$arch" = amd64 ] || packages="$packages busybox-static"
	rm -rf "$x"
	mkdir -p "$to" "$x"
	(cd "$apt/debs" && apt-get "${aptopt[@]}" download $packages >&2) || { echo "cannot download $packages"; return 1; }
	for p in $packages; do dpkg-deb -x "$apt/debs/${p}"_*.deb "$x" || { echo "cannot unpack $p"; return 1; }; done
	vmlinuz=$(find "$x" \( -name 'vmlinuz*' -o -name 'vmlinux-*' \) -type f | head -n 1)
	config=$(find "$x" \( -name 'config-*' -o -name config \) -type f | head -n 1)
	[ -n "$vmlinuz" ] || { echo "$packages holds no kernel image"; return 1; }
	[ -n "$config" ] && cp "$config" "$to/config"
	local image="$to/vmlinux"
	if [ "$arch" != amd64 ]; then
		image="$to/Image"
		cp "$x/usr/bin/busybox" "$to/busybox" 2>/dev/null || cp "$x/bin/busybox" "$to/busybox" || { echo "busybox-static holds no busybox"; return 1; }
	fi
	rm -rf "$to/modules"
	"$dir/.bin/unpackmodules" "$x" "$to/modules.new" $(modules_of "$n") && mv "$to/modules.new" "$to/modules" || { echo "cannot unpack its modules"; return 1; }
	"$dir/.bin/unpackkernel" "$vmlinuz" "$image" || { echo "cannot unpack its vmlinuz"; return 1; }
	strings -n 8 "$image" | grep -m 1 '^Linux version [0-9]' | cut -d' ' -f3 >"$to/release"
	"$dir/.bin/extractbtf" "$image" "$to/vmlinux.btf.new" && mv "$to/vmlinux.btf.new" "$to/vmlinux.btf" || { echo "it has no BTF"; return 1; }
}

# fetch_tool copies bpftool and its libraries to $tool.
fetch_tool() {
	local x="$dir/.unpacked" to="$tool.new" name file
	rm -rf "$x" "$to"
	mkdir -p "$x" "$to/lib"
	(cd "$apt/debs" && apt-get "${aptopt[@]}" download bpftool libc6 libelf1 libcap2 zlib1g >&2) || { echo "cannot download it"; return 1; }
	for p in bpftool libc6 libelf1 libcap2 zlib1g; do dpkg-deb -x "$apt/debs/${p}"_*.deb "$x" || { echo "cannot unpack $p"; return 1; }; done
	cp "$x/usr/sbin/bpftool" "$to/bpftool" || { echo "its package holds no bpftool"; return 1; }
	for name in ld-linux-aarch64.so.1 libc.so.6 libelf.so.1 libcap.so.2 libz.so.1; do
		file=$(find "$x" -path "*/aarch64-linux-gnu/$name" | head -n 1)
		[ -n "$file" ] && cp -L "$file" "$to/lib/$name" || { echo "its packages hold no $name"; return 1; }
	done
	rm -rf "$tool"
	mv "$to" "$tool"
}

status=0
for arch in amd64 arm64 riscv64; do
	these=
	for n in $missing; do [ "$(arch_of "$n")" = $arch ] && these="$these $n"; done
	[ -n "$these" ] || continue
	begin $arch $these
	for n in $these; do
		if reason=$(fetch "$n"); then
			echo "kernel $n: $(cat "$dir/$n/release")"
		else
			echo "kernel $n: skipped: $reason" >&2
			status=1
		fi
	done
done
if [ -n "$wanttool" ]; then
	begin arm64 $tool_suite
	if reason=$(fetch_tool); then
		echo "bpftool-arm64: $tool_suite"
	else
		echo "bpftool-arm64: skipped: $reason" >&2
		status=1
	fi
fi
rm -rf "$dir/.unpacked" "$apt"
exit $status
