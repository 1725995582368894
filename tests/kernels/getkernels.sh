#!/bin/bash
# getkernels.sh [DIR] [NAME...]: fetches the Debian kernels to test on.
#
# DIR (default build/kernels) receives, for each of 5.10 6.1 6.12 sid,
#   NAME/vmlinux       the unpacked kernel
#   NAME/vmlinux.btf   its type information, as /sys/kernel/btf/vmlinux
#   NAME/config        its configuration
#   NAME/release       its "uname -r"
# Packages come from where this machine's apt gets its own; apt's state is not
# touched. A kernel that is there already is kept: remove its folder to renew it.
# A kernel that cannot be had is named with the reason, and the exit status is 1.
# Needs: apt, dpkg-deb, go, zstd, lz4, xz; about 25 MB of downloads a kernel.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../setup/lib.sh"
dir=$(realpath -m "${1:-$here/../../build/kernels}")
[ $# -gt 0 ] && shift
names=${*:-5.10 6.1 6.12 sid}

# name -> suite, and the pattern of its cloud kernel packages; the newest match wins.
declare -A suite=([5.10]=bullseye [6.1]=bookworm [6.12]=trixie [sid]=sid)
declare -A pattern=(
	[5.10]='^linux-image-5\.10\.0-[0-9]+-cloud-amd64-unsigned$'
	[6.1]='^linux-image-6\.1\.0-[0-9]+-cloud-amd64-unsigned$'
	[6.12]='^linux-image-6\.12\.[0-9]+\+deb13-cloud-amd64-unsigned$'
	[sid]='^linux-(binary-unsigned-[0-9.]+\+deb[0-9]+-cloud-amd64|image-[0-9.]+\+deb[0-9]+-cloud-amd64-unsigned)$'
)

missing=
for n in $names; do [ -s "$dir/$n/vmlinux.btf" ] || missing="$missing $n"; done
if [ -z "$missing" ]; then
	for n in $names; do echo "kernel $n: $(cat "$dir/$n/release")"; done
	exit 0
fi

mirror=$(apt_mirror || true)
if [ -z "$mirror" ]; then
	echo "kernels:$missing: not fetched: apt has no package source on this machine" >&2
	exit 1
fi
apt="$dir/.apt"
mkdir -p "$apt"/{lists/partial,archives/partial,debs} "$dir/.bin"
for n in $missing; do
	echo "deb [signed-by=$keyring] $mirror ${suite[$n]} main"
done >"$apt/sources.list"
aptopt=(-o Dir::Etc::sourcelist="$apt/sources.list" -o Dir::Etc::sourceparts=-
	-o Dir::State::Lists="$apt/lists" -o Dir::Cache="$apt" -o Acquire::Languages=none
	-o APT::Sandbox::User=root -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false
	-o APT::Default-Release= -qq)
apt-get "${aptopt[@]}" update || true # a suite that is gone shows below as a kernel without package
(cd "$here/../.." && go build -o "$dir/.bin/" ./tests/kernels/cmd/unpackkernel ./tests/kernels/cmd/extractbtf) || exit 1

# newest PATTERN: the matching package with the highest version.
newest() {
	apt-cache "${aptopt[@]}" pkgnames linux- | grep -E "$1" | while read -r p; do
		echo "$(apt-cache "${aptopt[@]}" show "$p" | awk '/^Version:/ { print $2; exit }') $p"
	done | sort -V | tail -n 1 | cut -d' ' -f2
}

# fetch NAME: prints the reason when it fails.
fetch() {
	local n=$1 package packages vmlinuz config to="$dir/$1" x="$dir/.unpacked"
	package=$(newest "${pattern[$n]}")
	[ -n "$package" ] || { echo "suite ${suite[$n]} has no such package"; return 1; }
	packages=$package
	# Newer releases keep the configuration in a package of its own.
	local base="linux-base-${package#linux-binary-unsigned-}"
	if [ "$base" != "linux-base-$package" ] && apt-cache "${aptopt[@]}" show "$base" >/dev/null 2>&1; then packages="$package $base"; fi
	rm -rf "$x"
	mkdir -p "$to" "$x"
	(cd "$apt/debs" && apt-get "${aptopt[@]}" download $packages >&2) || { echo "cannot download $packages"; return 1; }
	for p in $packages; do dpkg-deb -x "$apt/debs/${p}"_*.deb "$x" || { echo "cannot unpack $p"; return 1; }; done
	vmlinuz=$(find "$x" -name 'vmlinuz*' -type f | head -n 1)
	config=$(find "$x" -name 'config*' -type f | head -n 1)
	[ -n "$vmlinuz" ] || { echo "$packages holds no vmlinuz"; return 1; }
	[ -n "$config" ] && cp "$config" "$to/config"
	"$dir/.bin/unpackkernel" "$vmlinuz" "$to/vmlinux" || { echo "cannot unpack its vmlinuz"; return 1; }
	strings -n 8 "$to/vmlinux" | grep -m 1 '^Linux version ' | cut -d' ' -f3 >"$to/release"
	"$dir/.bin/extractbtf" "$to/vmlinux" "$to/vmlinux.btf.new" && mv "$to/vmlinux.btf.new" "$to/vmlinux.btf" || { echo "it has no BTF"; return 1; }
}

status=0
for n in $missing; do
	if reason=$(fetch "$n"); then
		echo "kernel $n: $(cat "$dir/$n/release")"
	else
		echo "kernel $n: skipped: $reason" >&2
		status=1
	fi
done
rm -rf "$dir/.unpacked" "$apt"
exit $status
