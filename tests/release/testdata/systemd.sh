#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs systemd as the first process of a PID namespace, in a copy of a Debian, on this kernel:
#   unshare --mount --pid --fork --cgroup --uts --ipc sh systemd.sh ROOT WORK
# ROOT is a directory with Debian, which is not changed. WORK has btc.deb, btrun.deb and service.sh, which
# systemd runs as a service once all others run; WORK/result receives what it prints, and its status.
set -e
base=$1 share=$2
mount --make-rprivate /
mount -t tmpfs tmpfs "$share/top"
mkdir "$share/top/up" "$share/top/work" "$share/top/root"
root=$share/top/root
mount -t overlay overlay -o "lowerdir=$base,upperdir=$share/top/up,workdir=$share/top/work" "$root"
cat >"$root/etc/systemd/system/test.service" <<'UNIT'
[Unit]
After=multi-user.target
[Service]
Environment=HOME=/root LANG=C.UTF-8
ExecStart=/bin/sh -c 'sh /share/service.sh >/share/result 2>&1; echo "exit $?" >>/share/result; systemctl exit 0'
UNIT
mkdir -p "$root/etc/systemd/system/multi-user.target.wants"
ln -s ../test.service "$root/etc/systemd/system/multi-user.target.wants/test.service"
echo 0123456789abcdef0123456789abcdef >"$root/etc/machine-id" # not the first boot, which asks questions
umount -l /sys/fs/cgroup 2>/dev/null || true
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/dev"
for d in null zero full random urandom tty; do
	touch "$root/dev/$d"
	mount --bind "/dev/$d" "$root/dev/$d"
done
mkdir -p "$root/dev/pts" "$root/dev/shm" "$root/share" "$root/old"
[ -e "$root/sys/kernel/tracing/events" ] || mount -t tracefs tracefs "$root/sys/kernel/tracing"
mount --bind "$share" "$root/share"
cd "$root"
pivot_root . old
umount -l /old
exec env -i container=test /sbin/init
