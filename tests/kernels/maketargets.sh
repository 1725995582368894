#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# maketargets.sh [DIR]: makes the embedded targets from the files that getkernels.sh and gettracefs.sh
# wrote to DIR (default build/kernels) for 6.12-full, 6.12-full-arm64, sid and sid-arm64. The same
# input gives the same bytes.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=$(realpath -m "${1:-$here/../../build/kernels}")
cd "$here/../.."

# Modules to describe completely. Of others, only tracepoints and the types close to them are
# described.
modules=kvm,xfs,nf_conntrack,nf_nat,nf_tables,nfsd,nfs,nfsv4,sunrpc,lockd,cfg80211,mac80211,btrfs,ext4,jbd2,drm
modules=$modules,nvme,nvme_core,overlay,bridge,scsi_mod,scsi_common,fuse,gpu_sched
# What members that targets/kernel/history.go calls optional are made of.
structs=sched_ext_entity,scx_rq

go run ./tools/maketarget make -dir "$dir/6.12-full" -modules $modules -more "$dir/sid:$structs" -o targets/kernel/default_x86_64.target
go run ./tools/maketarget make -dir "$dir/6.12-full-arm64" -arch aarch64 -modules $modules -more "$dir/sid-arm64:$structs" \
	-over targets/kernel/default_x86_64.target -o targets/kernel/default_aarch64.target
go run ./tools/maketarget make -dir "$dir/sid-riscv64" -arch riscv64 -modules $modules \
	-over targets/kernel/default_x86_64.target -o targets/kernel/default_riscv64.target
