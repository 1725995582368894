#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# qemu.sh [DIR]: fetches a QEMU with correct emulation, without installing it.
#
# QEMU 7.2 (Debian 12) breaks a guest about once in half a minute of heavy work: the flags register
# gets impossible bits, and the kernel dies of a double fault. If the QEMU of this machine is older
# than version 8, the one of a newer Debian suite is unpacked with all its libraries to DIR (default
# build/qemu), to be run as DIR/qemu-system-x86_64, DIR/qemu-system-aarch64 and
# DIR/qemu-system-riscv64. Does not change apt's state and does not need root.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
dir=$(realpath -m "${1:-$here/../../build/qemu}")
# Each program with its package.
programs="qemu-system-x86_64 qemu-system-aarch64 qemu-system-riscv64"
packages="qemu-system-x86 qemu-system-arm qemu-system-riscv"
version() { "$1" --version 2>/dev/null | sed -n 's/^QEMU emulator version \([0-9]*\).*/\1/p'; }

# lowest PREFIX: prints the lowest version of the programs, or 0 if one is missing or broken.
lowest() {
	local v low=
	for p in $programs; do
		v=$(version "$1$p" || true)
		[ -n "$low" ] && [ "${v:-0}" -ge "$low" ] || low=${v:-0}
	done
	echo "$low"
}

if [ -z "${1:-}" ] && [ "$(lowest "")" -ge 8 ]; then
	echo "qemu: this machine's own, version $(lowest "")"
	exit 0
fi
if [ "$(lowest "$dir/")" != 0 ]; then
	echo "qemu: version $(lowest "$dir/") in $dir"
	exit 0
fi
fail() { echo "qemu: not fetched: $*" >&2; exit 1; }
mirror=$(apt_mirror || true)
[ -n "$mirror" ] || fail "apt has no package source on this machine"

# Guests may be running from an older copy: the new one is moved into place when it is complete.
new="$dir.new"
apt="$new/.apt"
rm -rf "$new"
mkdir -p "$apt"/{lists/partial,archives/partial}
: >"$apt/status"
echo "deb [signed-by=$keyring] $mirror ${SUITE:-trixie} main" >"$apt/sources.list"
# The package state is empty, so everything including the C library is downloaded.
aptopt=(-o Dir::Etc::sourcelist="$apt/sources.list" -o Dir::Etc::sourceparts=-
	-o Dir::State::Lists="$apt/lists" -o Dir::State::status="$apt/status" -o Dir::Cache="$apt"
	-o Acquire::Languages=none -o APT::Sandbox::User=root -o APT::Default-Release= -o Debug::NoLocking=1
	-o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false -qq -y --no-install-recommends)
apt-get "${aptopt[@]}" update || fail "apt-get update"
apt-get "${aptopt[@]}" --download-only install $packages >/dev/null || fail "apt-get could not download $packages"
for p in "$apt"/archives/*.deb; do
	# Only what QEMU needs at run time: libraries, the program, its firmware.
	dpkg-deb --fsys-tarfile "$p" | tar -x -C "$new" --wildcards --no-wildcards-match-slash \
		'./lib' './usr/lib' './usr/lib64' './lib64' './usr/share/qemu' './usr/share/seabios' \
		$(printf './usr/bin/%s ' $programs) 2>/dev/null || true
done
rm -rf "$apt"
for p in $programs; do
	cat >"$new/$p" <<RUN
#!/bin/sh
# Runs the unpacked QEMU with its own C library.
d=\$(dirname "\$(realpath "\$0")")
lib=\$d/usr/lib/x86_64-linux-gnu
exec "\$lib/ld-linux-x86-64.so.2" --library-path "\$lib:\$(dirname "\$lib")" --argv0 $p \
	"\$d/usr/bin/$p" -L "\$d/usr/share/qemu" -L "\$d/usr/share/seabios" "\$@"
RUN
	chmod +x "$new/$p"
	[ "$(version "$new/$p")" != "" ] || fail "$("$new/$p" --version 2>&1 | head -n 3)"
done
rm -rf "$dir.old"
[ ! -e "$dir" ] || mv "$dir" "$dir.old"
mv "$new" "$dir"
rm -rf "$dir.old"
echo "qemu: version $(lowest "$dir/") in $dir"
