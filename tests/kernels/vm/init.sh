#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0
# The first process in a guest: mounts the file systems for tracing, runs /vmrun/cmd, and reports on
# ttyS3.
export PATH=/bin:/sbin:/usr/bin:/usr/sbin HOME=/root TERM=dumb LANG=C.UTF-8
mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs tmp /tmp
ln -s /proc/self/fd /dev/fd
ln -s /proc/self/fd/0 /dev/stdin
ln -s /proc/self/fd/1 /dev/stdout
ln -s /proc/self/fd/2 /dev/stderr
for p in 1 2 3; do stty -F /dev/ttyS$p raw -echo 115200; done
mount -t tracefs trace /sys/kernel/tracing
mount -t debugfs debug /sys/kernel/debug 2>/dev/null
mount -t securityfs sec /sys/kernel/security 2>/dev/null
mount -t bpf bpf /sys/fs/bpf
mount -t cgroup2 cg /sys/fs/cgroup
mkdir -p /dev/pts /dev/shm
mount -t devpts pts /dev/pts
mount -t tmpfs shm /dev/shm
ip link set lo up
hostname vm
ulimit -l unlimited
# Debian's kernels for riscv64 start with the interpreter, which rejects some programs.
echo 1 >/proc/sys/net/core/bpf_jit_enable

uptime() { cut -d' ' -f1 /proc/uptime; }
report() { echo "$*" >/dev/ttyS3; }

# NVMe devices are probed asynchronously: find a disk by its serial number, not by its name.
disk() {
	n=0
	while [ $n -lt 200 ]; do
		for b in /sys/block/nvme*; do
			if [ -b /dev/${b##*/} ] && [ "$(tr -d ' ' <$b/device/serial 2>/dev/null)" = "$1" ]; then
				echo /dev/${b##*/}
				return
			fi
		done
		sleep 0.05
		n=$((n + 1))
	done
	echo /dev/no-disk-$1
}

# Kernels for real machines have the NVMe driver as a module.
for m in $(cat /vmrun/modules/order 2>/dev/null); do insmod /vmrun/modules/$m.ko; done
[ -e /vmrun/scratch ] && ln -s $(disk scratch) /dev/scratch
root=
if [ -e /vmrun/disk ]; then
	root=/mnt
	mount -t ext4 $(disk root) /mnt || { report fail cannot mount the root disk; poweroff -f; }
	for d in proc sys dev tmp; do
		mkdir -p /mnt/$d
		mount -o rbind /$d /mnt/$d
	done
	mkdir -p /mnt/vmrun /mnt/out
	cp -a /vmrun/. /mnt/vmrun/
	[ -d /put ] && cp -a /put/. /mnt/
fi
report start $(uptime)
chroot "$root/" /bin/sh /vmrun/cmd </dev/null >/dev/ttyS1 2>/dev/ttyS2
rc=$?
report end $(uptime)
if [ -e /vmrun/out ]; then
	tar -C "$root/out" -cf $(disk out) . && sync || report fail cannot write the out disk
fi
report exit $rc
poweroff -f
