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

dpkg -i /share/btc.deb >/dev/null
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
echo "refused: $(systemctl show -p Result --value btrun@broken)"
systemctl disable --now btrun@execs 2>/dev/null
[ "$(systemctl is-active btrun@execs || true)" = inactive ] || fail "it does not stop"
grep -q '^btc_up.* 0$' /var/lib/btrun/execs.prom || fail "$(cat /var/lib/btrun/execs.prom)"
dpkg -r btc >/dev/null
