#!/bin/sh
# The main job for real, in a few seconds: compiles two scripts, starts a small
# workload of its own, traces it, and shows the report. Without root (or without
# bpf) it compiles and says what would follow.
set -eu
export LC_ALL=C # fewer files for cat to open
cd "$(dirname "$0")/.."
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM
say() { printf '\n%s\n' "$*"; }
show() { echo "\$ $*"; }
files() { for f in "$@"; do echo "    $(basename "$f")  $(($(wc -c <"$f"))) bytes"; done; }

say "1. Compile, on any machine: no root, no kernel headers, no BTF of this kernel."
show btc compile examples/demo-reads.bt -o reads.o
bin/btc compile examples/demo-reads.bt -o "$dir/reads.o"
files "$dir/reads.o" "$dir/reads.json"
show btc compile examples/demo-opens.bt -o opens.o
bin/btc compile examples/demo-opens.bt -o "$dir/opens.o"
files "$dir/opens.o" "$dir/opens.json"

if [ "$(uname -s)" != Linux ] || [ "$(id -u)" != 0 ]; then
  say "2. Tracing needs Linux and root, so this demo ends here. On the host, with these"
  echo "files and btrun ($(($(wc -c <bin/btrun) / 1024)) KiB, static), it would go on with:"
  show "sudo btrun reads.o dd    # until Ctrl-C: sizes and times of the reads of dd"
  show "sudo btrun opens.o cat   # until Ctrl-C: each file that a cat opens"
  exit 0
fi

cat >"$dir/reads.sh" <<'END'
for size in 1 16 200 512 4096 4096 65536 1048576; do
  dd if=/dev/zero of=/dev/null bs=$size count=100 2>/dev/null
done
END
trace() {
  bin/btrun "$@" || {
    echo "This machine does not let btrun trace; the objects above are good all the same."
    exit 1
  }
}

say "2. Trace a few runs of dd that this demo starts: time of each read in ns, and bytes."
show "sudo btrun -c 'sh reads.sh' reads.o dd"
trace -c "sh $dir/reads.sh" "$dir/reads.o" dd

say "3. Trace a cat: result and name of each file that it opens."
show "sudo btrun -c 'cat /etc/hostname /no/such/file' opens.o cat"
trace -c "cat /etc/hostname /no/such/file" "$dir/opens.o" cat 2>&1
