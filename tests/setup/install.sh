#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# install.sh [--no-kernels] [--oracle]: installs what the tests need on this machine.
#
# Packages are installed with apt if possible (root, Debian or a derivative), the kernels with
# tests/kernels/getkernels.sh, and, with --oracle, bpftrace for comparison with oracle.sh. Whatever
# exists is kept. For each thing that could not be installed, one line says what will be skipped; this
# is not an error: the exit status is 0 unless the arguments are wrong.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
kernels=yes oracle=no
for a in "$@"; do
	case $a in
	--no-kernels) kernels=no ;;
	--oracle) oracle=yes ;;
	*) echo "usage: install.sh [--no-kernels] [--oracle]" >&2; exit 2 ;;
	esac
done

# a file or program that shows that it is installed | package | what is skipped without it
needs='
busybox|busybox-static|every test on other kernels than this machine'"'"'s
zstd|zstd|fetching the 6.12 and sid kernels
lz4|lz4|fetching kernels packed with lz4
xz|xz-utils|fetching the 5.10 and 6.1 kernels
strings|binutils|fetching kernels
unshare|util-linux|tests on this machine'"'"'s kernel, the reference bpftrace
bpftool|bpftool|checks that bpftool accepts our objects
llvm-objdump|llvm|checks that llvm-objdump accepts our objects
aarch64-linux-gnu-gcc|gcc-aarch64-linux-gnu|cases on arm64 kernels with C programs (usdt, getaddrinfo)
/usr/aarch64-linux-gnu/include/stdio.h|libc6-dev-arm64-cross|cases on arm64 kernels with C programs (usdt, getaddrinfo)
riscv64-linux-gnu-gcc|gcc-riscv64-linux-gnu|cases on riscv64 kernels with C programs (usdt, getaddrinfo)
/usr/riscv64-linux-gnu/include/stdio.h|libc6-dev-riscv64-cross|cases on riscv64 kernels with C programs (usdt, getaddrinfo)
gcc|gcc|tests of a C library function (getaddrinfo)
g++|g++|tests that trace a C++ program
/usr/bin/python3|python3|tests that trace Python
curl|curl|tests that trace servers (Python, OpenSSL)
openssl|openssl|tests that trace OpenSSL
tmux|tmux|tests of what a terminal shows
minisign|minisign|tests of signatures made by minisign
ssh-keygen|openssh-client|tests of signatures made by ssh-keygen
psql|postgresql|a test that traces PostgreSQL
zip|zip|a runtime test of the reference
/usr/include/netdb.h|libc6-dev|tests of a C library function (getaddrinfo)
'
oracle_needs='
debootstrap|debootstrap|comparison with the reference bpftrace
mkfs.ext4|e2fsprogs|comparison with the reference bpftrace in a VM
/usr/share/keyrings/debian-archive-keyring.gpg|debian-archive-keyring|comparison with the reference bpftrace
'
# An unpacked QEMU is preferred to an old one of the system; see qemu.sh.
qemu="qemu-system-x86_64|qemu-system-x86|every test on other kernels than this machine's
"
"$here/qemu.sh" 2>&1 | sed 's/^/install: /' || needs="$needs$qemu"
[ $oracle = yes ] && needs="$needs$oracle_needs"
PATH=$PATH:/usr/sbin:/sbin

present() {
	case $1 in
	/*) [ -e "$1" ] ;;
	*) command -v "$1" >/dev/null 2>&1 ;;
	esac
}

# missing prints the lines of $needs for what is not installed.
missing() {
	echo "$needs" | while IFS='|' read -r proof package without; do
		[ -z "$proof" ] || present "$proof" || echo "$proof|$package|$without"
	done
}

apt_install() { DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>&1; }

why=
if [ -n "$(missing)" ]; then
	if [ "$(id -u)" != 0 ]; then
		why="not root, so apt was not tried"
	elif ! command -v apt-get >/dev/null; then
		why="this machine has no apt-get"
	else
		packages=$(missing | cut -d'|' -f2 | sort -u)
		echo "install: apt-get install" $packages
		apt-get update -qq >/dev/null 2>&1
		# A package that does not exist must not prevent installing the others.
		apt_install $packages || for p in $packages; do apt_install "$p"; done
		why="apt-get could not install it"
	fi
fi
missing | while IFS='|' read -r proof package without; do
	echo "install: no $proof (package $package: $why); skipped: $without"
done

[ $kernels = yes ] && "$here/../kernels/getkernels.sh" 2>&1 | sed 's/^/install: /'
[ $oracle = yes ] && "$here/oracle.sh" 2>&1 | sed 's/^/install: /'
exit 0
