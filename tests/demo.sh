#!/bin/sh
# The main job for real, in a few seconds: compiles two scripts, starts a small
# workload of its own, traces it, and shows the report. Without root (or without
# bpf) it compiles and says what would follow.
set -eu
cd "$(dirname "$0")/.."
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT INT TERM
run() { echo "\$ $*"; "$@"; }

echo "A laptop compiles; no root, no kernel headers, no BTF of this machine:"
run bin/btc compile examples/demo-reads.bt -o "$dir/reads.o"
run bin/btc compile -e 'tracepoint:syscalls:sys_enter_openat /comm == str($1)/ { printf("%-6d %s\n", pid, str(args.filename)); }' -o "$dir/opens.o"
ls -l "$dir" | awk 'NR > 1 { print "   " $5 " bytes  " $NF }'
echo
if [ "$(id -u)" != 0 ]; then
  echo "Not root: tracing needs it. On the host, run:"
  echo "   sudo btrun reads.o      # sizes of reads, for 3 seconds"
  echo "   sudo btrun opens.o cat  # files that cat opens"
  exit 0
fi
echo "The host traces; here a small dd and cat that this demo starts:"
( sleep 1; i=0; while [ $i -lt 40 ]; do dd if=/dev/zero of=/dev/null bs=$((1 << (i % 14))) count=50 2>/dev/null; i=$((i + 1)); done ) &
run bin/btrun "$dir/reads.o" dd || { echo "This machine does not let btrun trace; the objects above are good all the same."; exit 1; }
wait
echo
run bin/btrun -c "cat $dir/reads.json /etc/hostname" "$dir/opens.o" cat >"$dir/out" 2>&1 || { cat "$dir/out"; exit 1; }
head -12 "$dir/out"
