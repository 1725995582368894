#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# testprogs.sh CHECKOUT DIR: builds the programs and libraries that bpftrace's runtime tests trace from
# a checkout of bpftrace, in DIR/testprogs and DIR/testlibs, and links DIR/runtime and DIR/data to
# those of the checkout. Tests use DIR as their working directory.
#
# Needs gcc, and g++, go, rustc, objcopy, dwp and zip for some programs. What cannot be built is
# reported on stderr in one line each, which is not an error: the tests that need it are skipped.
# DIR/built marks that everything has been tried.
set -uo pipefail
[ $# = 2 ] || { echo "usage: testprogs.sh CHECKOUT DIR" >&2; exit 2; }
src=$(cd "$1/tests" && pwd) || exit 1
mkdir -p "$2/testprogs/.debug" "$2/testprogs/external_debug/dwo" "$2/testprogs/external_debug/dwp" "$2/testlibs" || exit 1
out=$(cd "$2" && pwd)
ln -sfn "$src/runtime" "$out/runtime"
ln -sfn "$src/data" "$out/data"
ln -sfn testprogs/external_debug "$out/external_debug"
export src out
cd "$out/testprogs" || exit 1

flags="-g -O0 -w -fno-omit-frame-pointer -I$src/include -I$src/testlibs"
[ "$(uname -m)" = aarch64 ] || flags="$flags -mno-omit-leaf-frame-pointer"
export flags

lib() {
	gcc -g -O0 -w -fPIC -shared -I"$src/include" -o "$out/testlibs/lib$1.so" "$src/testlibs/$1.c" &&
		chmod -x "$out/testlibs/lib$1.so" # tracing a library does not require the execute permission
}

# program FILE: builds a position-dependent and a position-independent executable.
program() {
	local name=${1##*/} cc=gcc own=$flags libs=
	case $name in *.cpp) cc=g++ ;; esac
	name=${name%.*}
	case $name in
	usdt_lib) own="$flags -fPIC" libs="-L$out/testlibs -lusdt_tp -Wl,-rpath,$out/testlibs" ;;
	uprobe_nofp) own="-g -O1 -w -fomit-frame-pointer -fno-optimize-sibling-calls" ;;
	esac
	$cc $own -no-pie -o "$name" "$1" $libs -lpthread && $cc $own -fpie -pie -o "$name-pie" "$1" $libs -lpthread
}

try() {
	local what=$1
	shift
	"$@" >"$out/log.$$.$RANDOM" 2>&1 || echo "testprogs: $what could not be built" >&2
}
export -f lib program try

for f in "$src"/testlibs/*.c; do
	f=${f##*/}
	try "lib${f%.c}.so" lib "${f%.c}"
done
ls "$src"/testprogs/*.c "$src"/testprogs/*.cpp | xargs -P"$(nproc)" -I{} bash -c 'f={}; try "${f##*/}" program "$f"'

try hello_go env GOFLAGS=-mod=mod GO111MODULE=off go build -o hello_go "$src/testprogs/hello_go.go"
try hello_rust rustc -C symbol_mangling_version=v0 -o hello_rust "$src/testprogs/hello_rust.rs"

flat() { gcc -c "$src/testprogs/false.c" -o false.o && objcopy -O binary --only-section=.text false.o false.bin; }
export -f flat
try false.bin flat
try archive.zip zip -q -0 -j archive.zip true

# separate PROGRAM DIRECTORY: creates the program without debug information, and a file with its debug
# information.
separate() {
	objcopy --only-keep-debug "$1" "$2/$1-stripped.debug" && objcopy --strip-debug "$1" "$1-stripped" &&
		objcopy --remove-section=.gnu_debuglink --add-gnu-debuglink="$2/$1-stripped.debug" "$1-stripped"
}
try uprobe_test-stripped separate uprobe_test external_debug
try uprobe_separate_debug-stripped separate uprobe_separate_debug .debug

# Debug information split off by the compiler, as separate files and as one package.
split() { (cd "external_debug/$1" && gcc -g -O0 -w -gsplit-dwarf -o uprobe_test-split "$src/testprogs/uprobe_test.c"); }
package() {
	split dwp && (cd external_debug/dwp && "$(command -v llvm-dwp || echo dwp)" -e uprobe_test-split -o uprobe_test-split.dwp && rm -f ./*.dwo)
}
try "the program with split debug information" split dwo
try "the program with packaged debug information" package

rm -f "$out"/log.*
touch "$out/built"
