# SPDX-License-Identifier: Apache-2.0
# Runs in a namespace whose init is systemd; prints lines "WHAT: RESULT" for TestSystemd.
set -eu
cd /tmp
fail() {
	echo "failed: $*"
	systemctl status --no-pager 'btrun@*' || true
	journalctl --no-pager -b -u 'btrun@*' || true
	exit 1
}
# until N COMMAND...: runs a command each second until it succeeds, N times.
until_() {
	n=$1
	shift
	while ! "$@"; do
		n=$((n - 1))
		[ $n -gt 0 ] || fail "$*"
		sleep 1
	done
}

dpkg -i /share/btrun.deb /share/btc.deb >/dev/null
systemctl daemon-reload
btc compile -e 'tracepoint:syscalls:sys_enter_execve { @execs[comm] = count(); }' -o /etc/btrun/execs.o
echo 'OPTIONS=--every 1s -f prometheus -o /var/lib/btrun/execs.prom' >/etc/btrun/execs.conf
btc compile -e 'tracepoint:syscalls:sys_enter_execve { @execs[comm] = count(); @least[str($1)] = 1; }' -o /etc/btrun/maps.o
printf 'OPTIONS=-o /var/log/btrun/maps.txt\nPARAMETERS=given\n' >/etc/btrun/maps.conf

# The unit starts, and is started when the probes are attached.
systemctl enable --now btrun@execs 2>/dev/null || fail start
echo "enabled: $(systemctl is-enabled btrun@execs)"
[ "$(systemctl is-active btrun@execs)" = active ] || fail "not active"
has_execs() { for i in 1 2 3; do /bin/true; done; grep -q '^btc_execs_execs_total.*comm="sh"' /var/lib/btrun/execs.prom 2>/dev/null; }
until_ 30 has_execs
head -5 /var/lib/btrun/execs.prom

# systemd restarts what is killed.
first=$(systemctl show -p MainPID --value btrun@execs)
grep -E '^(NoNewPrivs|CapBnd):' /proc/$first/status
kill -9 "$first"
restarted() {
	[ "$(systemctl is-active btrun@execs)" = active ] && [ "$(systemctl show -p MainPID --value btrun@execs)" != "$first" ]
}
until_ 30 restarted
echo "restarts: $(systemctl show -p NRestarts --value btrun@execs)"

# A reload reads the object and the parameters again: maps that both objects have go on. One that fails says why, and
# changes nothing.
printf 'begin { printf("begin %%s\\n", str($1)); } tracepoint:syscalls:sys_enter_execve { @n = count(); } end { printf("end\\n"); }' >one.bt
printf 'begin { printf("begin %%s\\n", str($1)); } tracepoint:syscalls:sys_enter_execve { @n = count(); @comm[comm] = count(); }' >two.bt
btc compile one.bt -o /etc/btrun/again.o
printf 'OPTIONS=-o /var/log/btrun/again.txt\nPARAMETERS=first\n' >/etc/btrun/again.conf
systemctl start btrun@again || fail "start of again"
pid=$(systemctl show -p MainPID --value btrun@again)
systemctl show -p WatchdogTimestampMonotonic -p WatchdogUSec btrun@again
sh -c /bin/true
btc compile two.bt -o /etc/btrun/again.o
printf 'OPTIONS=-o /var/log/btrun/again.txt\nPARAMETERS="'"'two words'"'"\n' >/etc/btrun/again.conf
systemctl reload btrun@again || fail "reload"
echo "after the reload: $(systemctl is-active btrun@again) $(systemctl show -p StatusText --value btrun@again)"
[ "$(systemctl show -p MainPID --value btrun@again)" = "$pid" ] || fail "another process"
cp /etc/btrun/again.o saved.o
head -c 1000 saved.o >/etc/btrun/again.o
systemctl reload btrun@again 2>/dev/null && fail "a broken object is reloaded"
echo "after a reload that failed: $(systemctl is-active btrun@again) $(systemctl show -p StatusText --value btrun@again)"
until_ 10 sh -c 'journalctl --no-pager -b -u btrun@again | grep -q "not replaced.*again.o: the object is damaged"'
[ "$(systemctl show -p MainPID --value btrun@again)" = "$pid" ] || fail "another process"
cp saved.o /etc/btrun/again.o
for i in 1 2 3 4 5 6 7 8 9 10; do systemctl reload btrun@again || fail "reload $i"; done
/bin/true
systemctl stop btrun@again
cat /var/log/btrun/again.txt
[ "$(head -2 /var/log/btrun/again.txt | tr '\n' ,)" = "begin first,begin two words," ] || fail "the lines of begin"
grep -q '^@comm\[' /var/log/btrun/again.txt || fail "the new object did not count"
grep -q '^end' /var/log/btrun/again.txt && fail "the old object's end ran, though its maps are kept"
[ "$(grep -c '^@n: [1-9]' /var/log/btrun/again.txt)" = 1 ] || fail "@n is not one map"

# A reader that is stuck is noticed: it is stopped, and then killed by the watchdog and started again.
mkdir -p /etc/systemd/system/btrun@again.service.d
printf '[Service]\nWatchdogSec=4s\n' >/etc/systemd/system/btrun@again.service.d/watchdog.conf
systemctl daemon-reload
systemctl start btrun@again || fail "start of again"
sleep 10
[ "$(systemctl show -p NRestarts --value btrun@again)" = 0 ] || fail "the watchdog kills a run that is alive"
kill -STOP "$(systemctl show -p MainPID --value btrun@again)"
until_ 40 sh -c '[ "$(systemctl show -p NRestarts --value btrun@again)" -gt 0 ]'
echo "watchdog: restarted"
systemctl stop btrun@again

# SIGUSR1 and the end print the maps.
systemctl start btrun@maps || fail "start of maps"
/bin/true
systemctl kill -s USR1 btrun@maps
has_maps() { grep -q '^@execs\[.*\]: [1-9]' /var/log/btrun/maps.txt 2>/dev/null; }
until_ 30 has_maps
systemctl stop btrun@maps
[ "$(grep -c '^@least\[given\]: 1' /var/log/btrun/maps.txt)" = 2 ] || fail "$(cat /var/log/btrun/maps.txt)"
echo "maps after the stop: yes"
[ "$(systemctl show -p Result --value btrun@maps)" = success ] || fail "the stop failed"

# An object that the host refuses fails, with the reason in the journal.
head -c 1000 /etc/btrun/execs.o >/etc/btrun/broken.o
cp /etc/btrun/execs.json /etc/btrun/broken.json
systemctl start btrun@broken 2>/dev/null && fail "a broken object starts"
until_ 10 sh -c 'journalctl --no-pager -b -u btrun@broken | grep -q "btrun.*broken.o"'
journalctl --no-pager -b -u btrun@broken | tail -5
# It is started again and again, and between two starts there is no result.
until_ 10 sh -c '[ "$(systemctl show -p Result --value btrun@broken)" = exit-code ]'
echo "refused: exit-code"
systemctl disable --now btrun@execs 2>/dev/null
[ "$(systemctl is-active btrun@execs || true)" = inactive ] || fail "it does not stop"
grep -q '^btc_up.* 0$' /var/lib/btrun/execs.prom || fail "$(cat /var/lib/btrun/execs.prom)"
dpkg -r btc >/dev/null
