#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# gettracefs.sh [DIR] [NAME...]: boots the kernels that getkernels.sh fetched to
# DIR (default build/kernels) and writes DIR/NAME/tracefs.tar for each, with
#   events/*/*/format, events/header_page   tracepoint layouts
#   available_filter_functions              functions that can be traced
#   kallsyms                                all symbols with their addresses
# including those of the modules that getkernels.sh keeps, except on riscv64. Existing files are kept.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=$(realpath -m "${1:-$here/../../build/kernels}")
[ $# -gt 0 ] && shift
cd "$here/../.."
for n in ${*:-5.10 6.1 6.12 sid 6.1-arm64 sid-arm64}; do
	[ -s "$dir/$n/tracefs.tar" ] && continue
	[ -s "$dir/$n/vmlinux.btf" ] || { echo "gettracefs: no kernel $n in $dir" >&2; continue; }
	room=
	case $n in *-full* | *-riscv64) room="-t 40m -m 3000" ;; esac # loads many large modules
	# On riscv64, loading all modules takes more than 9 minutes.
	modules='$(cat /modules/order)'
	case $n in *-riscv64) modules= ;; esac
	# A single awk reads all files, because starting a process for each is slow under emulation.
	go run ./tests/kernels/cmd/vmrun -kdir "$dir" -k "$n" $room -put "$dir/$n/modules:/modules" -out "$dir/$n/tracefs.tar.new" -- '
		for m in '"$modules"'; do insmod /modules/$m.ko || echo "no module $m" >&2; done
		cd /sys/kernel/tracing
		cat /proc/kallsyms >/out/kallsyms
		cat available_filter_functions >/out/available_filter_functions
		find events -type d | sed "s|^|/out/|" | xargs mkdir -p
		cat events/header_page >/out/events/header_page
		find events -name format | xargs awk '"'"'{
			f = "/out/" FILENAME
			if (f != last) { if (last) close(last); last = f }
			print > f
		}'"'"''
	mv "$dir/$n/tracefs.tar.new" "$dir/$n/tracefs.tar"
done
