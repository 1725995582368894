#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Shows the main use in a few seconds: compiles two scripts, starts a small workload, traces it, and
# prints the report. What this user may not do on this machine is left out, with the reason. The demo
# fails if something that should work does not.
set -eu
export LC_ALL=C # fewer files for cat to open
cd "$(dirname "$0")/.."
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM
say() { printf '\n%s\n' "$*"; }
show() { echo "\$ $*"; }
files() { for f in "$@"; do echo "    $(basename "$f")  $(($(wc -c <"$f"))) bytes"; done; }
fail() { say "demo: failed: $*"; exit 1; }

say "1. Compile, on any machine: no root, no kernel headers, no BTF of this kernel."
show btc compile examples/demo-reads.bt -o reads.o
bin/btc compile examples/demo-reads.bt -o "$dir/reads.o"
files "$dir/reads.o" "$dir/reads.json"
show btc compile examples/demo-opens.bt -o opens.o
bin/btc compile examples/demo-opens.bt -o "$dir/opens.o"
files "$dir/opens.o" "$dir/opens.json"

# status prints a field of this process's status; has looks up a capability.
status() { sed -n "s/^$1:[[:space:]]*//p" /proc/self/status; }
has() { [ $(((caps >> $1) & 1)) = 1 ]; }
DAC_OVERRIDE=1 DAC_READ_SEARCH=2 SYS_ADMIN=21 PERFMON=38 BPF=39

# Why this user may not trace at all, and why not tracepoints; empty if nothing prevents it.
no_tracing='' no_tracepoints=''
if [ "$(uname -s)" != Linux ]; then
  no_tracing="Tracing needs Linux and root"
else
  caps=$((0x$(status CapEff)))
  if ! awk 'NR == 1 && $1 == 0 && $2 == 0 && $3 == 4294967295 { ok = 1 } END { exit !ok || NR > 1 }' /proc/self/uid_map; then
    no_tracing="Tracing needs Linux and root; root of a user namespace (a rootless container) is not enough"
  elif ! has $SYS_ADMIN && ! { has $BPF && has $PERFMON; }; then
    no_tracing="Tracing needs Linux and root, or CAP_BPF and CAP_PERFMON, which this process does not have"
  elif grep -q '\[confidentiality\]' /sys/kernel/security/lockdown 2>/dev/null; then
    no_tracing="Kernel lockdown is in mode confidentiality here and forbids BPF programs to read kernel memory"
  fi
  mounted=
  for at in /sys/kernel/tracing /sys/kernel/debug/tracing; do
    if [ -e $at/events ] || { [ -d $at ] && [ ! -x $at ]; }; then mounted=$at; fi
    [ ! -r $at/events/syscalls/sys_enter_read/id ] || { mounted=readable; break; }
  done
  if [ "$mounted" = readable ]; then
    :
  elif [ "$(id -u)" != 0 ] && ! has $DAC_OVERRIDE && ! has $DAC_READ_SEARCH; then
    no_tracepoints="this user may not read tracefs: it needs CAP_DAC_READ_SEARCH"
  elif [ -z "$mounted" ] && ! has $SYS_ADMIN; then
    no_tracepoints="tracefs is not mounted here, and btrun opens it by itself only with CAP_SYS_ADMIN"
  elif [ -n "$mounted" ] && [ -d $mounted/events ] && [ ! -e $mounted/events/syscalls ]; then
    no_tracepoints="this kernel has no tracepoints of system calls (CONFIG_FTRACE_SYSCALLS)"
  fi
fi

if [ -n "$no_tracing" ]; then
  say "2. $no_tracing,"
  echo "so this demo ends here. On the host, with these files and btrun"
  echo "($(($(wc -c <bin/btrun) / 1024)) KiB, static), it would go on with:"
  show "sudo btrun reads.o dd    # until Ctrl-C: sizes and times of the reads of dd"
  show "sudo btrun opens.o cat   # until Ctrl-C: each file that a cat opens"
  exit 0
fi

cat >"$dir/reads.sh" <<'END'
for size in 1 16 200 512 4096 4096 65536 1048576; do
  dd if=/dev/zero of=/dev/null bs=$size count=100 2>/dev/null
done
END

# trace PATTERN ARGUMENTS: runs btrun and checks that a line of its output matches the pattern.
trace() {
  want=$1
  shift
  ended=0
  bin/btrun "$@" >"$dir/out" 2>&1 || ended=$?
  cat "$dir/out"
  if [ $ended = 0 ]; then
    grep -q -e "$want" "$dir/out" || fail "btrun ran, but its report has no line like '$want'"
    return
  fi
  # A system call filter (in containers) may forbid bpf(2) even with the capabilities.
  if [ "$(status Seccomp)" = 2 ] && grep -q -i -e 'not permitted' -e 'permission denied' -e 'no BPF' -e 'forbids' "$dir/out"; then
    say "A seccomp filter of this container forbids tracing, so this demo ends here."
    exit 0
  fi
  if grep -q -e 'this kernel has no BPF' -e 'This kernel has no tracepoints of system calls' "$dir/out"; then
    say "This kernel lacks what the demo traces, so it ends here."
    exit 0
  fi
  fail "btrun ended with status $ended; the objects above are good all the same"
}

if [ -n "$no_tracepoints" ]; then
  say "2. Trace a few runs of dd that this demo starts: which system calls it makes."
  echo "Left out: sizes and times of its reads, and the files that a cat opens:"
  echo "$no_tracepoints."
  script='rawtracepoint:sys_enter /comm == str($1)/ { @calls[syscall_name(arg1)] = count(); }'
  show "btc compile -e '$script' -o calls.o"
  bin/btc compile -e "$script" -o "$dir/calls.o"
  files "$dir/calls.o" "$dir/calls.json"
  show "btrun -c 'sh reads.sh' calls.o dd"
  trace '^@calls\[read\]: [1-9]' -c "sh $dir/reads.sh" "$dir/calls.o" dd
  exit 0
fi

say "2. Trace a few runs of dd that this demo starts: time of each read in ns, and bytes."
show "sudo btrun -c 'sh reads.sh' reads.o dd"
trace '^\[1M, 2M) *100 |' -c "sh $dir/reads.sh" "$dir/reads.o" dd

say "3. Trace a cat: result and name of each file that it opens."
show "sudo btrun -c 'cat /etc/hostname /no/such/file' opens.o cat"
trace '^cat  *-2  */no/such/file$' -c "cat /etc/hostname /no/such/file" "$dir/opens.o" cat
